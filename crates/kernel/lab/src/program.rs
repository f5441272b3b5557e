//! Runs a program in a host.
//!
//! The program and all processes that it starts, also daemons, are in a PID namespace of their own.
//! The kernel ends all processes of a PID namespace with its first process, and this one ends with
//! the program and, by PR_SET_PDEATHSIG, with the lab. Nothing that a process can change, such as
//! its session or its environment, lets it outlive that.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::{env, io};

use rustix::process::Signal;
use rustix::thread::UnshareFlags;

use crate::error::{Context, Error};
use crate::hosts::Host;

/// Runs a program in a host until it ends, and returns its exit code. With `multipath`, `mptcpize`
/// makes the program's TCP sockets Multipath TCP sockets, if it is installed.
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
    command.args(&words[1..]);
    // SAFETY: the closure runs between fork and exec, as `become_first_process` requires.
    unsafe { command.pre_exec(|| become_first_process()) };
    // In a thread that lives as long as the program: PR_SET_PDEATHSIG is about the parent's thread.
    let status = host.within(|| {
        // SAFETY: only the PID namespace of this thread's next children changes.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWPID) }
            .context("creating a PID namespace")?;
        let mut child = command
            .spawn()
            .context(format_args!("starting {}", program[0].display()))?;
        child.wait().context("waiting for the program")
    })?;
    // As in a shell: 128 plus the number of the signal.
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Turns the calling process, the first of its PID namespace, into the parent of the program:
/// returns in a child, which becomes the program, and never in the process itself, which waits for
/// the program and for the daemons that the program leaves to it, and ends with the program.
///
/// # Safety
/// Only between fork and exec, where the process has one thread: everything called is a system
/// call, and `fork` is safe for a process with one thread.
unsafe fn become_first_process() -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    mount_proc();
    // SAFETY: see above.
    let program = unsafe { libc::fork() };
    match program {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(()),
        // SAFETY: the process uses no descriptor any more.
        _ => unsafe {
            // Among them the pipe by which the lab learns that exec has succeeded.
            libc::close_range(0, libc::c_uint::MAX, 0);
            wait_for_program(program)
        },
    }
}

/// Mounts the /proc of the new PID namespace in a mount namespace of its own, so that programs find
/// themselves there. A container may forbid it; then they see the numbers of the lab's namespace.
fn mount_proc() {
    const ROOT: *const libc::c_char = c"/".as_ptr();
    const PROC: *const libc::c_char = c"proc".as_ptr();
    let none = std::ptr::null();
    // SAFETY: the strings end with 0 and live for ever; the mount namespace is this process's own.
    unsafe {
        if libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, ROOT, none, libc::MS_REC | libc::MS_SLAVE, none.cast()) == 0
        {
            libc::mount(PROC, c"/proc".as_ptr(), PROC, 0, none.cast());
        }
    }
}

/// Waits for all children, and ends when `program` has ended, with its exit code as a shell's.
fn wait_for_program(program: libc::pid_t) -> ! {
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        if unsafe { libc::wait(&mut status) } == program {
            let code = if libc::WIFEXITED(status) {
                libc::WEXITSTATUS(status)
            } else {
                128 + libc::WTERMSIG(status)
            };
            // SAFETY: ends the process without running anything of the lab.
            unsafe { libc::_exit(code) }
        }
    }
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
