//! Connections to the addresses of a destination.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::timeout;

use crate::names::{RESOLVE, race};
use crate::network::{Network, Socket};

/// Longest time of connecting.
const CONNECT: Duration = Duration::from_secs(10);

/// Longest time of resolving a name and connecting together.
pub const ESTABLISH: Duration = RESOLVE.saturating_add(CONNECT);

/// Connects to the first of the addresses that accepts.
///
/// # Errors
/// The error of the last attempt, or a timeout.
pub(crate) async fn connect(
    network: &dyn Network,
    addresses: &[SocketAddr],
) -> io::Result<Box<dyn Socket>> {
    let none = || io::Error::from(io::ErrorKind::NotFound);
    match timeout(CONNECT, race(addresses, |address| network.connect(address))).await {
        Ok(raced) => raced.map_err(|failure| failure.unwrap_or_else(none)),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
