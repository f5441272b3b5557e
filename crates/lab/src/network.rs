//! The emulated network between the hosts: links, the thread that forwards packets, captures.

pub mod capture;
pub mod clock;
pub mod emulator;
pub mod forwarder;
pub mod lateness;
pub mod ledger;
mod moderation;
pub mod packet;
