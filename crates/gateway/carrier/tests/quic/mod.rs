//! The carrier `quic` between two gateways on loopback.

mod paths;
mod relay;
mod streams;
