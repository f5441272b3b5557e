//! The carrier `mptcp`: over loopback without privileges, and over several paths as root.

mod connections;
mod join;
mod paths;
mod queues;
mod streams;
