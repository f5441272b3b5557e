//! The protocol inside a tunnel.
//!
//! | where | bytes |
//! |---|---|
//! | head of a stream | version 2, near's number of the client, 4 bytes; or version 1 alone |
//! | after it | kind: 1 TCP, 2 UDP association, 3 DNS, 4 TCP but for networks |
//! | after kind TCP | destination; `far` answers with one byte and then relays |
//! | after kind 4 | networks in which no address of the destination may be, then as kind TCP |
//! | networks | number, 1 byte; each: length of the prefix, 1 byte, address as in a destination |
//! | after kind UDP | association, 4 bytes; `far` answers with one byte; then frames both ways |
//! | after kind DNS | a frame with the query; `far` answers with one byte, and on success a frame |
//! | destination | as in SOCKS5: type 1, 4 bytes; 3, length and name; 4, 16 bytes; then the port |
//! | answer | a reply code of SOCKS5 (RFC 1928, section 6) |
//! | frame | length, 2 bytes, then the bytes; in an association destination and payload |
//! | datagram | association, 4 bytes, destination, payload |
//! | route | a datagram of an association without destination: answers take this tunnel, too |
//!
//! Integers are big-endian. The destination of a datagram from `far` is where it came from. A
//! datagram that is too large for the tunnel is a frame of one of its association's streams
//! instead: each further stream with the association's number belongs to it, whatever the tunnel.
//!
//! Parsers use buffers of constant size, or buffers that grow with the bytes that have arrived: a
//! length from the network allocates nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::{fmt, io};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Version of a head without a client.
const NO_CLIENT: u8 = 1;
const CLIENT: u8 = 2;
const TCP: u8 = 1;
const UDP: u8 = 2;
const DNS: u8 = 3;
const TCP_BUT: u8 = 4;

/// Input that violates the protocol; the text says how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl Malformed {
    /// The type of an address is none of SOCKS5.
    pub const ADDRESS: Malformed = Malformed("unknown type of address");
    /// The input ends too early.
    pub const TRUNCATED: Malformed = Malformed("truncated");
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

impl From<bytes::TryGetError> for Malformed {
    fn from(_: bytes::TryGetError) -> Malformed {
        Malformed::TRUNCATED
    }
}

impl From<Malformed> for io::Error {
    fn from(malformed: Malformed) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, malformed)
    }
}

/// The purpose of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// TCP connection to this destination, at an address in none of these networks.
    Tcp(Destination, Vec<IpNet>),
    /// The UDP association with this number.
    Udp(u32),
    /// A DNS query.
    Dns,
}

impl Head {
    /// Most networks of a head.
    pub const MAX_NETWORKS: usize = 255;

    /// The head's bytes, for this client of near.
    pub fn encode(&self, client: Option<u32>) -> BytesMut {
        let mut out = BytesMut::new();
        match client {
            Some(client) => {
                out.put_u8(CLIENT);
                out.put_u32(client);
            }
            None => out.put_u8(NO_CLIENT),
        }
        match self {
            Head::Tcp(destination, networks) => {
                out.put_u8(if networks.is_empty() { TCP } else { TCP_BUT });
                put_networks(networks, &mut out);
                destination.put(&mut out);
            }
            Head::Udp(association) => {
                out.put_u8(UDP);
                out.put_u32(*association);
            }
            Head::Dns => out.put_u8(DNS),
        }
        out
    }

    /// Reads a head, and no byte beyond it. Returns the number of near's client, too.
    ///
    /// # Errors
    /// `InvalidData` with [`Malformed`] if it is none; errors of the reader.
    pub async fn read(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<(Head, Option<u32>)> {
        let client = match reader.read_u8().await? {
            NO_CLIENT => None,
            CLIENT => Some(reader.read_u32().await?),
            _ => return Err(Malformed("unknown version").into()),
        };
        Ok((Head::read_kind(reader).await?, client))
    }

    async fn read_kind(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Head> {
        match reader.read_u8().await? {
            TCP => Ok(Head::Tcp(Destination::read(reader).await?, Vec::new())),
            TCP_BUT => {
                let networks = read_networks(reader).await?;
                Ok(Head::Tcp(Destination::read(reader).await?, networks))
            }
            UDP => Ok(Head::Udp(reader.read_u32().await?)),
            DNS => Ok(Head::Dns),
            _ => Err(Malformed("unknown kind of stream").into()),
        }
    }
}

/// Writes networks, if there are any.
fn put_networks(networks: &[IpNet], out: &mut BytesMut) {
    if !networks.is_empty() {
        out.put_u8(u8::try_from(networks.len()).expect("the configuration bounds it"));
    }
    for network in networks {
        out.put_u8(network.prefix_len());
        put_address(network.addr(), out);
    }
}

async fn read_networks(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<IpNet>> {
    let mut networks = Vec::new();
    for _ in 0..reader.read_u8().await? {
        let prefix = reader.read_u8().await?;
        let address: IpAddr = match reader.read_u8().await? {
            IPV4 => Ipv4Addr::from(reader.read_u32().await?).into(),
            IPV6 => Ipv6Addr::from(reader.read_u128().await?).into(),
            _ => return Err(Malformed::ADDRESS.into()),
        };
        let network = IpNet::new(address, prefix);
        networks.push(network.map_err(|_| Malformed("not a network"))?);
    }
    Ok(networks)
}

/// Result of a request, by the codes of SOCKS5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of RFC 1928, section 6")]
pub enum Reply {
    Succeeded = 0,
    GeneralFailure = 1,
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    TtlExpired = 6,
    CommandNotSupported = 7,
    AddressTypeNotSupported = 8,
}

impl Reply {
    /// The reply with this code; another code is a general failure.
    pub fn from_code(code: u8) -> Reply {
        match code {
            0 => Reply::Succeeded,
            2 => Reply::NotAllowed,
            3 => Reply::NetworkUnreachable,
            4 => Reply::HostUnreachable,
            5 => Reply::ConnectionRefused,
            6 => Reply::TtlExpired,
            7 => Reply::CommandNotSupported,
            8 => Reply::AddressTypeNotSupported,
            _ => Reply::GeneralFailure,
        }
    }

    /// The reply for a connection that could not be established.
    pub fn from_error(error: &io::Error) -> Reply {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Reply::ConnectionRefused,
            io::ErrorKind::NetworkUnreachable => Reply::NetworkUnreachable,
            io::ErrorKind::HostUnreachable | io::ErrorKind::TimedOut => Reply::HostUnreachable,
            _ => Reply::GeneralFailure,
        }
    }
}

/// A datagram of a tunnel: association, destination or origin, payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Association that it belongs to.
    pub association: u32,
    /// Destination; from `far`, origin.
    pub peer: Destination,
    /// Payload of the datagram.
    pub payload: Bytes,
}

impl Datagram {
    /// The datagram's bytes.
    pub fn encode(association: u32, peer: &Destination, payload: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(4 + Destination::MAX_BYTES + payload.len());
        out.put_u32(association);
        peer.put(&mut out);
        out.put_slice(payload);
        out.freeze()
    }

    /// Bytes of a route: nothing but the association.
    pub fn encode_route(association: u32) -> Bytes {
        Bytes::copy_from_slice(&association.to_be_bytes())
    }

    /// Association of a route; `None` if these bytes are something else.
    pub fn decode_route(bytes: &[u8]) -> Option<u32> {
        bytes.try_into().ok().map(u32::from_be_bytes)
    }

    /// Reads a datagram.
    pub fn decode(mut bytes: Bytes) -> Result<Datagram, Malformed> {
        let association = bytes.try_get_u32()?;
        let (peer, payload) = decode_peer(bytes)?;
        Ok(Datagram {
            association,
            peer,
            payload,
        })
    }
}

/// Destination and payload of a frame of an association's stream.
///
/// # Errors
/// If there is no destination.
pub fn decode_peer(mut bytes: Bytes) -> Result<(Destination, Bytes), Malformed> {
    let mut rest = &*bytes;
    let peer = Destination::take(&mut rest)?;
    bytes.advance(bytes.len() - rest.len());
    Ok((peer, bytes))
}

/// A frame: its length and `parts` one after the other; `None` if they exceed 65 535 bytes.
pub fn encode_frame(parts: &[&[u8]]) -> Option<Bytes> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = BytesMut::with_capacity(2 + length);
    out.put_u16(u16::try_from(length).ok()?);
    for part in parts {
        out.put_slice(part);
    }
    Some(out.freeze())
}

/// Reads a frame's bytes; `None` at the end of the stream.
///
/// # Errors
/// `UnexpectedEof` if the stream ends within a frame; errors of the reader.
pub async fn read_frame(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Bytes>> {
    let mut length = [0; 2];
    if reader.read(&mut length[..1]).await? == 0 {
        return Ok(None);
    }
    reader.read_exact(&mut length[1..]).await?;
    let length = u16::from_be_bytes(length);
    let mut frame = Vec::new();
    reader.take(length.into()).read_to_end(&mut frame).await?;
    if frame.len() < length.into() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(frame.into()))
}

const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// A host name: at most 253 letters, digits, hyphens, underscores and dots, in labels of at most
/// 63, in lower case, without a dot at the end.
///
/// A name's last label is no number, decimal or hexadecimal: inet_aton(3), and with it the system's
/// resolver, takes `127.1`, `0x7f.1` and `2130706433` for 127.0.0.1 (WHATWG URL, section 3.5).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Box<str>);

impl Name {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this name is a proper subdomain of `domain`.
    pub fn is_below(&self, domain: &Name) -> bool {
        let head = self.0.strip_suffix(domain.as_str());
        head.is_some_and(|head| head.ends_with('.'))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Name, Malformed> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(allowed);
        if text.len() > 253 || !text.split('.').all(label) {
            return Err(Malformed("not a host name"));
        }
        let name = text.to_ascii_lowercase();
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_number = match last.strip_prefix("0x") {
            Some(digits) => digits.bytes().all(|b| b.is_ascii_hexdigit()),
            None => last.bytes().all(|b| b.is_ascii_digit()),
        };
        if is_number {
            return Err(Malformed("an address or a number, not a host name"));
        }
        Ok(Name(name.into()))
    }
}

/// A host, by address or by name. An IPv4-mapped IPv6 address is the IPv4 address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// An IP address.
    Ip(IpAddr),
    /// A host name.
    Name(Name),
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Host {
        Host::Ip(address.to_canonical())
    }
}

impl FromStr for Host {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Host, Malformed> {
        match text.parse::<IpAddr>() {
            Ok(address) => Ok(address.into()),
            Err(_) => Ok(Host::Name(text.parse()?)),
        }
    }
}

/// Host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

impl From<SocketAddr> for Destination {
    fn from(address: SocketAddr) -> Destination {
        Destination {
            host: address.ip().into(),
            port: address.port(),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(address) => SocketAddr::new(*address, self.port).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

impl FromStr for Destination {
    type Err = Malformed;

    /// `example.org:443`, `192.0.2.1:443` or `[2001:db8::1]:443`.
    fn from_str(text: &str) -> Result<Destination, Malformed> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let (name, port) = text.rsplit_once(':').ok_or(Malformed("no port"))?;
        Ok(Destination {
            host: Host::Name(name.parse()?),
            port: port.parse().map_err(|_| Malformed("not a port"))?,
        })
    }
}

impl Destination {
    /// Size of the largest destination, bytes: type, length, 255 bytes of name, port.
    pub const MAX_BYTES: usize = 1 + 1 + 255 + 2;

    /// Writes type, host and port as in SOCKS5.
    pub fn put(&self, out: &mut BytesMut) {
        match &self.host {
            Host::Ip(address) => put_address(*address, out),
            Host::Name(name) => {
                out.put_u8(NAME);
                out.put_u8(u8::try_from(name.0.len()).expect("a name has at most 253 bytes"));
                out.put_slice(name.0.as_bytes());
            }
        }
        out.put_u16(self.port);
    }

    /// Takes a destination from the start of `bytes`.
    pub fn take(bytes: &mut &[u8]) -> Result<Destination, Malformed> {
        let kind = bytes.try_get_u8()?;
        let host = match kind {
            IPV4 => IpAddr::V4(Ipv4Addr::from(take_array::<4>(bytes)?)).into(),
            IPV6 => IpAddr::V6(Ipv6Addr::from(take_array::<16>(bytes)?)).into(),
            NAME => {
                let length = bytes.try_get_u8()?;
                let name = take_slice(bytes, length.into())?;
                let name = std::str::from_utf8(name).map_err(|_| Malformed("not a host name"))?;
                name.parse::<Host>()?
            }
            _ => return Err(Malformed::ADDRESS),
        };
        let port = bytes.try_get_u16()?;
        Ok(Destination { host, port })
    }

    /// Reads a destination, and no byte beyond it.
    ///
    /// # Errors
    /// `InvalidData` with [`Malformed`] if it is none; errors of the reader.
    pub async fn read(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Destination> {
        let mut buffer = [0; Destination::MAX_BYTES];
        reader.read_exact(&mut buffer[..2]).await?;
        let length = match buffer[0] {
            IPV4 => 1 + 4 + 2,
            IPV6 => 1 + 16 + 2,
            NAME => 1 + 1 + usize::from(buffer[1]) + 2,
            _ => return Err(Malformed::ADDRESS.into()),
        };
        reader.read_exact(&mut buffer[2..length]).await?;
        Ok(Destination::take(&mut &buffer[..length])?)
    }
}

/// Writes type and address as in SOCKS5.
fn put_address(address: IpAddr, out: &mut BytesMut) {
    match address {
        IpAddr::V4(address) => {
            out.put_u8(IPV4);
            out.put_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.put_u8(IPV6);
            out.put_slice(&address.octets());
        }
    }
}

fn take_slice<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], Malformed> {
    let (taken, rest) = bytes.split_at_checked(length).ok_or(Malformed::TRUNCATED)?;
    *bytes = rest;
    Ok(taken)
}

fn take_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (taken, rest) = bytes.split_first_chunk::<N>().ok_or(Malformed::TRUNCATED)?;
    *bytes = rest;
    Ok(*taken)
}
