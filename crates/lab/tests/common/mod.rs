//! What the tests of real hosts share: whether they can run here, and the program.
#![allow(dead_code)] // no test uses all of it

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

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
pub fn hosts_can_be_made() -> bool {
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

/// Writes a scenario to a file of its own.
pub fn file(name: &str, text: &str) -> PathBuf {
    let file = env::temp_dir().join(format!("anabranch-lab-{}-{name}.toml", std::process::id()));
    fs::write(&file, text).expect("the temporary directory takes it");
    file
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

/// The network namespaces that a process holds by its descriptors, as `net:[4026532198]`.
pub fn held_by(child: &Child) -> BTreeSet<String> {
    links(&format!("/proc/{}/fd", child.id()))
}

/// The network namespaces that any process holds or is in.
pub fn held_by_anybody() -> BTreeSet<String> {
    let processes = fs::read_dir("/proc").expect("/proc is there").flatten();
    let numbers = processes.filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().parse::<u32>().is_ok()
    });
    numbers
        .flat_map(|process| {
            let at = |what| format!("{}/{what}", process.path().display());
            let mut found = links(&at("fd"));
            found.extend(fs::read_link(at("ns/net")).map(|link| link.display().to_string()));
            found
        })
        .collect()
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

fn links(directory: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .map(|link| link.display().to_string())
        .filter(|link| link.starts_with("net:["))
        .collect()
}
