//! The program `anabranch-kernel` with pins of its own.

use std::fs;
use std::process::Command;

use anabranch_kernel::connections;
use rustix::thread::UnshareFlags;

use super::network::{Host, Network};

/// Runs the program. Returns its output in both streams.
pub fn run(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch-kernel"));
    let output = command.args(arguments).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

/// Guard of the names, which are free again when the next test gets its turn.
pub struct OwnPins;

impl Drop for OwnPins {
    fn drop(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch-kernel"));
        let _ = command.args(["unload", "--all"]).output();
    }
}

/// A BPF file system and names of network namespaces that only this thread and its children see.
/// They do not see the first process, whose file system is another: pins would be refused.
pub fn own_bpf_fs() -> OwnPins {
    // Safety: no file descriptor table is unshared, and only this thread changes its namespace.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
    fs::create_dir_all("/run/netns").unwrap();
    for arguments in [
        &["--make-rprivate", "/"][..],
        &["-t", "bpf", "bpf", "/sys/fs/bpf"],
        &["-t", "tmpfs", "tmpfs", "/run/netns"],
        &["-t", "tmpfs", "tmpfs", "/proc/1"],
    ] {
        let status = Command::new("mount").args(arguments).status().unwrap();
        assert!(status.success(), "mount {arguments:?}");
    }
    OwnPins
}

/// Number of the client's subflows that run each program.
pub fn programs(network: &Network) -> Vec<(u32, usize)> {
    let subflows = network.inside(Host::Client, || connections().unwrap());
    let subflows = subflows.into_iter().flat_map(|one| one.subflows);
    let mut ids: Vec<u32> = subflows.filter_map(|one| one.registration).collect();
    ids.sort_unstable();
    let same = ids.chunk_by(|a, b| a == b);
    same.map(|chunk| (chunk[0], chunk.len())).collect()
}
