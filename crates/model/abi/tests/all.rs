//! Controllers of C libraries in the simulator, and rules in C programs, both compiled here.

mod compiled;
mod libraries;
mod programs;
