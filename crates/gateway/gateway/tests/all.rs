//! The gateway in one process and as a program.

mod config;
mod messages;
mod operation;
mod parsers;
mod process;
mod strangers;
mod systemd;
mod traffic;
mod units;
mod virtual_time;
