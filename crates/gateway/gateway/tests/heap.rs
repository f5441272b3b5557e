//! The program's threads share one heap (`share_heap` in `main.rs`).
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::fs;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn no_thread_has_a_heap_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch-gateway"));
        command.current_dir(folder.path());
        command
    };
    let keygen = |file| program().args(["keygen", file]).output().expect("it runs");
    keygen("far.key");
    let peer = String::from_utf8(keygen("near.key").stdout).expect("ASCII");
    let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let listen = free.expect("a port");
    let text = format!(
        "listen = '{listen}'\nallow = []\ntunnel = {{ carrier = 'quic', algorithm = 'reno', \
         key = 'far.key', peers = ['{}'] }}\n",
        peer.trim()
    );
    fs::write(folder.path().join("far.toml"), text).expect("own folder");
    let log = fs::File::create(folder.path().join("log")).expect("own folder");
    let mut far = program();
    far.args(["far", "far.toml"]).stdout(Stdio::null());
    let far = Killed(far.stderr(log).spawn().expect("it runs"));
    let started = Instant::now();
    let log = || fs::read_to_string(folder.path().join("log")).expect("own folder");
    while !log().contains("far started") {
        assert!(started.elapsed() < Duration::from_secs(20), "{}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
    // For the heap of a further thread glibc reserves 64 MiB.
    let reserved_kb = reserved_kb(far.0.id());
    assert!(reserved_kb < 32 << 10, "{reserved_kb} kB are reserved");
}

/// Address space without access, kB.
fn reserved_kb(pid: u32) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let reserved = maps.lines().filter(|line| line.contains(" ---p "));
    let size = |line: &str| {
        let (range, _) = line.split_once(' ').expect("start-end");
        let (start, end) = range.split_once('-').expect("start-end");
        let parse = |text| usize::from_str_radix(text, 16).expect("hexadecimal");
        (parse(end) - parse(start)) >> 10
    };
    reserved.map(size).sum()
}
