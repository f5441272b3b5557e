//! A pair of gateways on loopback as processes.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub const GATEWAY: &str = env!("CARGO_BIN_EXE_anabranch-gateway");

/// Time limit of events that should happen at once.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn gateway(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(GATEWAY);
    command
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until the condition holds.
pub fn wait(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// An address of loopback that was free just now.
pub fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound")
}

/// Answers each connection with its own bytes.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut reader = stream.try_clone().expect("a descriptor");
                let _ = std::io::copy(&mut reader, &mut &stream);
            });
        }
    });
    address
}

/// A running gateway, killed when it is dropped.
pub struct Running {
    pub child: Child,
    pub log: std::path::PathBuf,
}

impl Running {
    pub fn start(folder: &Path, role: &str) -> Running {
        let log = folder.join(format!("{role}.log"));
        let mut command = Command::new(GATEWAY);
        command
            .args(["-v", role, &format!("{role}.toml")])
            .current_dir(folder);
        let file = fs::File::create(&log).expect("own folder");
        let child = command
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("the program");
        Running { child, log }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("own folder")
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("own child");
    }

    pub fn end(&mut self) -> ExitStatus {
        wait("the process ends", || {
            self.child.try_wait().expect("own child").is_some()
        });
        self.child.wait().expect("own child")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Both gateways with an echo server behind `far`.
pub struct Pair {
    pub folder: TempDir,
    pub near: Running,
    pub far: Running,
    pub listen: SocketAddr,
    pub forward: SocketAddr,
    pub status: SocketAddr,
    pub near_toml: String,
    pub far_toml: String,
}

impl Pair {
    pub fn start(drain_s: f64) -> Pair {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        let [near_key, far_key] = ["near.key", "far.key"].map(|file| keygen(at, file));
        let (listen, forward, status) = (free(), free(), free());
        let tunnel = |own: &str, peer: &str| {
            format!(
                "tunnel = {{ carrier = 'mptcp', algorithm = 'cubic', key = '{own}', \
                 peers = ['{peer}'] }}\n"
            )
        };
        let near_toml = format!(
            "far = '{listen}'\n{}paths = [{{ name = 'lo', address = '127.0.0.1' }}]\n\
             forwards = [{{ listen = '{forward}', to = '{}' }}]\n\
             operation = {{ status = '{status}', drain_s = {drain_s} }}\n",
            tunnel("near.key", &far_key),
            echo(),
        );
        let far_toml = format!(
            "listen = '{listen}'\n{}allow = ['127.0.0.0/8']\noperation.drain_s = {drain_s}\n",
            tunnel("far.key", &near_key),
        );
        fs::write(at.join("near.toml"), &near_toml).expect("own folder");
        fs::write(at.join("far.toml"), &far_toml).expect("own folder");
        let far = Running::start(at, "far");
        wait("far listens", || far.log().contains("far started"));
        let near = Running::start(at, "near");
        wait("a tunnel", || near.log().contains("tunnel established"));
        Pair {
            folder,
            near,
            far,
            listen,
            forward,
            status,
            near_toml,
            far_toml,
        }
    }

    pub fn status(&self) -> serde_json::Value {
        let (_, body) = get(self.status, "/status.json", "127.0.0.1");
        serde_json::from_str(&body).unwrap_or_default()
    }

    /// Replaces the configuration of near, and waits for the next outcome of a reload.
    pub fn reload(&self, near_toml: &str) -> serde_json::Value {
        let before = self.near.log().matches("reload:").count();
        fs::write(self.folder.path().join("near.toml"), near_toml).expect("own folder");
        self.near.signal(Signal::HUP);
        wait("a reload", || {
            self.near.log().matches("reload:").count() > before
        });
        thread::sleep(Duration::from_millis(100));
        self.status()["reload"].clone()
    }
}

pub fn keygen(folder: &Path, file: &str) -> String {
    let done = gateway(&["keygen", file], folder);
    assert!(done.status.success(), "{}", text(&done.stderr));
    text(&done.stdout).trim().to_owned()
}

/// The first line and headers, and the body of an answer over HTTP.
pub fn request(method: &str, at: SocketAddr, path: &str, host: &str) -> (String, String) {
    let Ok(mut stream) = TcpStream::connect(at) else {
        return Default::default();
    };
    let head = format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("a request");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    (head.to_owned(), body.to_owned())
}

pub fn get(at: SocketAddr, path: &str, host: &str) -> (String, String) {
    request("GET", at, path, host)
}

/// Whether a connection to this address returns what is sent.
pub fn echoes(at: SocketAddr) -> bool {
    TcpStream::connect(at).is_ok_and(|stream| echoes_on(&stream))
}

pub fn echoes_on(mut stream: &TcpStream) -> bool {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let mut back = [0; 4];
    stream.write_all(b"ping").is_ok() && stream.read_exact(&mut back).is_ok() && back == *b"ping"
}
