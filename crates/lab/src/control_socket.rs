//! How a second `exec` or `shell` finds the lab that another one keeps up.
//!
//! The one that builds a lab listens on a socket in the abstract name space, named after the
//! scenario file. The name is gone with the process, so it is never stale.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::fs::MetadataExt;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::{process, thread};

use crate::error::{Context, Error};
use crate::hosts::host::Host;
use crate::lab::Lab;

/// What stands at a scenario's door.
#[derive(Debug)]
pub enum Door {
    /// Nobody was there: we are the first, and others will knock.
    Ours(UnixListener),
    /// The lab is up.
    Theirs(UnixStream),
}

/// Knocks at the door of the lab of a scenario file.
///
/// # Errors
/// If there is no such file.
pub fn knock(file: &Path) -> Result<Door, Error> {
    let doing = file.display();
    let data = fs::metadata(file).context(doing)?;
    let name = format!("anabranch-lab/{}-{}", data.st_dev(), data.st_ino());
    let address = SocketAddr::from_abstract_name(name).context(file.display())?;
    match UnixListener::bind_addr(&address) {
        Ok(listener) => Ok(Door::Ours(listener)),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let stream = UnixStream::connect_addr(&address).context(file.display())?;
            Ok(Door::Theirs(stream))
        }
        Err(error) => Err(error).context(file.display()),
    }
}

/// Tells everybody who knocks where the hosts are, as long as the process lives: for each its name
/// and the link to its namespace, a line each.
pub fn answer(listener: UnixListener, lab: &Lab) {
    let process = process::id();
    let hosts: String = lab
        .hosts()
        .map(|(name, host)| format!("/proc/{process}/fd/{} {name}\n", host.as_raw_fd()))
        .collect();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // Whoever left before the answer does not need it.
            let _ = stream.write_all(hosts.as_bytes());
        }
    });
}

/// The host of this name of the lab behind the door.
///
/// # Errors
/// If there is no such host, or the lab has just gone.
pub fn host(mut stream: UnixStream, wanted: &str) -> Result<Host, Error> {
    let mut hosts = String::new();
    stream.read_to_string(&mut hosts).context("the lab")?;
    let hosts: Vec<(PathBuf, String)> = hosts
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(link, name)| (link.into(), name.to_owned()))
        .collect();
    let names = hosts.iter().map(|(_, name)| name.as_str());
    let index = position(names, wanted)?;
    let namespace = File::open(&hosts[index].0).context(format_args!("entering {wanted}"))?;
    Ok(Host::from_fd(namespace.into()))
}

/// The index of the host called `wanted`; `FLOW` is short for `FLOW.0`.
///
/// # Errors
/// If there is none, with the names there are.
pub fn position<'a>(names: impl Iterator<Item = &'a str>, wanted: &str) -> Result<usize, Error> {
    const MOST_NAMES: usize = 20;
    let names: Vec<&str> = names.collect();
    let first = format!("{wanted}.0");
    let exact = names.iter().position(|name| *name == wanted);
    let index = exact.or_else(|| names.iter().position(|name| *name == first));
    index.ok_or_else(|| {
        let shown = names[..names.len().min(MOST_NAMES)].join(", ");
        let more = match names.len().saturating_sub(MOST_NAMES) {
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
        assert_eq!(position(NAMES.into_iter(), "two").ok(), Some(0));
        assert_eq!(position(NAMES.into_iter(), "two.1").ok(), Some(1));
        assert_eq!(position(NAMES.into_iter(), "server").ok(), Some(2));
    }

    #[test]
    fn an_unknown_host_names_those_there_are() {
        let error = position(NAMES.into_iter(), "three").unwrap_err();
        let expected = "unknown host \"three\": expected one of two.0, two.1, server";
        assert_eq!(error.to_string(), expected);
    }
}
