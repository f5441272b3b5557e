//! The simulator's laws, its agreement with formulas and ns-2, and golden runs.

mod aqm;
mod common;
mod endpoints;
mod fill;
mod fuzzed;
mod gateway;
mod golden;
mod laws;
mod media;
mod messages;
mod mptcp;
mod ns2;
mod one_path_truth;
mod opening;
mod repair;
mod schedulers;
mod traces;
mod way_back;
