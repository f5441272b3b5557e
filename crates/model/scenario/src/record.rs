//! Measurements of a run: the tables of a Result, and the recorder that fills them.

pub mod columns;
pub mod recorder;
mod totals;
