//! A connection from a user to the server: both sockets, the data to send and the data received.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch_net::Time;
use anabranch_sockets::{Subflow, mptcp_info, tcp_info};
use socket2::{Domain, Protocol, Socket, Type};

use crate::hosts;

/// Bytes per write.
const CHUNK: usize = 128 << 10;

/// The data of a connection.
#[derive(Debug)]
pub enum Payload {
    /// Endless data, with pauses.
    Endless {
        /// Whether the user pauses now.
        paused: bool,
    },
    /// One file.
    File {
        /// Time at which the sender had the file to send.
        started_at: Time,
        /// Size of the file, bytes.
        bytes: u64,
        /// Bytes not written to the socket yet.
        unwritten: u64,
    },
    /// Messages, one behind the other.
    Messages {
        /// Messages that the server does not have yet.
        waiting: VecDeque<Message>,
        /// Bytes submitted.
        submitted: u64,
        /// Bytes not written to the socket yet.
        unwritten: u64,
    },
}

/// A message of an application.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// When it was submitted.
    pub sent_at: Time,
    /// Size, bytes.
    pub bytes: u64,
    /// Where it ends among the data of its connection.
    end: u64,
}

/// Both ends of a connection.
#[derive(Debug)]
pub struct Connection {
    /// Index of the user.
    pub user: usize,
    /// The user's socket.
    pub sender: Socket,
    /// The server's socket, once it has accepted the connection.
    pub receiver: Option<Socket>,
    /// The data to send.
    pub payload: Payload,
    /// Payload received in order, bytes.
    pub received: u64,
    /// Whether it is a Multipath TCP connection.
    pub multipath: bool,
    /// Whether it is a Multipath TCP connection that fell back to plain TCP, which is final.
    pub fell_back: bool,
    /// The kernel's count of timeouts of each subflow when last read, by its number.
    pub timeouts: Vec<(u32, u16)>,
}

/// Opens a socket in the calling thread's namespace and connects it to the server over path 0, with
/// this congestion control.
///
/// # Errors
/// The error of the system call.
pub fn connect(user: usize, multipath: bool, algorithm: &str) -> io::Result<Socket> {
    let socket = open(multipath)?;
    socket.set_tcp_congestion(algorithm.as_bytes())?;
    let source = (hosts::of_path(user, 0), 0);
    socket.bind(&SocketAddr::from(source).into())?;
    match socket.connect(&hosts::LISTENER.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

/// Opens the server's listening socket in the calling thread's namespace.
///
/// # Errors
/// The error of the system call.
pub fn listen(multipath: bool) -> io::Result<Socket> {
    let socket = open(multipath)?;
    socket.set_reuse_address(true)?;
    socket.bind(&hosts::LISTENER.into())?;
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
    reset_on_close(&socket)?;
    Ok(socket)
}

/// Makes the socket send a reset when it is closed, also by the end of the process: then it doesn't
/// linger and keep its namespace alive.
///
/// # Errors
/// The error of the system call.
pub fn reset_on_close(socket: &Socket) -> io::Result<()> {
    socket.set_linger(Some(Duration::ZERO))
}

impl Connection {
    /// Whether there is data to write. Endless data and messages wait until the server has accepted
    /// a multipath connection: if the third packet of the handshake and the first data packet are
    /// both lost, the server falls back to plain TCP (RFC 8684, section 3.7), and the user keeps
    /// one path.
    pub fn has_data(&self) -> bool {
        match self.payload {
            Payload::Endless { paused } => !paused && (self.receiver.is_some() || !self.multipath),
            Payload::File { unwritten, .. } => unwritten > 0,
            Payload::Messages { unwritten, .. } => {
                unwritten > 0 && (self.receiver.is_some() || !self.multipath)
            }
        }
    }

    /// Submits a message, which waits for those before it and begins a segment of its own.
    ///
    /// # Errors
    /// If the connection has failed.
    pub fn submit(&mut self, now: Time, bytes: u64) -> io::Result<()> {
        if let Payload::Messages {
            waiting,
            submitted,
            unwritten,
        } = &mut self.payload
        {
            *submitted += bytes;
            *unwritten += bytes;
            waiting.push_back(Message {
                sent_at: now,
                bytes,
                end: *submitted,
            });
        }
        self.write()
    }

    /// The next message that the server has completely.
    pub fn deliver_message(&mut self) -> Option<Message> {
        let Payload::Messages { waiting, .. } = &mut self.payload else {
            return None;
        };
        let next = waiting.front()?;
        (next.end <= self.received).then(|| waiting.pop_front())?
    }

    /// Writes as much as the socket accepts. Does not shut the socket down after a file: a closing
    /// connection opens no more subflows, although most of its data may still be unsent.
    ///
    /// # Errors
    /// If the connection has failed.
    pub fn write(&mut self) -> io::Result<()> {
        static DATA: [u8; CHUNK] = [0; CHUNK];
        while self.has_data() {
            let size = match self.payload {
                Payload::Endless { .. } => CHUNK,
                Payload::File { unwritten, .. } | Payload::Messages { unwritten, .. } => {
                    unwritten.min(CHUNK as u64) as usize
                }
            };
            let written = match (&self.sender).write(&DATA[..size]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            };
            if let Payload::File { unwritten, .. } | Payload::Messages { unwritten, .. } =
                &mut self.payload
            {
                *unwritten -= written as u64;
            }
        }
        Ok(())
    }

    /// Reads all data that has arrived. Returns true when a file is complete or the stream has
    /// ended.
    ///
    /// # Errors
    /// If the connection has failed.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let Some(mut receiver) = self.receiver.as_ref() else {
            return Ok(false);
        };
        loop {
            if let Payload::File { bytes, .. } = self.payload
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

    /// Path, kernel's state, and timeouts since the last call of each subflow. Subflows with an
    /// address of no path are ignored.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn subflows(&mut self) -> io::Result<Vec<(usize, Subflow, u64)>> {
        let subflows = if self.multipath {
            mptcp_info(&self.sender)?
        } else {
            None
        };
        self.fell_back = self.multipath && subflows.is_none();
        let subflows = match subflows {
            Some(subflows) => subflows,
            None => vec![tcp_info(&self.sender)?],
        };
        let of_paths = subflows.into_iter().filter_map(|subflow| {
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
        Ok(of_paths.collect())
    }

    fn path_of(&self, local: Option<SocketAddr>) -> Option<usize> {
        match local.map(|local| local.ip()) {
            None => Some(0),
            Some(IpAddr::V4(address)) => {
                let (user, path) = hosts::path_of(address)?;
                (user == self.user).then_some(path)
            }
            Some(IpAddr::V6(_)) => None,
        }
    }
}
