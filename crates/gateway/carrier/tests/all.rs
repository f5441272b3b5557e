//! Both carriers on loopback and, as root, between hosts.

mod mptcp;
mod quic;
mod strangers;
mod support;
mod tunnels;
