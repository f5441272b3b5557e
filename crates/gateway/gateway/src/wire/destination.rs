//! Host and port, as text and in the encoding of SOCKS5.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::Malformed;

pub(super) const IPV4: u8 = 1;
const NAME: u8 = 3;
pub(super) const IPV6: u8 = 4;

/// A host name: at most 253 letters, digits, hyphens, underscores and dots, in labels of at most
/// 63, in lower case, without a dot at the end.
///
/// Its last label is no number, decimal or hexadecimal: inet_aton(3), and with it the system's
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
    ///
    /// # Errors
    /// If there is none.
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
pub(super) fn put_address(address: IpAddr, out: &mut BytesMut) {
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
