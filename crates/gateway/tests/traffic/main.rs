//! Traffic from a client through both gateways to a destination, over each carrier.

mod connect;
mod harness;
