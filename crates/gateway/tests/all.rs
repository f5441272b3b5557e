//! The gateway in one process and as a program.

mod config;
mod failure;
mod mptcp;
mod operation;
mod parsers;
mod process;
mod quic;
mod strangers;
mod traffic;
mod units;
