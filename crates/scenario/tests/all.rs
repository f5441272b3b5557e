//! Scenario files and records: errors, warnings and laws.

mod columns;
mod errors;
mod inputs;
mod laws;
mod phrases;
mod recorder;
mod schedulers;
mod warnings;
mod whole_files;
