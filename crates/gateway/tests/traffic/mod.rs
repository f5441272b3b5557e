//! Traffic from a client through both gateways to a destination, over each carrier.

mod bad_input;
mod change;
mod connect;
mod dns;
mod harness;
mod keys;
mod killed;
mod places;
mod refusals;
mod restart;
mod udp;
