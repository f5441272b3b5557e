//! Scenario files and records: errors, warnings and laws.

mod columns;
mod errors;
mod features;
mod impairments;
mod inputs;
mod laws;
mod link_traces;
mod page;
mod phrases;
mod recorder;
mod schedulers;
mod starts;
mod warnings;
mod whole_files;
mod workloads;
