//! Programs that outlive their lab. The kernel removes namespaces and devices with the process that
//! created them, but a program run in a host may have started others, and a lab that is killed
//! can't end those.
//!
//! So each of them has its lab's identity in its environment: process number, start time and PID
//! namespace, because a process number means another process in a container than outside. The next
//! lab in the same PID namespace kills those whose lab is gone.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::error::{Context, Error};

/// The environment variable with the identity of the lab that a program belongs to.
pub const OWNER: &str = "ANABRANCH_LAB_OWNER";

/// The identity of this process: number, start time and PID namespace, joined by hyphens.
///
/// # Errors
/// If /proc can't be read.
pub fn own_id() -> Result<String, Error> {
    let number = process::id() as i32;
    let start = start_of(number).ok_or_else(|| Error::new("/proc/self/stat can't be read"))?;
    Ok(format!("{number}-{start}-{}", pid_namespace()?))
}

/// The PID namespace of this process.
fn pid_namespace() -> Result<u64, Error> {
    let link = "/proc/self/ns/pid";
    Ok(fs::metadata(link).context(link)?.ino())
}

/// Kills the processes that programs of this lab have left running.
///
/// # Errors
/// If processes can't be listed or killed.
pub fn kill_own() -> Result<(), Error> {
    let own = own_id()?;
    kill(|owner| owner == own)
}

/// Kills the processes that programs of ended labs have left running.
///
/// # Errors
/// If processes can't be listed or killed.
pub fn kill_orphans() -> Result<(), Error> {
    let here = pid_namespace()?;
    kill(|owner| is_gone(owner, here))
}

/// Kills every process whose owner matches.
fn kill(matches: impl Fn(&str) -> bool) -> Result<(), Error> {
    for entry in fs::read_dir("/proc").context("/proc")?.flatten() {
        let Some(number) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let Some(pid) = Pid::from_raw(number) else {
            continue;
        };
        // Opened before the environment is read: a number may be reused, a pidfd never is.
        let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
            continue;
        };
        let environment = environment(&entry.path());
        if owner(&environment).is_some_and(&matches) {
            match rustix::process::pidfd_send_signal(&pidfd, Signal::KILL) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => return Err(Error::new(format!("killing process {number}: {error}"))),
            }
        }
    }
    Ok(())
}

/// The environment of a process in /proc. While a program is starting its environment is empty, so
/// this waits for it, at most one second.
fn environment(process: &Path) -> Vec<u8> {
    for _ in 0..1000 {
        if !is_starting(process) {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    fs::read(process.join("environ")).unwrap_or_default()
}

/// Whether a process has an executable (kernel threads and zombies have none) whose environment is
/// not set up yet: env_end, field 51 of its stat, is 0.
fn is_starting(process: &Path) -> bool {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    process.join("exe").read_link().is_ok() && field(&stat, 51) == Some(0)
}

/// The value of [`OWNER`] in an environment in the format of /proc.
fn owner(environment: &[u8]) -> Option<&str> {
    environment.split(|&byte| byte == 0).find_map(|entry| {
        let value = std::str::from_utf8(entry).ok()?.strip_prefix(OWNER)?;
        value.strip_prefix('=')
    })
}

/// Whether the owner was a process of the PID namespace `here` and has ended. False if `owner` is
/// not an identity.
fn is_gone(owner: &str, here: u64) -> bool {
    let mut parts = owner.split('-').map(str::parse::<u64>);
    let (Some(Ok(number)), Some(Ok(start)), Some(Ok(namespace)), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    namespace == here && start_of(number as i32) != Some(start)
}

/// The start time of a process, in clock ticks since boot: field 22 of its stat.
fn start_of(number: i32) -> Option<u64> {
    field(
        &fs::read_to_string(format!("/proc/{number}/stat")).ok()?,
        22,
    )
}

/// A field of a stat, counted from 1. The second field, the name, may contain any character and
/// ends at the last parenthesis.
fn field(stat: &str, number: usize) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(number - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    #[test]
    fn the_owner_is_read_from_an_environment() {
        assert_eq!(
            owner(b"HOME=/root\0ANABRANCH_LAB_OWNER=12-345\0"),
            Some("12-345")
        );
        assert_eq!(owner(b"HOME=/root\0ANABRANCH_LAB_OWNERS=1-2\0"), None);
        assert_eq!(owner(b""), None);
    }

    #[test]
    fn only_an_ended_process_of_this_namespace_is_gone() {
        let (own, here) = (own_id().unwrap(), pid_namespace().unwrap());
        assert!(!is_gone(&own, here));
        assert!(is_gone(&format!("1-1-{here}"), here), "another start time");
        assert!(!is_gone("1-1-7", here), "another namespace");
        for invalid in ["", "nonsense", "1-", "x-5-6", "1-1"] {
            assert!(!is_gone(invalid, here), "{invalid:?}");
        }
    }

    /// A process that sleeps. `spawn` returns before exec has replaced the parent's memory; the
    /// process's name shows that exec has begun, but its environment may not be set up yet.
    fn sleeper(owner: &str) -> Child {
        let mut sleep = Command::new("sleep");
        let child = sleep.arg("60").env(OWNER, owner).spawn().unwrap();
        while fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap() != "sleep\n" {
            thread::yield_now();
        }
        child
    }

    #[test]
    fn the_environment_of_a_starting_program_is_waited_for() {
        // With this process as its owner: a lab that starts meanwhile would kill an orphan.
        let own = own_id().unwrap();
        for _ in 0..200 {
            let mut child = sleeper(&own);
            let seen = environment(format!("/proc/{}", child.id()).as_ref());
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(owner(&seen), Some(own.as_str()));
        }
    }

    #[test]
    fn only_programs_of_an_ended_lab_are_killed() {
        let (mut orphan, mut ours) = (
            sleeper(&format!("1-1-{}", pid_namespace().unwrap())),
            sleeper(&own_id().unwrap()),
        );
        kill_orphans().unwrap();
        assert!(!orphan.wait().unwrap().success());
        assert!(ours.try_wait().unwrap().is_none());
        ours.kill().unwrap();
        ours.wait().unwrap();
    }
}
