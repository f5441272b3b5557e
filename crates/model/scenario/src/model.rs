//! The parts of a scenario: flows, links, endpoints, measurement, and the numbers in them.

pub(crate) mod choice;
pub(crate) mod flows;
pub(crate) mod links;
pub(crate) mod number;
pub(crate) mod tcp;
