//! What both gateways do with traffic: relaying, UDP associations, DNS messages, limits.

pub mod association;
pub mod connect;
pub mod dns;
pub mod limits;
pub mod queue;
pub mod relay;
pub mod udp;
