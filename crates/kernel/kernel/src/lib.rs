//! Coupled congestion control for Multipath TCP in the Linux kernel, as eBPF programs.
//!
//! Every rule of [`PROGRAMS`] is a C header in `bpf/rules/`, tested to be bit-equal to the Rust
//! rule in [`Soft`](anabranch_control::Soft). `bpf/coupled.bpf.c` is the window machinery that all
//! rules share; it documents recovery, backups, fallback and siblings.
//!
//! ```
//! use anabranch_kernel::Choice;
//!
//! let balia: Choice = "balia:cap=inf".parse()?;
//! assert_eq!(balia.program.name, "balia");
//! assert_eq!(balia.algorithm.values(), [f64::INFINITY]);
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! A registered algorithm has an ordinary name, which `setsockopt(TCP_CONGESTION)` accepts in every
//! network namespace. To register one takes root:
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
mod causes;
mod connections;
pub mod doctor;
mod groups;
mod inet_diag;
mod load;
mod namespaces;
pub mod pins;
mod registrations;
mod stalls;

pub use algorithm::{Buffers, Choice, PROGRAMS, Program, registered, unrestricted};
pub use causes::Cause;
pub use connections::{Connection, Lister, Subflow, connections};
pub use groups::{Grouper, Groups};
pub use load::{Cost, Loaded, costs, ensure_pinnable, load, replace, set_weight};
pub use namespaces::{Namespace, namespaces, outdated, path_of, refresh, set_default};
pub use registrations::{Holds, Registration, registrations, unpin};
pub use stalls::causes;
