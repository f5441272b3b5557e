//! The coupled rules as congestion control of the Linux kernel, by eBPF.
//!
//! Every rule of [`PROGRAMS`] is a C header in `bpf/rules/`, held bit-equal to the Rust rule in
//! [`Soft`](anabranch_control::Soft); `bpf/coupled.bpf.c` is the window machinery around it and says
//! how it meets recovery, backups, fallback and siblings. A registered algorithm has an ordinary name:
//! `setsockopt(TCP_CONGESTION)` takes it, in every network namespace.
//!
//! ```no_run
//! let lia = anabranch_kernel::load(&"lia".parse()?)?; // registered
//! for connection in anabranch_kernel::connections()? {
//!     println!("{connection:?}");
//! }
//! drop(lia); // unregistered
//! # Ok::<(), anyhow::Error>(())
//! ```

mod algorithm;
mod connections;
pub mod doctor;
mod load;
pub mod pins;

pub use algorithm::{Choice, PROGRAMS, Program};
pub use connections::{Connection, Subflow, connections};
pub use load::{Cost, Loaded, costs, load, registered, set_weight};
