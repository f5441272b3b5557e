//! Traffic from a client through both gateways to a destination, over each carrier.

mod bad_input;
mod boundaries;
mod change;
mod connect;
mod dns;
mod endings;
mod harness;
mod http;
mod keys;
mod link;
mod loops;
mod names;
mod places;
mod refusals;
mod restart;
mod stalled;
mod starvation;
mod udp;
