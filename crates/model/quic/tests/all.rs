//! QUIC in virtual time: laws, shares, random networks and qlog.

mod features;
mod laws;
mod qlog;
mod random;
mod shares;
mod watch;
