//! The carrier `mptcp`: over loopback without privileges, and over several paths as root.

mod join;
mod mux;
mod paths;
mod queues;
pub mod setup;
mod streams;
mod turns;
