//! Any program within a host.

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

/// Runs a program in a host until it ends; its exit code. Moves the calling thread, which must live
/// as long as the program, into the host. `multipath`: sockets for TCP that it opens become
/// Multipath TCP's, if `mptcpize` is installed.
///
/// Ctrl-C is the program's business. What it leaves running ends with it.
///
/// # Errors
/// If the program can't be started.
pub fn run(host: &Host, program: &[OsString], multipath: bool) -> Result<u8, Error> {
    // mptcpize would end without a word.
    if found(&program[0]).is_none() {
        let name = program[0].display();
        return Err(Error::new(format!("{name}: there is no such program")));
    }
    host.enter().context("entering a network namespace")?;
    let mut words = Vec::new();
    if multipath {
        match found("mptcpize".as_ref()) {
            Some(path) => words.extend([path.into_os_string(), "run".into()]),
            None => eprintln!(
                "anabranch-lab: only programs that ask for Multipath TCP will use it: mptcpize \
                 (Debian package mptcpize) is not installed"
            ),
        }
    }
    words.extend_from_slice(program);
    // A handler that does nothing, so that Ctrl-C ends the program and not the lab around it.
    let ignored = Arc::new(AtomicBool::new(false));
    let handler = signal_hook::flag::register(signal_hook::consts::SIGINT, ignored);
    handler.context("a signal handler")?;
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env(orphans::OWNER, orphans::own_name()?);
    // SAFETY: between fork and exec the closure makes one system call and touches no memory of
    // other threads.
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
    orphans::end_own()?;
    // As a shell has it: 128 and the number of the signal.
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Where a shell would find a program.
fn found(program: &OsStr) -> Option<PathBuf> {
    let file = PathBuf::from(program);
    if file.components().count() > 1 {
        return file.is_file().then_some(file);
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// The shell of the person who asks.
pub fn shell() -> OsString {
    env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())
}
