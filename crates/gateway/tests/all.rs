//! The gateway in one process and as a program.

mod config;
mod mptcp;
mod operation;
mod parsers;
mod process;
mod quic;
mod traffic;
