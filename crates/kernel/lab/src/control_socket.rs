//! The control socket, by which a second `exec` or `shell` joins a running lab.
//!
//! The process that builds a lab listens on a socket in the abstract namespace, named after the
//! scenario file. The kernel removes the name with the process, so it is never stale.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::fs::MetadataExt;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::{process, thread};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, pidfd_open};

use crate::error::{Context, Error};
use crate::hosts::Host;
use crate::lab::Lab;

/// The control socket of a scenario file.
#[derive(Debug)]
pub enum ControlSocket {
    /// No lab of the file is running: this process listens, for others to connect.
    Listening(UnixListener),
    /// The lab is running.
    Connected(UnixStream),
}

/// Opens the control socket of a scenario file.
///
/// # Errors
/// If the file does not exist.
pub fn open(file: &Path) -> Result<ControlSocket, Error> {
    let doing = file.display();
    let data = fs::metadata(file).context(doing)?;
    let name = format!("anabranch-lab/{}-{}", data.st_dev(), data.st_ino());
    let address = SocketAddr::from_abstract_name(name).context(file.display())?;
    match UnixListener::bind_addr(&address) {
        Ok(listener) => Ok(ControlSocket::Listening(listener)),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let stream = UnixStream::connect_addr(&address).context(file.display())?;
            Ok(ControlSocket::Connected(stream))
        }
        Err(error) => Err(error).context(file.display()),
    }
}

/// Sends to every process that connects, until this process ends, a line for each host: the path of
/// its namespace and its name.
pub fn serve(listener: UnixListener, lab: &Lab) {
    let process = process::id();
    let hosts: String = lab
        .hosts()
        .map(|(name, host)| format!("/proc/{process}/fd/{} {name}\n", host.as_raw_fd()))
        .collect();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // A client that has closed the connection needs no answer.
            let _ = stream.write_all(hosts.as_bytes());
        }
    });
}

/// The host with this name in the lab at the other end of the socket.
///
/// # Errors
/// If there is no such host, or the lab has just ended.
pub fn find_host(mut stream: UnixStream, wanted: &str) -> Result<Host, Error> {
    let mut hosts = String::new();
    stream.read_to_string(&mut hosts).context("the lab")?;
    let hosts: Vec<(PathBuf, String)> = hosts
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(path, name)| (path.into(), name.to_owned()))
        .collect();
    let names = hosts.iter().map(|(_, name)| name.as_str());
    let index = host_index(names, wanted)?;
    let namespace = File::open(&hosts[index].0).context(format_args!("entering {wanted}"))?;
    Ok(Host::from_fd(namespace.into()))
}

/// Makes this process end when the lab at the other end of the socket does, with an error message.
///
/// # Errors
/// If the lab has just ended.
pub fn end_with(stream: &UnixStream) -> Result<(), Error> {
    let lab = socket_peercred(stream).context("the lab")?.pid;
    let lab = pidfd_open(lab, PidfdFlags::empty()).context("the lab")?;
    thread::spawn(move || {
        // A pidfd becomes readable when its process ends.
        while poll(&mut [PollFd::new(&lab, PollFlags::IN)], None) == Err(Errno::INTR) {}
        eprintln!("anabranch-lab: the lab has ended, and with it this program");
        process::exit(2);
    });
    Ok(())
}

/// The index of the host with the name `wanted`; `FLOW` is short for `FLOW.0`.
///
/// # Errors
/// If there is none; the message lists the names.
pub fn host_index<'a>(names: impl Iterator<Item = &'a str>, wanted: &str) -> Result<usize, Error> {
    const MAX_NAMES: usize = 20;
    let names: Vec<&str> = names.collect();
    let first = format!("{wanted}.0");
    let exact = names.iter().position(|name| *name == wanted);
    let index = exact.or_else(|| names.iter().position(|name| *name == first));
    index.ok_or_else(|| {
        let shown = names[..names.len().min(MAX_NAMES)].join(", ");
        let more = match names.len().saturating_sub(MAX_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Error::new(format!(
            "unknown host {wanted:?}: expected one of {shown}{more}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["two.0", "two.1", "server"];

    #[test]
    fn a_flow_is_short_for_its_first_user() {
        assert_eq!(host_index(NAMES.into_iter(), "two").ok(), Some(0));
        assert_eq!(host_index(NAMES.into_iter(), "two.1").ok(), Some(1));
        assert_eq!(host_index(NAMES.into_iter(), "server").ok(), Some(2));
    }

    #[test]
    fn an_unknown_host_is_an_error_that_lists_the_hosts() {
        let error = host_index(NAMES.into_iter(), "three").unwrap_err();
        let expected = "unknown host \"three\": expected one of two.0, two.1, server";
        assert_eq!(error.to_string(), expected);
    }
}
