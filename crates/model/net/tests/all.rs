//! Links, queues, losses and traces: laws, statistics and golden runs.

mod aqm;
mod dualpi2;
mod golden;
mod impairments;
mod laws;
mod pie;
mod statistics;
mod steps;
mod trace;
