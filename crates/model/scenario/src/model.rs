//! The parts of a scenario: flows, links, endpoints, measurement, and the numbers in them.

pub(crate) mod adjust;
pub(crate) mod endpoint;
pub(crate) mod flows;
pub(crate) mod links;
pub(crate) mod measure;
pub(crate) mod media;
pub(crate) mod messages;
pub(crate) mod number;
pub(crate) mod scheduler;
pub(crate) mod size;
pub(crate) mod tcp;
