//! The emulated network between the hosts: links, the thread that forwards packets, captures.

mod batch;
pub mod capture;
pub mod clock;
pub mod emulator;
pub mod forwarder;
pub mod ledger;
pub mod packet;
