//! Resolves names and connects.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::socket::{Opened, connect_tcp};
use crate::wire::{Destination, Host};

/// How long resolving a name may take.
const RESOLVE: Duration = Duration::from_secs(5);

/// How long connecting to one address may take while there are others, and to the last one.
const CONNECT: Duration = Duration::from_secs(3);
const CONNECT_LAST: Duration = Duration::from_secs(10);

/// Number of addresses of a name that are tried.
const MAX_ADDRESSES: usize = 4;

/// How long [`resolve`] and [`connect`] may take together.
pub const ESTABLISH: Duration = Duration::from_secs(5 + 3 * 3 + 10);

/// Names that are resolved at the same time: the system's resolver occupies a thread for each.
static LOOKUPS: Semaphore = Semaphore::const_new(64);

/// The addresses of a destination, IPv4-mapped ones as IPv4, in the order of the system's resolver.
///
/// # Errors
/// If it has none, or not in time.
pub async fn resolve(destination: &Destination) -> io::Result<Vec<SocketAddr>> {
    let name = match &destination.host {
        Host::Ip(address) => return Ok(vec![SocketAddr::new(*address, destination.port)]),
        Host::Name(name) => name,
    };
    let lookup = async {
        let _turn = LOOKUPS.acquire().await.expect("it is never closed");
        lookup_host((name.as_str(), destination.port)).await
    };
    let found = timeout(RESOLVE, lookup).await??;
    let canonical = |found: SocketAddr| SocketAddr::new(found.ip().to_canonical(), found.port());
    let mut addresses = Vec::new();
    for address in found.map(canonical) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no address"));
    }
    Ok(addresses)
}

/// Connects to the first of the addresses that accepts.
///
/// # Errors
/// The error of the last attempt.
pub(crate) async fn connect(addresses: &[SocketAddr]) -> io::Result<(TcpStream, Opened)> {
    let addresses = &addresses[..addresses.len().min(MAX_ADDRESSES)];
    let mut result = Err(io::ErrorKind::NotFound.into());
    for (i, address) in addresses.iter().enumerate() {
        let last = i + 1 == addresses.len();
        let patience = if last { CONNECT_LAST } else { CONNECT };
        result = match timeout(patience, connect_tcp(*address)).await {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
    }
    result
}
