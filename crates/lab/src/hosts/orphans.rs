//! Programs that outlive their lab. Namespaces and devices go with the process that made them, but
//! a program started in a host may have started others, and a lab that is killed can't end those.
//!
//! So each of them carries in its environment who started it: a process by number, start time and the
//! namespace of its number, as a container's processes have others there than outside. The next lab in
//! the same namespace ends those whose starter is gone.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::error::{Context, Error};

/// The variable that names the lab a program belongs to.
pub const OWNER: &str = "ANABRANCH_LAB_OWNER";

/// This process, by number, start time and the namespace of its number.
///
/// # Errors
/// If the kernel does not tell.
pub fn own_name() -> Result<String, Error> {
    let number = process::id() as i32;
    let start = start_of(number).ok_or_else(|| Error::new("/proc/self/stat can't be read"))?;
    Ok(format!("{number}-{start}-{}", namespace()?))
}

/// The namespace in which this process sees others' numbers.
fn namespace() -> Result<u64, Error> {
    let link = "/proc/self/ns/pid";
    Ok(fs::metadata(link).context(link)?.ino())
}

/// Ends what programs of this process have left running.
///
/// # Errors
/// If processes can't be listed.
pub fn end_own() -> Result<(), Error> {
    let own = own_name()?;
    end(|owner| owner == own)
}

/// Ends what programs of labs have left running that are gone.
///
/// # Errors
/// If processes can't be listed.
pub fn end_orphans() -> Result<(), Error> {
    let here = namespace()?;
    end(|owner| is_gone(owner, here))
}

/// Ends every process whose owner is chosen.
fn end(chosen: impl Fn(&str) -> bool) -> Result<(), Error> {
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
        // Held before it is looked at: a number may pass to another process, this can't.
        let Ok(held) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
            continue;
        };
        let environment = environment(&entry.path());
        if owner(&environment).is_some_and(&chosen) {
            match rustix::process::pidfd_send_signal(&held, Signal::KILL) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => return Err(Error::new(format!("ending process {number}: {error}"))),
            }
        }
    }
    Ok(())
}

/// The environment of a process in /proc. A program that is just starting shows none yet: it is
/// waited for, a second at most.
fn environment(process: &Path) -> Vec<u8> {
    for _ in 0..1000 {
        if !is_starting(process) {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    fs::read(process.join("environ")).unwrap_or_default()
}

/// Whether a process has a program (kernel threads and zombies have none) whose environment has no
/// place yet: env_end, field 51 of its stat, is 0.
fn is_starting(process: &Path) -> bool {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    process.join("exe").read_link().is_ok() && field(&stat, 51) == Some(0)
}

/// The value of [`OWNER`] in an environment as /proc shows it.
fn owner(environment: &[u8]) -> Option<&str> {
    environment.split(|&byte| byte == 0).find_map(|entry| {
        let value = std::str::from_utf8(entry).ok()?.strip_prefix(OWNER)?;
        value.strip_prefix('=')
    })
}

/// Whether the process of this name was here and is gone. What is no such name is not ours to end.
fn is_gone(owner: &str, here: u64) -> bool {
    let mut parts = owner.split('-').map(str::parse::<u64>);
    let (Some(Ok(number)), Some(Ok(start)), Some(Ok(namespace)), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    namespace == here && start_of(number as i32) != Some(start)
}

/// When a process started, in clock ticks since boot: field 22 of its stat.
fn start_of(number: i32) -> Option<u64> {
    field(
        &fs::read_to_string(format!("/proc/{number}/stat")).ok()?,
        22,
    )
}

/// A field of a stat, the first being 1 and the third the first after the name, which may hold
/// anything but ends at the last parenthesis.
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
    fn only_a_name_whose_process_was_here_and_is_gone_is_an_orphans() {
        let (own, here) = (own_name().unwrap(), namespace().unwrap());
        assert!(!is_gone(&own, here));
        assert!(is_gone(&format!("1-1-{here}"), here), "another start time");
        assert!(!is_gone("1-1-7", here), "another namespace");
        for stranger in ["", "nonsense", "1-", "x-5-6", "1-1"] {
            assert!(!is_gone(stranger, here), "{stranger:?}");
        }
    }

    /// A process that sleeps. Whoever starts one goes on while it still has its starter's memory; its
    /// name shows that it has its own, which its environment may not have reached yet.
    fn sleeper(owner: &str) -> Child {
        let mut sleep = Command::new("sleep");
        let child = sleep.arg("60").env(OWNER, owner).spawn().unwrap();
        while fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap() != "sleep\n" {
            thread::yield_now();
        }
        child
    }

    #[test]
    fn a_program_that_is_just_starting_is_waited_for() {
        // Ours: an orphan would be ended by any lab that begins meanwhile.
        let own = own_name().unwrap();
        for _ in 0..200 {
            let mut child = sleeper(&own);
            let seen = environment(format!("/proc/{}", child.id()).as_ref());
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(owner(&seen), Some(own.as_str()));
        }
    }

    #[test]
    fn programs_of_a_lab_that_is_gone_are_ended_and_no_others() {
        let (mut orphan, mut ours) = (
            sleeper(&format!("1-1-{}", namespace().unwrap())),
            sleeper(&own_name().unwrap()),
        );
        end_orphans().unwrap();
        assert!(!orphan.wait().unwrap().success());
        assert!(ours.try_wait().unwrap().is_none());
        ours.kill().unwrap();
        ours.wait().unwrap();
    }
}
