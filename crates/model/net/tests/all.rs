//! Links, queues, losses and traces: laws, statistics and golden runs.

mod aqm;
mod golden;
mod impairments;
mod laws;
mod statistics;
mod steps;
mod trace;
