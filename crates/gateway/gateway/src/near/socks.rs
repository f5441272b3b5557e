//! The server's side of SOCKS5 (RFC 1928): parsing and replies.
//!
//! The crate fast-socks5 1.0 serves connections itself, so only its parsers could be used; these
//! accept any text as a host name, and its addresses would be a second coding beside
//! [`wire`](crate::wire), which the streams of a tunnel use.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::traffic::relay::Connection;
use crate::wire::{Destination, Malformed, Reply};

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const UDP_ASSOCIATE: u8 = 3;

/// Address in replies where no other is known; clients ignore it.
pub const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Longest time of a client to receive a reply.
const REPLY: Duration = Duration::from_secs(5);

/// Request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A TCP connection.
    Connect(Destination),
    /// A UDP association. Its datagrams will come from this address; zeros mean unknown.
    Associate(Destination),
}

/// Reason for which there is no request.
#[derive(Debug)]
pub enum NoRequest {
    /// The reply for the client.
    Refused(Reply),
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
            Some(&malformed) => NoRequest::Malformed(malformed),
            None => NoRequest::Io(error),
        }
    }
}

/// Negotiates the method, which is none, and reads the request.
///
/// # Errors
/// The reason for which there is none.
pub async fn negotiate(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> Result<Request, NoRequest> {
    if client.read_u8().await? != VERSION {
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
        CONNECT => Ok(Request::Connect(destination)),
        UDP_ASSOCIATE => Ok(Request::Associate(destination)),
        _ => Err(NoRequest::Refused(Reply::CommandNotSupported)),
    }
}

/// Bytes of a reply.
pub fn reply(reply: Reply, bound: SocketAddr) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_slice(&[VERSION, reply as u8, 0]);
    Destination::from(bound).put(&mut out);
    out
}

/// Destination and payload of a client's datagram. Fragments are refused, as the RFC permits.
///
/// # Errors
/// If it is none.
pub fn decode_datagram(mut datagram: Bytes) -> Result<(Destination, Bytes), Malformed> {
    if datagram.len() < 3 || datagram[..3] != [0, 0, 0] {
        return Err(Malformed("not a datagram of SOCKS5, or a fragment"));
    }
    datagram.advance(3);
    crate::wire::decode_peer(datagram)
}

/// A datagram for a client.
pub fn encode_datagram(origin: &Destination, payload: &[u8]) -> BytesMut {
    let mut out = BytesMut::with_capacity(3 + Destination::MAX_BYTES + payload.len());
    out.put_slice(&[0, 0, 0]);
    origin.put(&mut out);
    out.put_slice(payload);
    out
}

/// Replies that a request has failed, and ends the connection.
pub async fn refuse(mut local: Connection, code: Reply) {
    if local.write_all(&reply(code, NO_ADDRESS)).await.is_ok() {
        end(local).await;
    }
}

/// Ends the connection without a reset, which would discard the reply: data that the client has
/// sent meanwhile is read and ignored until it ends, too.
pub async fn end(mut local: Connection) {
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
