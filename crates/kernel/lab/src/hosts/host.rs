//! A host: an unnamed network namespace that exists as long as a descriptor of it is open.
//!
//! Nothing has to be cleaned up. When the process ends, for whatever reason, the kernel closes its
//! descriptors, and removes the TUN devices, the sockets, and then the namespaces.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, io, thread};

use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::error::{Context, Error};

/// A network namespace that the lab created.
#[derive(Debug)]
pub struct Host(OwnedFd);

impl Host {
    /// Creates a network namespace without any configuration.
    ///
    /// # Errors
    /// If this process may not create namespaces.
    pub fn new() -> io::Result<Host> {
        // The thread enters it and ends; the descriptor keeps it alive.
        in_new_thread(|| {
            // SAFETY: only the network namespace of this thread changes; memory and descriptors
            // stay shared with the other threads.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)? };
            Ok(Host(File::open("/proc/thread-self/ns/net")?.into()))
        })
    }

    /// The host with this namespace.
    pub fn from_fd(namespace: OwnedFd) -> Host {
        Host(namespace)
    }

    /// Moves the calling thread into the host: sockets that it opens and processes that it starts
    /// from now on belong to the host.
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

    /// Runs `act` in the host, in a new thread.
    ///
    /// # Errors
    /// If the host can't be entered, and errors of `act`.
    pub fn within<T: Send>(
        &self,
        act: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        in_new_thread(|| {
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

fn in_new_thread<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| match scope.spawn(act).join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Runs a list of commands of `ip` (iproute2) in the namespace of the calling thread; `family` is
/// its option, `-4` or `-6`.
///
/// # Errors
/// The error message of `ip`, in one line.
pub fn run_ip(family: &str, commands: &str) -> Result<(), Error> {
    let mut ip = Command::new("ip")
        .args([family, "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting ip (install iproute2)")?;
    let mut stdin = ip.stdin.take().expect("stdin is piped");
    stdin.write_all(commands.as_bytes()).context("ip")?;
    drop(stdin);
    let output = ip.wait_with_output().context("ip")?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let words: Vec<&str> = message.split_whitespace().collect();
    Err(Error::new(format!("ip: {}", words.join(" "))))
}

/// Sets a kernel parameter under `/proc/sys/net` in the namespace of the calling thread.
///
/// # Errors
/// If this kernel does not have the parameter or rejects the value.
pub fn set_sysctl(parameter: &str, value: &str) -> Result<(), Error> {
    let file = Path::new("/proc/sys/net").join(parameter);
    fs::write(&file, value).context(format_args!("{} = {value}", file.display()))
}
