//! The Scenario and the Result of Anabranch.
//!
//! A scenario is one TOML file: links, flows, algorithms, workloads, seeds. [`Scenario::load`]
//! reads it and returns a complete value (defaults resolved, names turned into indexes), or an
//! [`Error`] of one line that names file, line and key and says what was expected. [`columns`]
//! holds the tables that every backend fills, [`recorder`] fills them, [`users`] has the users'
//! times and random numbers, and [`schema()`] returns the JSON Schema of the file.
//!
//! ```
//! use anabranch_scenario::Scenario;
//!
//! let text = b"
//!     algorithm = 'lia'
//!     measure.duration_s = 60
//!     links.R1 = { rate_mbps = 10, delay_ms = 20 }
//!     links.R2 = { rate_mbps = 20, delay_ms = 20 }
//!     flows = [{ name = 'user', paths = [['R1'], ['R2']] }]
//! ";
//! let overrides = [("links.R1.rate_mbps".to_owned(), "30".to_owned())];
//! let scenario = Scenario::parse(text, "two.toml", &overrides)?;
//! assert_eq!(scenario.links[0].rate_mbps(), 30.0);
//! assert_eq!(scenario.flows[0].paths[1].return_delay_ms.get(), 20.0);
//!
//! let error = Scenario::parse(b"algorithm = 'lia'", "empty.toml", &[]).unwrap_err();
//! assert_eq!(error.to_string(), "empty.toml:1: measure: missing key");
//! # Ok::<(), anabranch_scenario::Error>(())
//! ```

pub mod columns;
mod error;
mod features;
mod file;
mod load;
pub mod media;
mod memory;
mod model;
pub mod recorder;
mod resolve;
mod scenario;
pub mod seed;
pub mod users;
mod virtual_time;
mod warnings;

pub use anabranch_net::time;
pub use columns::Record;
pub use error::{Error, algorithm, expected_one_of, refusal};
pub use features::{BACKENDS, Feature};
pub use file::document::{Document, read as read_file};
pub use file::key::{Fault, Key};
pub use file::written::schema;
pub use model::choice::{Ecn, Guard, MaxKappa};
pub use model::flows::{Adjust, Flow, Media, Message, Messages, NadaRates, Path, Size, Workload};
pub use model::links::{Link, Measure};
pub use model::number::{
    AboveOne, Bytes, Count, DelayMs, EndS, FramesPerS, JitterUs, Kappa, LateMs, MeanBytes,
    NonNegative, PacketBytes, PeriodS, Positive, PositiveOrInfinite, Probability, RateMbps,
    RatePerS, SampleMs, Samples, Sigma, TimeS, TimeoutMs, WeibullShape,
};
pub use model::tcp::{DISTRIBUTIONS_RMEM_MAX_BYTES, Profile, Recovery, RtoFloor, Scheduler, Tcp};
pub use scenario::{Inputs, Scenario};
pub use virtual_time::Virtual;
