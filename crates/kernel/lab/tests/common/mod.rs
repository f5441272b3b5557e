//! Shared by the tests with real hosts: whether they can run on this machine, and the program.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use rustix::process::{Signal, set_parent_process_death_signal};
use tempfile::{NamedTempFile, TempPath};

/// The program.
pub const LAB: &str = env!("CARGO_BIN_EXE_anabranch-lab");

/// Two links; one user over both, one over the second.
pub const TWO_LINKS: &str = r#"
name = "two links"
algorithm = "reno"
measure = { duration_s = 3, warmup_s = 1 }
links.A = { rate_mbps = 8, delay_ms = 5, queue.drop_tail = { packets = 40 } }
links.B = { rate_mbps = 4, delay_ms = 10, queue.drop_tail = { packets = 40 } }
flows = [
  { name = "two", paths = [["A"], ["B"]] },
  { name = "one", paths = [["B"]] },
]
"#;

/// Whether hosts can be created on this machine. If not, prints that the test is skipped; with
/// ANABRANCH_REQUIRE_KERNEL=1 it fails.
pub fn can_create_hosts() -> bool {
    let root = rustix::process::geteuid().is_root();
    let tun = Path::new("/dev/net/tun").exists();
    let multipath = Path::new("/proc/sys/net/mptcp/enabled").exists();
    let ip = Command::new("ip").arg("-V").output().is_ok();
    let able = root && tun && multipath && ip;
    if !able {
        let state = format!(
            "root: {root}, /dev/net/tun: {tun}, Multipath TCP: {multipath}, iproute2: {ip}"
        );
        assert!(
            env::var_os("ANABRANCH_REQUIRE_KERNEL").is_none(),
            "ANABRANCH_REQUIRE_KERNEL is set, but {state}"
        );
        // Not `eprintln!`, whose output is shown only if the test fails.
        writeln!(
            io::stderr(),
            "SKIPPED, because hosts can't be created here ({state})"
        )
        .expect("stderr is open");
    }
    able
}

/// Writes a scenario or a trace to a temporary file, which is removed with the returned value.
pub fn file(text: &str) -> TempPath {
    let mut file = NamedTempFile::new().expect("the temporary directory is writable");
    file.write_all(text.as_bytes())
        .expect("the file is writable");
    file.into_temp_path()
}

/// A command that runs the program with these arguments, and is killed with the test: a lab that
/// a failed test left would be joined when the test is repeated.
pub fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(LAB);
    command.args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: prctl and signal are safe to call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // Processes in the background, and their children, inherit that SIGINT is ignored.
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    command
}

/// Waits until `look` returns something, at most 20 s.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "no {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Descriptors of the hosts of a lab of [`TWO_LINKS`]; while they are open, the numbers of the
/// namespaces are not reused.
pub struct Hosts(Vec<File>);

impl Hosts {
    /// Waits until the lab has created them: one for each of the two users, one for the server.
    pub fn of(lab: &Child) -> Hosts {
        let descriptors = PathBuf::from(format!("/proc/{}/fd", lab.id()));
        wait_for("hosts", || {
            let held = namespaces(&descriptors);
            let files = held.iter().map(|(link, _)| File::open(link).ok());
            let files: Option<Vec<File>> = files.collect();
            files.filter(|files| files.len() == 3).map(Hosts)
        })
    }

    /// The names of the namespaces, such as `net:[4026532198]`.
    pub fn names(&self) -> BTreeSet<String> {
        let link = |file: &File| fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let names = self
            .0
            .iter()
            .map(|file| link(file).expect("the descriptor is open"));
        names.map(|name| name.display().to_string()).collect()
    }

    /// Waits until no other process uses one of them.
    pub fn wait_for_their_end(&self) {
        let names = self.names();
        wait_for("end of the hosts", || {
            used_by_others().is_disjoint(&names).then_some(())
        });
    }
}

/// The network namespaces that other processes have open or are in.
fn used_by_others() -> BTreeSet<String> {
    let processes = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let others = processes.filter(|entry| {
        let number = entry.file_name().to_string_lossy().parse::<u32>();
        number.is_ok_and(|number| number != std::process::id())
    });
    let of_each = others.flat_map(|process| {
        let held = namespaces(&process.path().join("fd"));
        held.into_iter()
            .chain(namespaces(&process.path().join("ns")))
    });
    of_each.map(|(_, name)| name).collect()
}

/// The links to network namespaces in a directory, and the names of the namespaces.
fn namespaces(directory: &Path) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| {
        let name = fs::read_link(entry.path()).ok()?.display().to_string();
        name.starts_with("net:[").then(|| (entry.path(), name))
    });
    links.collect()
}

/// The number of processes with exactly this command line.
pub fn running(words: &[&str]) -> usize {
    let wanted: String = words.iter().map(|word| format!("{word}\0")).collect();
    let processes = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    processes
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .filter(|command| *command == wanted.as_bytes())
        .count()
}
