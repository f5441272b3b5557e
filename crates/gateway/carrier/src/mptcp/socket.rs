//! Sockets of a tunnel: Multipath TCP, or TCP where the kernel has none.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use anabranch_sockets::{algorithms, mptcp_info};
use anyhow::{Context, bail};
use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::socket::{Opened, race};
use crate::{config, failure};

/// Time limit of a connection to one address: SYN is sent again after 1 s and 3 s.
const CONNECT: Duration = Duration::from_secs(4);

/// Connects to `far` over this path.
///
/// # Errors
/// If no address of `far` can be reached over it.
pub async fn connect(
    far: &config::Remote,
    path: &config::Path,
    rule: &str,
    protocol: Protocol,
) -> anyhow::Result<(TcpStream, Opened)> {
    let mut addresses = far.addresses.clone();
    let same_family = |far: &SocketAddr| {
        path.address
            .is_none_or(|own| own.is_ipv4() == far.is_ipv4())
    };
    addresses.retain(same_family);
    let attempt = async |address| connect_to(address, path, rule, protocol).await;
    let none = || anyhow::anyhow!("{far} has no address of the path's family");
    let raced = race(&addresses, attempt).await;
    raced.map_err(|failure| failure.unwrap_or_else(none))
}

async fn connect_to(
    far: SocketAddr,
    path: &config::Path,
    rule: &str,
    protocol: Protocol,
) -> anyhow::Result<(TcpStream, Opened)> {
    let socket = open(Domain::for_address(far), rule, protocol)?;
    if let Some(interface) = &path.interface {
        let bound = socket.bind_device(Some(interface.as_bytes()));
        bound.with_context(|| format!("binding to interface {interface}"))?;
    }
    if let Some(own) = path.address {
        let bound = socket.bind(&SocketAddr::new(own, 0).into());
        bound.with_context(|| format!("binding to {own}"))?;
    }
    match timeout(CONNECT, crate::socket::connect(socket, far)).await {
        Ok(connected) => connected.map_err(|error| failure::of_connect(&error, far)),
        Err(_) => bail!(failure::of_silence("TCP", far, CONNECT)),
    }
}

/// Listens for tunnels.
pub fn listen(address: SocketAddr, rule: &str) -> anyhow::Result<TcpListener> {
    let socket = open(Domain::for_address(address), rule, Protocol::MPTCP)?;
    socket.set_reuse_address(true)?;
    let bound = socket.bind(&address.into());
    bound.with_context(|| format!("listening on {address}"))?;
    socket.listen(1024)?;
    Ok(TcpListener::from_std(socket.into())?)
}

/// A new socket. A socket that accepts connections passes its options on to them.
fn open(domain: Domain, rule: &str, protocol: Protocol) -> anyhow::Result<Socket> {
    let socket = match Socket::new(domain, Type::STREAM, Some(protocol)) {
        Ok(socket) => socket,
        Err(error) if protocol == Protocol::TCP => return Err(error.into()),
        // Multipath TCP is not compiled in, not enabled (net.mptcp.enabled), or not allowed.
        Err(error) => {
            static LOGGED: std::sync::Once = std::sync::Once::new();
            LOGGED.call_once(|| {
                tracing::warn!("no Multipath TCP in this kernel ({error}): one path by TCP");
            });
            Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?
        }
    };
    socket.set_nonblocking(true)?;
    let chosen = socket.set_tcp_congestion(rule.as_bytes());
    chosen.with_context(|| format!("choosing {rule} for congestion control"))?;
    prepare(&socket)?;
    Ok(socket)
}

/// Sets the options that are not inherited, or not by every kernel.
pub fn prepare(socket: &Socket) -> io::Result<()> {
    /// Data that the kernel takes before it can be sent, bytes. It takes no turns and may precede
    /// datagrams.
    const UNSENT: u32 = 32 << 10;
    // For plain TCP; Multipath TCP has its limit in `allowance`.
    let _ = socket.set_tcp_notsent_lowat(UNSENT);
    socket.set_tcp_nodelay(true)
}

/// Makes the buffers of a connection of Multipath TCP so large that they are no limit: `allowance`
/// limits unsent data, and received data is read at once. Linux would take seconds to enlarge the
/// receive buffer of a connection that was idle. Without CAP_NET_ADMIN, Linux sizes them.
pub fn raise_buffers(socket: &Socket) {
    /// Half of the send buffer, bytes: Linux doubles it.
    const SEND: usize = 32 << 20;
    /// Half of the receive buffer, bytes.
    const RECEIVE: usize = 16 << 20;
    if let Ok(Some(_)) = mptcp_info(socket) {
        let _ = set_socket_send_buffer_size_force(socket, SEND);
        let _ = set_socket_recv_buffer_size_force(socket, RECEIVE);
    }
}

/// A duplicate of the descriptor, for options.
pub fn duplicate(stream: &TcpStream) -> io::Result<Socket> {
    Ok(stream.as_fd().try_clone_to_owned()?.into())
}

/// Name of the rule in the kernel.
///
/// # Errors
/// If it is not registered, or has parameters, which are fixed when it is loaded.
pub fn kernel_rule(algorithm: &str) -> anyhow::Result<String> {
    let registered = algorithms::available()?;
    Ok(algorithms::kernel_name(algorithm, &registered)?)
}
