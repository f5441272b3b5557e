//! A host: a network namespace that has no name and lives as long as somebody holds it.
//!
//! Nothing has to be removed. When the process ends, however it ends, the kernel closes its
//! descriptors; with them go the TUN devices, the sockets, and then the namespaces.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, io, thread};

use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::error::{Context, Error};

/// A network namespace of the lab's own.
#[derive(Debug)]
pub struct Host(OwnedFd);

impl Host {
    /// A new one, in which nothing is set up.
    ///
    /// # Errors
    /// If this process may not make namespaces.
    pub fn new() -> io::Result<Host> {
        // The thread is in it and ends; the descriptor keeps it.
        apart(|| {
            // SAFETY: only the network namespace of this thread changes, so nothing that other
            // threads share: no memory, no descriptors.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)? };
            Ok(Host(File::open("/proc/thread-self/ns/net")?.into()))
        })
    }

    /// The host whose namespace this is.
    pub fn from_fd(namespace: OwnedFd) -> Host {
        Host(namespace)
    }

    /// Moves the calling thread into the host: sockets it opens from now on, and processes it
    /// starts, belong there.
    ///
    /// # Errors
    /// If this process may not enter namespaces.
    pub fn enter(&self) -> io::Result<()> {
        let kind = Some(LinkNameSpaceType::Network);
        Ok(rustix::thread::move_into_link_name_space(
            self.0.as_fd(),
            kind,
        )?)
    }

    /// Does something within the host, in a thread of its own.
    ///
    /// # Errors
    /// If the host can't be entered, and what `act` gives.
    pub fn within<T: Send>(
        &self,
        act: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        apart(|| {
            self.enter().context("entering a network namespace")?;
            act()
        })
    }
}

impl AsFd for Host {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Host {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

fn apart<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| match scope.spawn(act).join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Gives `ip` (iproute2) a list of commands, in the namespace of the calling thread.
///
/// # Errors
/// What `ip` says, in one line.
pub fn ip(commands: &str) -> Result<(), Error> {
    let mut ip = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting ip (install iproute2)")?;
    let mut stdin = ip.stdin.take().expect("it is piped");
    stdin.write_all(commands.as_bytes()).context("ip")?;
    drop(stdin);
    let output = ip.wait_with_output().context("ip")?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let words: Vec<&str> = said.split_whitespace().collect();
    Err(Error::new(format!("ip: {}", words.join(" "))))
}

/// Writes a kernel parameter under `/proc/sys/net` in the namespace of the calling thread.
///
/// # Errors
/// If this kernel does not have it or refuses the value.
pub fn set(parameter: &str, value: &str) -> Result<(), Error> {
    let file = Path::new("/proc/sys/net").join(parameter);
    fs::write(&file, value).context(format_args!("{} = {value}", file.display()))
}
