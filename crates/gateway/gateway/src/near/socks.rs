//! The server's side of SOCKS5 (RFC 1928), but for datagrams, and the choice of HTTP instead.
//!
//! The crate fast-socks5 1.0 serves connections itself, so only its parsers could be used; these
//! accept any text as a host name, and its addresses would be a second coding beside
//! [`wire`](crate::wire), which the streams of a tunnel use.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tracing::debug;

use super::{Permit, Shared, http, tcp, udp};
use crate::traffic::relay::Connection;
use crate::wire::{Destination, Malformed, Reply};

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const UDP_ASSOCIATE: u8 = 3;

/// Address in replies where no other is known; clients ignore it.
const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Longest time of a client to receive a reply.
const REPLY: Duration = Duration::from_secs(5);

/// Request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A TCP connection.
    Connect(Destination, Protocol),
    /// A UDP association. Its datagrams will come from this address; zeros mean unknown.
    Associate(Destination),
}

/// Protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// SOCKS5.
    Socks,
    /// HTTP CONNECT.
    Http,
}

/// Reason for which there is no request.
#[derive(Debug)]
pub enum NoRequest {
    /// The reply for the client.
    Refused(Reply),
    /// The status for a client of HTTP.
    RefusedByHttp(&'static str),
    /// It is no SOCKS5, or the client offers no method that is accepted.
    Malformed(Malformed),
    /// The connection failed.
    Io(io::Error),
}

impl From<io::Error> for NoRequest {
    fn from(error: io::Error) -> NoRequest {
        let malformed = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<Malformed>());
        match malformed {
            Some(&malformed) if malformed == Malformed::ADDRESS => {
                NoRequest::Refused(Reply::AddressTypeNotSupported)
            }
            // A host that no name can be, or the number of an address in other digits.
            Some(_) => NoRequest::Refused(Reply::HostUnreachable),
            None => NoRequest::Io(error),
        }
    }
}

/// Negotiates the method, which is none, and reads the request. A first byte that begins a method
/// of HTTP begins a request of HTTP.
///
/// # Errors
/// The reason for which there is none.
pub async fn negotiate(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> Result<Request, NoRequest> {
    let version = client.read_u8().await?;
    if version.is_ascii_uppercase() {
        let to = http::read(client, version).await?;
        let to = to.map_err(NoRequest::RefusedByHttp)?;
        return Ok(Request::Connect(to, Protocol::Http));
    }
    if version != VERSION {
        return Err(NoRequest::Malformed(Malformed("not SOCKS5")));
    }
    let count = usize::from(client.read_u8().await?);
    let mut methods = [0; 255];
    client.read_exact(&mut methods[..count]).await?;
    if !methods[..count].contains(&NO_AUTHENTICATION) {
        client.write_all(&[VERSION, NO_METHOD]).await?;
        return Err(NoRequest::Malformed(Malformed("no method is accepted")));
    }
    client.write_all(&[VERSION, NO_AUTHENTICATION]).await?;

    let mut head = [0; 3];
    client.read_exact(&mut head).await?;
    let [version, command, reserved] = head;
    if version != VERSION || reserved != 0 {
        return Err(NoRequest::Malformed(Malformed("not a request of SOCKS5")));
    }
    let destination = Destination::read(client).await?;
    match command {
        CONNECT => Ok(Request::Connect(destination, Protocol::Socks)),
        UDP_ASSOCIATE => Ok(Request::Associate(destination)),
        _ => Err(NoRequest::Refused(Reply::CommandNotSupported)),
    }
}

impl Protocol {
    /// Bytes of a reply.
    fn reply(self, code: Reply) -> BytesMut {
        match self {
            Protocol::Socks => reply(code, NO_ADDRESS),
            Protocol::Http => BytesMut::from(&*http::response(http::status(code))),
        }
    }
}

/// Bytes of a reply of SOCKS5.
fn reply(reply: Reply, bound: SocketAddr) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_slice(&[VERSION, reply as u8, 0]);
    Destination::from(bound).put(&mut out);
    out
}

/// Serves a connection.
pub(super) async fn serve(shared: &Arc<Shared>, mut local: Connection, permit: &Permit) {
    let counters = &shared.counters;
    let patience = Duration::from_secs_f64(shared.limiter.limits().handshake_s);
    let request = match timeout(patience, negotiate(&mut *local)).await {
        Ok(Ok(request)) => request,
        Ok(Err(NoRequest::Refused(code))) => {
            match code {
                Reply::HostUnreachable => counters.refused_malformed.increment(),
                _ => counters.refused_command.increment(),
            }
            return refuse(local, &Protocol::Socks.reply(code)).await;
        }
        Ok(Err(NoRequest::RefusedByHttp(status))) => {
            debug!("HTTP: {status}");
            counters.refused_malformed.increment();
            return refuse(local, &http::response(status)).await;
        }
        Ok(Err(NoRequest::Malformed(malformed))) => {
            debug!("SOCKS5: {malformed}");
            counters.refused_malformed.increment();
            return end(local).await;
        }
        Ok(Err(NoRequest::Io(error))) => {
            debug!("SOCKS5: {error}");
            counters.refused_malformed.increment();
            return;
        }
        Err(_) => {
            counters.refused_timeout.increment();
            return;
        }
    };
    match request {
        Request::Associate(from) => match udp::bind(&local).await {
            Ok((socket, bound)) => {
                if local
                    .write_all(&reply(Reply::Succeeded, bound))
                    .await
                    .is_ok()
                {
                    udp::serve(shared, local, socket, &from, permit).await;
                }
            }
            Err(error) => {
                let code = Reply::from_error(&error);
                refuse(local, &Protocol::Socks.reply(code)).await;
            }
        },
        Request::Connect(to, protocol) => {
            match tcp::open(shared, &to, permit, local.left()).await {
                Ok(remote) => {
                    let reply = protocol.reply(Reply::Succeeded);
                    if local.write_all(&reply).await.is_ok() {
                        tcp::relay(shared, local, remote, permit).await;
                    }
                }
                Err(code) => {
                    debug!(%to, reply = ?code, "refused");
                    refuse(local, &protocol.reply(code)).await;
                }
            }
        }
    }
}

/// Replies that a request has failed, and ends the connection.
async fn refuse(mut local: Connection, reply: &[u8]) {
    if local.write_all(reply).await.is_ok() {
        end(local).await;
    }
}

/// Ends the connection without a reset, which would discard the reply: data that the client has
/// sent meanwhile is read and ignored until it ends, too.
async fn end(mut local: Connection) {
    let ended: Result<io::Result<()>, _> = timeout(REPLY, async {
        local.shutdown().await?;
        tokio::io::copy(&mut *local, &mut tokio::io::sink()).await?;
        Ok(())
    })
    .await;
    if let Ok(Ok(())) = ended {
        local.complete();
    }
}
