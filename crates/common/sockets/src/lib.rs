//! State of TCP and Multipath TCP sockets in Linux: of each subflow, and the names of the kernel's
//! congestion controls.

pub mod algorithms;
mod info;

pub use info::{Subflow, mptcp_info, tcp_info, unacknowledged_bytes, unread_bytes, unsent_bytes};
