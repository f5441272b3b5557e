//! Logs of near and far when there is no tunnel: the cause in plain words, and the remedy.

use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::pair::{PATIENCE, Running, free, keygen, wait};

/// Words of libraries and of the system, without a cause or a remedy.
const JARGON: [&str; 8] = [
    "ApplicationVerificationFailure",
    "CryptoError",
    "InvalidContentType",
    "alert",
    "certificate",
    "cryptographic handshake",
    "deadline",
    "os error",
];

/// Addresses at which no other test takes ports.
const NEAR: Ipv4Addr = Ipv4Addr::new(127, 0, 77, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(127, 0, 77, 2);

/// Service at the address of far.
#[derive(Clone, Copy, Debug)]
enum There {
    /// far with this carrier, and the gateway that pins another key than the other one has.
    Far(&'static str, Option<&'static str>),
    /// Nothing listens.
    Nothing,
    /// Nothing answers.
    Silence,
    /// A service that begins with a banner.
    Ssh,
    /// A service that answers.
    Http,
    /// The configured name has no address.
    NoName,
}

/// A situation: near's carrier, and the only warnings of near and far.
struct Case {
    carrier: &'static str,
    there: There,
    near: &'static str,
    far: &'static str,
}

const UNKNOWN_FAR: &str = "far has the key FAR, which is not in tunnel.peers of near: add it, if \
    keygen has printed it on far's host; otherwise `far` leads to somebody else";
const REFUSED_BY_NEAR: &str = "handshake failed: near does not accept far's key: add it to \
    tunnel.peers of near; near's log shows the key";
const REFUSED_BY_FAR: &str = "far does not accept near's key: add it to tunnel.peers of far and \
    send far SIGHUP; far's log shows the key";
const UNKNOWN_NEAR: &str = "handshake failed: the client has the key NEAR, which is not in \
    tunnel.peers of far: add it and send far SIGHUP, if keygen has printed it on near's host";
const OVER_UDP_ALONE: &str = "far answers over UDP and not over TCP: its tunnel.carrier is quic, \
    and mptcp here; set the same in both files";
const OTHER_CARRIER: &str = "near's tunnel.carrier is quic, and mptcp here: its connections go \
    over QUIC; set the same in both files";
const NO_UDP: &str = "no answer from ADDRESS over UDP in 5s: far does not run there, or a firewall \
    drops UDP to port PORT";
const NO_TCP: &str = "no answer from ADDRESS over TCP in 4s: far does not run there, or a firewall \
    drops TCP to port PORT";
const NOT_STARTED: &str = "nothing listens at ADDRESS over TCP: start far, or compare the port of \
    `far` with `listen` of far";
const OTHER_SERVICE: &str = "another service than far answers there: compare the port of `far` \
    with `listen` of far";
const NO_NAME: &str = "this name does not resolve (no address): check it, and the servers in \
    /etc/resolv.conf";

/// Situations. `ADDRESS`, `PORT`, `NEAR` and `FAR` stand for those of far and for the public keys.
fn cases() -> Vec<Case> {
    let both = |carrier, pins, near, far| (carrier, There::Far(carrier, pins), near, far);
    let alone = |there, quic, mptcp| [("quic", there, quic, ""), ("mptcp", there, mptcp, "")];
    let mut cases = vec![
        both("quic", Some("near"), UNKNOWN_FAR, REFUSED_BY_NEAR),
        both("mptcp", Some("near"), UNKNOWN_FAR, REFUSED_BY_NEAR),
        both("quic", Some("far"), REFUSED_BY_FAR, UNKNOWN_NEAR),
        both("mptcp", Some("far"), REFUSED_BY_FAR, UNKNOWN_NEAR),
        ("mptcp", There::Far("quic", None), OVER_UDP_ALONE, ""),
        ("quic", There::Far("mptcp", None), "", OTHER_CARRIER),
    ];
    cases.extend(alone(There::Nothing, NO_UDP, NOT_STARTED));
    cases.extend(alone(There::Silence, NO_UDP, NO_TCP));
    cases.extend(alone(There::Http, NO_UDP, OTHER_SERVICE));
    cases.extend(alone(There::Ssh, NO_UDP, OTHER_SERVICE));
    cases.extend(alone(There::NoName, NO_NAME, NO_NAME));
    let case = |(carrier, there, near, far)| Case {
        carrier,
        there,
        near,
        far,
    };
    cases.into_iter().map(case).collect()
}

/// Sockets that are held open.
type Kept = Vec<Box<dyn std::any::Any + Send>>;

/// Occupies an address with a service other than far.
fn occupy(there: There, at: SocketAddr) -> Kept {
    let bind = || TcpListener::bind(at).expect("free");
    match there {
        There::Far(..) | There::Nothing | There::NoName => Vec::new(),
        There::Ssh => serve(bind(), b"SSH-2.0-OpenSSH_9.2\r\n", false),
        There::Http => serve(bind(), b"HTTP/1.1 400 Bad Request\r\n\r\n", true),
        There::Silence => {
            let udp = UdpSocket::bind(at).expect("free");
            let listener = socket2::Socket::new(
                socket2::Domain::IPV4,
                socket2::Type::STREAM,
                Some(socket2::Protocol::TCP),
            );
            let listener = listener.expect("a socket");
            listener.bind(&at.into()).expect("free");
            // Nobody accepts, and one connection fills the queue: the kernel drops further ones.
            listener.listen(0).expect("bound");
            let first = TcpStream::connect(at).expect("room");
            vec![Box::new(udp), Box::new(listener), Box::new(first)]
        }
    }
}

/// Says this to each client, after it has said something, or at once.
fn serve(listener: TcpListener, says: &'static [u8], after: bool) -> Kept {
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut heard = [0; 4096];
            if after {
                let _ = stream.read(&mut heard);
            }
            let _ = stream.write_all(says);
            let _ = stream.read(&mut heard);
        }
    });
    Vec::new()
}

/// Both gateways in a situation.
struct Situation {
    _folder: TempDir,
    _kept: Kept,
    keys: [String; 2],
    listen: SocketAddr,
    near: Running,
    far: Option<Running>,
}

impl Situation {
    fn start(case: &Case) -> Situation {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        let keys = ["near.key", "far.key"].map(|file| keygen(at, file));
        let other = keygen(at, "other.key");
        let forward = free();
        let listen = SocketAddr::new(FAR.into(), free().port());
        let pins = |who: &str, key: &str| match case.there {
            There::Far(_, Some(wrong)) if wrong == who => other.clone(),
            _ => key.to_owned(),
        };
        let tunnel = |carrier: &str, own: &str, peer: String| {
            format!(
                "tunnel = {{ carrier = '{carrier}', algorithm = 'cubic', key = '{own}.key', \
                 peers = ['{peer}'] }}\n"
            )
        };
        let host = match case.there {
            There::NoName => format!("nowhere.invalid:{}", listen.port()),
            _ => listen.to_string(),
        };
        let near_toml = format!(
            "far = '{host}'\nforwards = [{{ listen = '{forward}', to = '127.0.0.1:9' }}]\n\
             paths = [{{ name = 'lo', address = '{NEAR}' }}]\n{}",
            tunnel(case.carrier, "near", pins("near", &keys[1])),
        );
        fs::write(at.join("near.toml"), near_toml).expect("own folder");
        let far = match case.there {
            There::Far(carrier, _) => {
                let tunnel = tunnel(carrier, "far", pins("far", &keys[0]));
                let far_toml = format!("listen = '{listen}'\n{tunnel}allow = ['127.0.0.0/8']\n");
                fs::write(at.join("far.toml"), far_toml).expect("own folder");
                let far = Running::start(at, "far");
                wait("far listens", || far.log().contains("far started"));
                Some(far)
            }
            _ => None,
        };
        let kept = occupy(case.there, listen);
        let near = Running::start(at, "near");
        if case.near.is_empty() {
            wait("a tunnel", || near.log().contains("tunnel established"));
            let _ = TcpStream::connect(forward).expect("near listens");
        }
        Situation {
            _folder: folder,
            _kept: kept,
            keys,
            listen,
            near,
            far,
        }
    }

    /// A cause with the values of its words; near says of which far.
    fn expected(&self, is_near: bool, cause: &str) -> Option<String> {
        let host = match cause {
            "" => return None,
            NO_NAME => "nowhere.invalid:PORT",
            _ => "ADDRESS",
        };
        let head = if is_near {
            format!("no tunnel: far = {host}: ")
        } else {
            String::new()
        };
        let line = head + cause;
        let line = line
            .replace("ADDRESS", &self.listen.to_string())
            .replace("PORT", &self.listen.port().to_string())
            .replace("NEAR", &self.keys[0])
            .replace("FAR", &self.keys[1]);
        Some(line)
    }
}

/// The lines above INFO, from the message on.
fn warnings(gateway: &Running) -> Vec<String> {
    let log = gateway.log();
    let lines = log.lines();
    let warnings = lines.filter(|line| line.contains(" WARN ") || line.contains(" ERROR "));
    // A warning of the configuration: the path of the test is a loopback address, a name is none.
    let warnings = warnings.filter(|line| !line.contains("reaches nothing but this host"));
    let message = |line: &str| line.split_once(": ").map_or("", |it| it.1).to_owned();
    warnings.map(message).collect()
}

/// Time in which a warning must not be repeated: near tries again after 1 s.
const AGAIN: Duration = Duration::from_secs(3);

/// Faults of the logs in this situation.
fn faults(case: &Case) -> Vec<String> {
    let situation = Situation::start(case);
    let far = situation.far.as_ref();
    let says = |gateway: Option<&Running>| gateway.is_some_and(|it| !warnings(it).is_empty());
    let near = &situation.near;
    let start = Instant::now();
    while !says(Some(near)) && !says(far) && start.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(AGAIN);
    let logs = [(Some(&situation.near), case.near), (far, case.far)];
    let mut faults = Vec::new();
    for (i, (gateway, expected)) in logs.into_iter().enumerate() {
        let Some(gateway) = gateway else { continue };
        let expected = situation.expected(i == 0, expected);
        let logged = warnings(gateway);
        let is_expected = match (&expected, &logged[..]) {
            (Some(expected), [logged]) => logged.contains(expected),
            (None, []) => true,
            _ => false,
        };
        let jargon = JARGON
            .iter()
            .filter(|word| logged.concat().contains(**word));
        let jargon: Vec<_> = jargon.collect();
        if !is_expected || !jargon.is_empty() {
            let (carrier, there) = (case.carrier, case.there);
            faults.push(format!(
                "{carrier}, {there:?}: {logged:#?} instead of {expected:?}; {jargon:?}; log of near:\n{}",
                near.log()
            ));
        }
    }
    faults
}

#[test]
fn without_a_tunnel_each_end_says_once_why_and_what_to_do() {
    let faults = thread::scope(|scope| {
        let all = cases().into_iter();
        let all: Vec<_> = all.map(|case| scope.spawn(move || faults(&case))).collect();
        let all = all.into_iter().flat_map(|it| it.join().expect("no panic"));
        all.collect::<Vec<_>>()
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn each_path_that_opens_has_a_line_of_its_end_at_both_ends() {
    for carrier in ["quic", "mptcp"] {
        let case = Case {
            carrier,
            there: There::Far(carrier, None),
            near: "",
            far: "",
        };
        let mut situation = Situation::start(&case);
        situation.near.signal(Signal::TERM);
        situation.near.end();
        let far = situation.far.as_mut().expect("it runs");
        wait("far's tunnel has ended", || {
            far.log().contains("by the peer: near stops")
        });
        far.signal(Signal::TERM);
        far.end();
        for log in [situation.near.log(), far.log()] {
            let count = |line: &str| log.matches(line).count();
            let ended = count("path closed: the tunnel has ended");
            assert_eq!((count("path opened"), ended), (1, 1), "{carrier}: {log}");
        }
    }
}
