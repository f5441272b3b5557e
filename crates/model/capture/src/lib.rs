//! Packets of simulated connections as pcapng files, as a capture at each sender would have them.
//!
//! A simulator reports connections, data packets and acknowledgements, in packets; [`Capture`]
//! writes a file per host, with an interface per path: Ethernet, IPv4 and TCP with timestamps,
//! SACK (RFC 2018) and the options of Multipath TCP (RFC 8684). Payload is not stored: the files
//! have the headers and the original length of each packet.

#![forbid(unsafe_code)]

mod capture;
mod connection;
mod frame;

pub use capture::{Capture, HostName};
pub use connection::{Ack, Data, Endpoint, Opening};
