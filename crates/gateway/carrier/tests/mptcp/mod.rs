//! The carrier `mptcp`: over loopback without privileges, and over several paths as root.

mod join;
mod mux;
mod paths;
mod queues;
mod streams;
mod turns;
