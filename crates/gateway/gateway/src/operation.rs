//! Running a gateway: signals, reload, drain, readiness, status and metrics.

pub mod client;
pub mod metrics;
pub mod monitor;
pub mod recorder;
pub mod run;
pub mod server;
mod service;
pub mod status;
