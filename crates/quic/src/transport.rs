//! The QUIC library behind an interface of our own: this module alone knows it, so that another
//! can take its place. It is noq-proto, which does no I/O and takes its time as an argument.

mod allowance;
mod clock;
mod controller;
mod endpoint;
mod pair;
mod paths;
mod random;
mod settings;
mod stream;
mod tls;

pub use allowance::Allowance;
pub use clock::Clock;
pub use controller::{PathController, PathReport, SharedController};
pub(crate) use endpoint::MAX_PATHS;
pub(crate) use pair::{Datagram, Pair, Side};
pub(crate) use settings::{Settings, UDP_HEADERS};
pub(crate) use tls::Tls;
