//! The Scenario and the Result of Anabranch.
//!
//! A scenario is one TOML file: links, flows, algorithms, workloads, seeds. [`Scenario::load`] reads
//! it and either answers with a value that is complete (every default resolved, every name an index)
//! or with an [`Error`] of one line that names file, line and key and says what was expected.
//! [`columns`] holds the tables that every backend fills, [`recorder`] fills them, [`users`] says when
//! users start and what they send, and [`schema()`] the JSON Schema of the file.

mod error;
mod file;
mod load;
mod memory;
mod model;
pub mod record;
mod resolve;
mod scenario;
pub mod seed;
pub mod users;
mod warnings;

pub use anabranch_net::time;

pub use error::Error;
pub use file::schema::schema;
pub use model::adjust::Adjust;
pub use model::flows::{Flow, Path, Workload};
pub use model::links::Link;
pub use model::measure::Measure;
pub use model::number::{
    AboveOne, Bytes, Count, NonNegative, Positive, PositiveOrInfinite, Probability,
};
pub use model::size::Size;
pub use model::tcp::{Recovery, Scheduler, Tcp};
pub use record::columns::Record;
pub use record::{columns, recorder};
pub use scenario::Scenario;
