//! What the tests of real hosts share: whether they can run here, and the program.
#![allow(dead_code)] // no test uses all of it

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

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

/// Whether hosts can be made here. Says loudly that a test is skipped where not; with
/// ANABRANCH_REQUIRE_KERNEL=1 that is a failure.
pub fn can_create_hosts() -> bool {
    let root = rustix::process::geteuid().is_root();
    let tun = Path::new("/dev/net/tun").exists();
    let multipath = Path::new("/proc/sys/net/mptcp/enabled").exists();
    let able = root && tun && multipath;
    if !able {
        let lacks = format!("root: {root}, /dev/net/tun: {tun}, Multipath TCP: {multipath}");
        assert!(
            env::var_os("ANABRANCH_REQUIRE_KERNEL").is_none(),
            "ANABRANCH_REQUIRE_KERNEL is set, but {lacks}"
        );
        // Not `eprintln!`: that shows only if the test fails.
        writeln!(
            io::stderr(),
            "SKIPPED, because hosts can't be made here ({lacks})"
        )
        .expect("stderr is open");
    }
    able
}

/// Writes a scenario, or a trace, to a file that is there as long as what is returned.
pub fn file(text: &str) -> TempPath {
    let mut file = NamedTempFile::new().expect("the temporary directory takes it");
    file.write_all(text.as_bytes()).expect("it takes the text");
    file.into_temp_path()
}

/// The program with these arguments.
pub fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(LAB);
    command.args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: signal is safe to call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            // What runs in the background has Ctrl-C ignored, and so have its children.
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    command
}

/// Waits until something is there, for 20 s at most.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "no {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The hosts of a lab of [`TWO_LINKS`], held: while they are, no other namespace gets their numbers.
pub struct Hosts(Vec<File>);

impl Hosts {
    /// Waits for them: one for each of the two users, one for the server.
    pub fn of(lab: &Child) -> Hosts {
        let descriptors = PathBuf::from(format!("/proc/{}/fd", lab.id()));
        wait_for("hosts", || {
            let held = namespaces(&descriptors);
            let files = held.iter().map(|(link, _)| File::open(link).ok());
            let files: Option<Vec<File>> = files.collect();
            files.filter(|files| files.len() == 3).map(Hosts)
        })
    }

    /// Their names, such as `net:[4026532198]`.
    pub fn names(&self) -> BTreeSet<String> {
        let link = |file: &File| fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let names = self.0.iter().map(|file| link(file).expect("it is open"));
        names.map(|name| name.display().to_string()).collect()
    }

    /// Waits until no other process holds one of them or is in it.
    pub fn wait_for_their_end(&self) {
        let names = self.names();
        wait_for("end of the hosts", || {
            held_by_others().is_disjoint(&names).then_some(())
        });
    }
}

/// The network namespaces that any other process holds or is in.
fn held_by_others() -> BTreeSet<String> {
    let processes = fs::read_dir("/proc").expect("/proc is there").flatten();
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

/// The links in a directory that lead to network namespaces, and their names.
fn namespaces(directory: &Path) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| {
        let name = fs::read_link(entry.path()).ok()?.display().to_string();
        name.starts_with("net:[").then(|| (entry.path(), name))
    });
    links.collect()
}

/// How many processes have exactly these words as their command line.
pub fn running(words: &[&str]) -> usize {
    let wanted: String = words.iter().map(|word| format!("{word}\0")).collect();
    let processes = fs::read_dir("/proc").expect("/proc is there").flatten();
    processes
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .filter(|command| *command == wanted.as_bytes())
        .count()
}
