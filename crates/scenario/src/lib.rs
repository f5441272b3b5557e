//! The Scenario and the Result of Anabranch.
//!
//! A scenario is one TOML file: links, flows, algorithms, workloads, seeds. [`Scenario::load`] reads
//! it and either answers with a value that is complete (every default resolved, every name an index)
//! or with an [`Error`] of one line that names file, line and key and says what was expected.
//! [`columns`] holds the tables that every backend fills, [`recorder`] fills them, [`seats`] says when
//! users start and what they send, and [`schema()`] the JSON Schema of the file.

mod adjust;
mod bounded;
pub mod columns;
mod document;
mod error;
mod file;
mod flows;
mod key;
mod links;
mod measure;
mod memory;
mod number;
mod phrase;
pub mod recorder;
mod resolve;
mod scenario;
mod schema;
pub mod seats;
mod tcp;
pub mod time;
mod totals;

pub use adjust::Adjust;
pub use columns::Record;
pub use error::Error;
pub use flows::{Flow, Path, Size, Workload};
pub use links::Link;
pub use measure::Measure;
pub use number::{AboveOne, Bytes, Count, NonNegative, Positive, PositiveOrInfinite, Probability};
pub use scenario::Scenario;
pub use schema::schema;
pub use tcp::{Recovery, Scheduler, Tcp};
