//! The carrier `quic` between two gateways on loopback.

mod hostile;
mod paths;
mod relay;
mod streams;
mod support;
mod turns;
