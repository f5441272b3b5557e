//! What a run measures: the tables of a Result, and what fills them.

pub mod columns;
pub mod recorder;
mod totals;
