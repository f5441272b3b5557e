//! Runs a program in a host.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::Signal;

use crate::error::{Context, Error};
use crate::hosts::host::Host;
use crate::hosts::orphans;

/// Runs a program in a host until it ends, and returns its exit code. Moves the calling thread,
/// which must live as long as the program, into the host. With `multipath`, `mptcpize` makes the
/// program's TCP sockets Multipath TCP sockets, if it is installed.
///
/// Ctrl-C is left to the program. Processes that the program leaves running are killed.
///
/// # Errors
/// If the program can't be started.
pub fn run(host: &Host, program: &[OsString], multipath: bool) -> Result<u8, Error> {
    // mptcpize fails silently.
    if find_program(&program[0]).is_none() {
        let name = program[0].display();
        return Err(Error::new(format!("{name}: program not found")));
    }
    host.enter().context("entering a network namespace")?;
    let mut words = Vec::new();
    if multipath {
        match find_program("mptcpize".as_ref()) {
            Some(path) => words.extend([path.into_os_string(), "run".into()]),
            None => eprintln!(
                "anabranch-lab: mptcpize (Debian package mptcpize) is not installed: only programs \
                 that request Multipath TCP will use it"
            ),
        }
    }
    words.extend_from_slice(program);
    // A handler that does nothing, so that Ctrl-C ends the program but not the lab.
    let ignored = Arc::new(AtomicBool::new(false));
    let handler = signal_hook::flag::register(signal_hook::consts::SIGINT, ignored);
    handler.context("a signal handler")?;
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env(orphans::OWNER, orphans::own_id()?);
    // SAFETY: between fork and exec the closure makes one system call and accesses no memory that
    // other threads share.
    unsafe {
        command.pre_exec(|| {
            Ok(rustix::process::set_parent_process_death_signal(Some(
                Signal::KILL,
            ))?)
        });
    }
    let mut child = command
        .spawn()
        .context(format_args!("starting {}", program[0].display()))?;
    let status = child.wait().context("waiting for the program")?;
    orphans::kill_own()?;
    // As in a shell: 128 plus the number of the signal.
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// The file that a shell would run, found as given or on the PATH.
fn find_program(program: &OsStr) -> Option<PathBuf> {
    let file = PathBuf::from(program);
    if file.components().count() > 1 {
        return file.is_file().then_some(file);
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// The user's shell.
pub fn shell() -> OsString {
    env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())
}
