//! The QUIC library behind an interface of our own: this module alone knows it, so that another
//! can take its place. It is noq-proto, which does no I/O and takes its time as an argument.

mod endpoint;
mod pair;
mod qlog;

pub(crate) use endpoint::{Datagram, MAX_PATHS, Settings, Tls, UDP_HEADERS};
pub(crate) use pair::{Pair, Side};
pub(crate) use qlog::Qlog;
