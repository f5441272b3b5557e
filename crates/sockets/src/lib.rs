//! What Linux knows of TCP and Multipath TCP sockets: the state of each subflow, and the names of its
//! congestion controls.

pub mod algorithms;
mod info;

pub use info::{Subflow, mptcp_info, tcp_info, unsent_bytes};
