//! Running a gateway: signals, reload, drain, readiness, status and metrics.

pub mod client;
pub mod run;
