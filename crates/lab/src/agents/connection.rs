//! A connection from a user to the server: its two sockets, what it sends and what arrived.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::time::Duration;

use anabranch_net::Time;
use socket2::{Domain, Protocol, Socket, Type};

use crate::hosts::address;
use crate::hosts::sys::{self, Subflow};

/// Bytes written or read at once.
const CHUNK: usize = 128 << 10;

/// What a connection has to send.
#[derive(Debug)]
pub enum Cargo {
    /// Data without end, unless it pauses.
    Endless {
        /// Whether it is silent.
        paused: bool,
    },
    /// One file.
    File {
        /// When it came to the sender.
        arrived_at: Time,
        /// Its size, bytes.
        bytes: u64,
        /// What has not been written yet.
        left: u64,
    },
}

/// Both ends of a connection.
#[derive(Debug)]
pub struct Connection {
    /// Whose it is.
    pub user: usize,
    /// The end that sends.
    pub sender: Socket,
    /// The other one, once it is accepted.
    pub receiver: Option<Socket>,
    /// What it sends.
    pub cargo: Cargo,
    /// Payload that arrived in order, bytes.
    pub received: u64,
    /// Whether it may have several paths.
    pub multipath: bool,
    /// Whether it should have several paths and has only one, for good.
    pub fell_back: bool,
    /// Timeouts seen of each subflow, by its number.
    pub timeouts: Vec<(u32, u16)>,
}

/// Opens a socket of the calling thread's namespace that connects to the server over `path` 0, with
/// this congestion control.
///
/// # Errors
/// What the kernel refuses.
pub fn connect(user: usize, multipath: bool, algorithm: &str) -> io::Result<Socket> {
    let socket = open(multipath)?;
    socket.set_tcp_congestion(algorithm.as_bytes())?;
    let source = (address::of_path(user, 0), 0);
    socket.bind(&std::net::SocketAddr::from(source).into())?;
    match socket.connect(&address::LISTENER.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

/// Opens the socket of the calling thread's namespace that accepts all connections.
///
/// # Errors
/// What the kernel refuses.
pub fn listen(multipath: bool) -> io::Result<Socket> {
    let socket = open(multipath)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address::LISTENER.into())?;
    socket.listen(4096)?;
    Ok(socket)
}

fn open(multipath: bool) -> io::Result<Socket> {
    let protocol = if multipath {
        Protocol::MPTCP
    } else {
        Protocol::TCP
    };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    socket.set_nonblocking(true)?;
    at_once(&socket)?;
    Ok(socket)
}

/// When the socket is closed, by whatever, it is gone at once, and does not hold its namespace.
///
/// # Errors
/// What the kernel refuses.
pub fn at_once(socket: &Socket) -> io::Result<()> {
    socket.set_linger(Some(Duration::ZERO))
}

impl Connection {
    /// Whether there is something to write. Data without end waits until the server has the connection: if
    /// the packets that open it are lost, and data comes before them, the server takes it for plain TCP
    /// (RFC 8684, section 3.7), and the user would have one path for the whole run.
    pub fn has_data(&self) -> bool {
        match self.cargo {
            Cargo::Endless { paused } => !paused && (self.receiver.is_some() || !self.multipath),
            Cargo::File { left, .. } => left > 0,
        }
    }

    /// Writes what the kernel takes. A file's end is not said: a connection that is closing opens no
    /// more paths, though its data may be far from sent.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn write(&mut self) -> io::Result<()> {
        static DATA: [u8; CHUNK] = [0; CHUNK];
        while self.has_data() {
            let most = match self.cargo {
                Cargo::Endless { .. } => CHUNK,
                Cargo::File { left, .. } => left.min(CHUNK as u64) as usize,
            };
            let written = match (&self.sender).write(&DATA[..most]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            };
            if let Cargo::File { left, .. } = &mut self.cargo {
                *left -= written as u64;
            }
        }
        Ok(())
    }

    /// Reads what has arrived. True when it is a whole file, or the end of the stream.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let Some(mut receiver) = self.receiver.as_ref() else {
            return Ok(false);
        };
        loop {
            if let Cargo::File { bytes, .. } = self.cargo
                && self.received >= bytes
            {
                return Ok(true);
            }
            match receiver.read(buffer) {
                Ok(0) => return Ok(true),
                Ok(bytes) => self.received += bytes as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What the kernel knows of each path that carries data, and the timeouts on each since the
    /// last look. Subflows of no known path are left out.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn look(&mut self) -> io::Result<Vec<(usize, Subflow, u64)>> {
        let several = if self.multipath {
            sys::mptcp_info(&self.sender)?
        } else {
            None
        };
        self.fell_back = self.multipath && several.is_none();
        let subflows = match several {
            Some(subflows) => subflows,
            None => vec![sys::tcp_info(&self.sender)?],
        };
        let seen = subflows.into_iter().filter_map(|subflow| {
            let path = self.path_of(subflow.local)?;
            let known = self.timeouts.iter_mut().find(|(id, _)| *id == subflow.id);
            let new = match known {
                Some((_, before)) => {
                    let new = subflow.timeouts.saturating_sub(*before);
                    *before = subflow.timeouts;
                    new
                }
                None => {
                    self.timeouts.push((subflow.id, subflow.timeouts));
                    subflow.timeouts
                }
            };
            Some((path, subflow, u64::from(new)))
        });
        Ok(seen.collect())
    }

    fn path_of(&self, local: Option<Ipv4Addr>) -> Option<usize> {
        match local {
            None => Some(0),
            Some(address) => {
                let (user, path) = address::path_of(address)?;
                (user == self.user).then_some(path)
            }
        }
    }
}
