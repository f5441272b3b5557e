//! Scenario files and records: errors, warnings and laws.

mod errors;
mod features;
mod impairments;
mod inputs;
mod laws;
mod phrases;
mod recorder;
mod schedulers;
mod warnings;
mod whole_files;
mod workloads;
