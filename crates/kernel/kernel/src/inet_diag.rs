//! The state of TCP and Multipath TCP sockets of this network namespace, by `sock_diag(7)`, as `ss`
//! reads it: no privileges needed, and no program in the kernel.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netlink, recv, send, socket};

/// A subflow of a Multipath TCP connection. Fields are those of `struct tcp_info` (linux/tcp.h).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Path {
    /// The connection's token at this end; `None` for plain TCP.
    pub token: Option<u32>,
    /// Id of the endpoint of its local address; 0 for the first subflow's.
    pub id: u8,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Whether data may be sent and received on it, by either end's choice not as a backup.
    pub usable: bool,
    pub srtt_us: u32,
    pub min_rtt_us: u32,
    /// The RTT by what was received, 0 if unknown.
    pub receiver_rtt_us: u32,
    /// Congestion window, packets.
    pub window: u32,
    /// Packets sent and not acknowledged.
    pub in_flight: u32,
    pub mss: u32,
    /// Bytes that the scheduler gave to it and that are not sent.
    pub unsent: u32,
    /// The peer's receive window, which with Multipath TCP is the connection's, bytes.
    pub send_window: u32,
    /// `SO_MAX_PACING_RATE`, bytes per second; 0 makes the scheduler leave the path out.
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    /// Limit of the send buffer, bytes.
    pub send_buffer: u32,
}

/// A Multipath TCP connection without its subflows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Whole {
    pub token: u32,
    /// Bytes written and not acknowledged.
    pub outstanding: u64,
    /// Limit of the send buffer, and what is in it, bytes.
    pub send_buffer: u32,
    pub queued: u32,
}

/// All connections at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub paths: Vec<Path>,
    pub wholes: Vec<Whole>,
}

impl Sample {
    /// The present state of all sockets but listening ones.
    ///
    /// # Errors
    ///
    /// If the kernel was built without INET_DIAG.
    pub fn now() -> Result<Sample> {
        let mut sample = Sample::default();
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            for message in dump(family, IPPROTO_TCP).context("cannot read sockets of TCP")? {
                sample.paths.extend(path(&message));
            }
            // A kernel without INET_MPTCP_DIAG says nothing, which is unknown.
            for message in dump(family, IPPROTO_MPTCP).unwrap_or_default() {
                sample.wholes.extend(whole(&message));
            }
        }
        Ok(sample)
    }
}

// From linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h and linux/mptcp.h.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const IPPROTO_TCP: u32 = 6;
const IPPROTO_MPTCP: u32 = 262;
const INET_DIAG_REQ_PROTOCOL: u16 = 3;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_SKMEMINFO: u16 = 7;
const INET_DIAG_ULP_INFO: u16 = 19;
const INET_ULP_INFO_MPTCP: u16 = 3;
const TOKEN_LOC: u16 = 2;
const FLAGS: u16 = 8;
const ID_LOC: u16 = 10;
const BACKUP_FLAGS: u32 = 0x30;
const ESTABLISHED: u8 = 1;
/// Every state of a TCP socket but LISTEN.
const STATES: u32 = 0xfff & !(1 << 10);
const HEADER: usize = 16;
const INET_DIAG_MSG: usize = 72;

/// The answers to a request for all sockets, each without its header.
fn dump(family: AddressFamily, protocol: u32) -> io::Result<Vec<Vec<u8>>> {
    let socket = socket_of_diag()?;
    let extensions = 1u8 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_SKMEMINFO - 1);
    let mut request = vec![family.as_raw() as u8, protocol as u8, extensions, 0];
    request.extend(STATES.to_ne_bytes());
    request.extend([0; 48]); // any socket
    request.extend(8u16.to_ne_bytes());
    request.extend(INET_DIAG_REQ_PROTOCOL.to_ne_bytes());
    request.extend(protocol.to_ne_bytes());
    let length = (HEADER + request.len()) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(request);
    send(&socket, &message, SendFlags::empty())?;

    let mut answers = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = &buffer[..length];
        while let Some(length) = u32_at(rest, 0) {
            let length = (length as usize).clamp(HEADER, rest.len().max(HEADER));
            let Some(message) = rest.get(..length) else {
                break;
            };
            match u16_at(message, 4) {
                Some(NLMSG_DONE) => return Ok(answers),
                Some(NLMSG_ERROR) => {
                    let error = u32_at(message, HEADER).unwrap_or(0) as i32;
                    return Err(io::Error::from_raw_os_error(-error));
                }
                _ => answers.push(message[HEADER..].to_vec()),
            }
            rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        }
    }
}

fn socket_of_diag() -> io::Result<OwnedFd> {
    let protocol = Some(netlink::SOCK_DIAG);
    Ok(socket(AddressFamily::NETLINK, SocketType::DGRAM, protocol)?)
}

/// A socket of TCP; `None` if the kernel's `tcp_info` ends before the fields that are read.
fn path(message: &[u8]) -> Option<Path> {
    let (head, attributes) = message.split_at_checked(INET_DIAG_MSG)?;
    let info = attribute(attributes, INET_DIAG_INFO)?;
    let memory = attribute(attributes, INET_DIAG_SKMEMINFO)?;
    let ulp = attribute(attributes, INET_DIAG_ULP_INFO);
    let mptcp = ulp.and_then(|ulp| attribute(ulp, INET_ULP_INFO_MPTCP));
    let of_mptcp = |kind| mptcp.and_then(|found| attribute(found, kind));
    let flags = of_mptcp(FLAGS).and_then(|flags| u32_at(flags, 0));
    let backup = flags.unwrap_or(0) & BACKUP_FLAGS != 0;
    Some(Path {
        token: of_mptcp(TOKEN_LOC).and_then(|token| u32_at(token, 0)),
        id: of_mptcp(ID_LOC)
            .and_then(|id| id.first().copied())
            .unwrap_or(0),
        local: address(head, 4, 8)?,
        remote: address(head, 6, 24)?,
        usable: head[1] == ESTABLISHED && !backup,
        mss: u32_at(info, 16)?,
        in_flight: u32_at(info, 24)?,
        srtt_us: u32_at(info, 68)?,
        window: u32_at(info, 80)?,
        receiver_rtt_us: u32_at(info, 92)?,
        max_pacing_rate: u64_at(info, 112)?,
        bytes_acked: u64_at(info, 120)?,
        bytes_received: u64_at(info, 128)?,
        unsent: u32_at(info, 144)?,
        min_rtt_us: u32_at(info, 148)?,
        send_window: u32_at(info, 228)?,
        send_buffer: u32_at(memory, 12)?,
    })
}

fn whole(message: &[u8]) -> Option<Whole> {
    let (_, attributes) = message.split_at_checked(INET_DIAG_MSG)?;
    let info = attribute(attributes, INET_DIAG_INFO)?;
    let memory = attribute(attributes, INET_DIAG_SKMEMINFO)?;
    let (written, acknowledged) = (u64_at(info, 16)?, u64_at(info, 24)?);
    Some(Whole {
        token: u32_at(info, 12)?,
        outstanding: written.checked_sub(acknowledged)?,
        send_buffer: u32_at(memory, 12)?,
        queued: u32_at(memory, 20)?,
    })
}

/// The value of the first attribute of a kind.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        let kind = u16_at(attributes, 2)? & 0x3fff; // without the flags of nesting and byte order
        let value = attributes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn address(head: &[u8], port: usize, address: usize) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(head.get(port..port + 2)?.try_into().ok()?);
    let bytes: [u8; 16] = head.get(address..address + 16)?.try_into().ok()?;
    let [a, b, c, d, ..] = bytes;
    let address = if u16::from(head[0]) == AddressFamily::INET.as_raw() {
        IpAddr::from(Ipv4Addr::new(a, b, c, d))
    } else {
        IpAddr::from(Ipv6Addr::from(bytes)).to_canonical()
    };
    Some(SocketAddr::new(address, port))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;

    /// The kernel's own answers are the reference: addresses and counters of a socket of this test.
    #[test]
    fn a_socket_is_read_with_its_addresses_counters_and_largest_pacing_rate() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[0; 5000]).unwrap();
        server.read_exact(&mut [0; 5000]).unwrap();
        let sample = Sample::now().unwrap();
        let of = |local| {
            sample
                .paths
                .iter()
                .find(|path| path.local == local)
                .unwrap()
        };
        let sender = of(client.local_addr().unwrap());
        assert_eq!(sender.remote, listener.local_addr().unwrap());
        assert_eq!((sender.token, sender.usable), (None, true));
        assert_eq!(sender.bytes_acked, 5001, "5000 and the SYN");
        assert_eq!(sender.max_pacing_rate, u64::MAX, "unlimited");
        assert!(sender.window >= 10 && sender.srtt_us > 0 && sender.send_buffer > 0);
        let receiver = of(listener.local_addr().unwrap());
        assert_eq!(receiver.bytes_received, 5000);

        let rate = 0u64;
        // Safety: the option's value is a number of 8 bytes that outlives the call.
        let result = unsafe {
            libc::setsockopt(
                client.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MAX_PACING_RATE,
                (&raw const rate).cast(),
                8,
            )
        };
        assert_eq!(result, 0);
        let sample = Sample::now().unwrap();
        let mut paths = sample.paths.iter();
        let sender = paths.find(|path| path.local == client.local_addr().unwrap());
        assert_eq!(sender.unwrap().max_pacing_rate, 0);
    }
}
