//! Several paths, between two network namespaces. Needs root and Multipath TCP.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_carrier::Carrier::Mptcp;
use anabranch_carrier::mptcp::remove_endpoints;
use anabranch_carrier::{Condition, Far, Listener, Near, Role, Tunnel, connect};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};

use crate::support::{configs, identities, path};

/// Whether the tests can run; with ANABRANCH_REQUIRE_KERNEL=1 they must.
pub fn can_run() -> bool {
    let root = rustix::process::geteuid().is_root();
    let multipath = Path::new("/proc/sys/net/mptcp/enabled").exists();
    let ip = Command::new("ip").arg("-V").output().is_ok();
    let nft = Command::new("nft").arg("-v").output().is_ok();
    let able = root && multipath && ip && nft;
    if !able {
        let state = format!("root: {root}, Multipath TCP: {multipath}, iproute2: {ip}, nft: {nft}");
        assert!(
            std::env::var_os("ANABRANCH_REQUIRE_KERNEL").is_none(),
            "{state}"
        );
        println!("SKIPPED, because network namespaces can't be set up here ({state})");
    }
    able
}

/// Two hosts with two links, 10.0.1.0/24 and 10.0.2.0/24; removed when this is dropped.
///
/// One test at a time has them: the gateway counts the users of an endpoint by its address, and a
/// process has one network namespace, but in these tests.
pub struct Hosts {
    pub near: String,
    pub far: String,
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

fn address(network: u8, host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, network, host))
}

pub fn ip(arguments: &str) -> String {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .expect("iproute2");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Hosts {
    pub fn new(test: &str) -> Hosts {
        let name = |end: &str| format!("abg-{}-{test}-{end}", std::process::id());
        let hosts = Hosts {
            near: name("near"),
            far: name("far"),
            _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner),
        };
        let (near, far) = (&hosts.near, &hosts.far);
        for host in [near, far] {
            ip(&format!("netns add {host}"));
            ip(&format!("-n {host} link set lo up"));
        }
        for link in [1, 2] {
            ip(&format!(
                "-n {near} link add v{link} type veth peer name v{link} netns {far}"
            ));
            for (host, end) in [(near, 1), (far, 2)] {
                ip(&format!(
                    "-n {host} address add {}/24 dev v{link}",
                    address(link, end)
                ));
                ip(&format!("-n {host} link set v{link} up"));
            }
        }
        // far is reached at its address of the first network, over either link.
        ip(&format!("-n {far} address add 10.0.9.9/32 dev lo"));
        for link in [1, 2] {
            let via = address(link, 2);
            ip(&format!(
                "-n {near} route add 10.0.9.9/32 via {via} metric {link}"
            ));
            ip(&format!(
                "-n {near} rule add from {} table {link}",
                address(link, 1)
            ));
            ip(&format!(
                "-n {near} route add 10.0.9.9/32 via {via} table {link}"
            ));
        }
        hosts
    }
}

/// Cuts a link without a sign of it at `near`, or repairs it.
pub fn set_link(far: &str, link: u8, state: &str) {
    // The route back disappears with the interface, so packets of either direction are lost.
    ip(&format!("-n {far} link set v{link} {state}"));
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in [&self.near, &self.far] {
            ip(&format!("netns delete {host}"));
        }
    }
}

/// Runs this in a network namespace, in a thread of its own: new threads and processes inherit it.
fn run_in<T, F>(host: &str, run: impl FnOnce() -> F + Send + 'static) -> std::thread::JoinHandle<T>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let namespace = std::fs::File::open(format!("/run/netns/{host}")).expect("it exists");
    std::thread::spawn(move || {
        let kind = Some(rustix::thread::LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(namespace.as_fd(), kind).expect("root");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(run())
    })
}

/// The configurations of both, between the hosts and over both links.
fn configs_of_hosts() -> (Near, Far) {
    let (mut near, mut far) = configs(Mptcp);
    far.listen = (Ipv4Addr::UNSPECIFIED, 4433).into();
    near.far = SocketAddr::from((Ipv4Addr::new(10, 0, 9, 9), 4433)).into();
    near.paths = [1, 2]
        .map(|link| path(&address(link, 1).to_string()))
        .into();
    (near, far)
}

/// Connects in the two namespaces. `far` discards what it receives, and sends back its number of
/// bytes.
pub fn with_tunnel<F>(
    hosts: &Hosts,
    change: impl FnOnce(&mut Near, &mut Far),
    test: impl FnOnce(Tunnel) -> F + Send + 'static,
) where
    F: Future<Output = ()>,
{
    let (near_identity, far_identity, _) = identities();
    let (mut near, mut far) = configs_of_hosts();
    change(&mut near, &mut far);
    let (listening, is_listening) = std::sync::mpsc::channel();
    let accepting = run_in(&hosts.far, move || async move {
        let listener = Listener::bind(&far, &far_identity).await.expect("bound");
        listening.send(()).expect("waiting");
        let (tunnel, _) = listener.accept().await.expect("accepted");
        tokio::spawn(serve(tunnel.clone()));
        assert_eq!(tunnel.closed().await.0, "by the peer: done");
        // As `near` saw them: the peer's addresses.
        tunnel.paths().len()
    });
    is_listening.recv().expect("listening");
    let connecting = run_in(&hosts.near, move || async move {
        let tunnel = connect(&near, &near_identity).await.expect("connected");
        test(tunnel.clone()).await;
        tunnel.close("done");
        tunnel.closed().await;
    });
    connecting.join().expect("no panic");
    assert!(accepting.join().expect("no panic") >= 1);
}

async fn serve(tunnel: Tunnel) {
    while let Ok(mut stream) = tunnel.accept().await {
        tokio::spawn(async move {
            let mut received = 0u64;
            let mut buffer = vec![0; 1 << 16];
            while let Ok(bytes @ 1..) = stream.read(&mut buffer).await {
                assert!(buffer[..bytes].iter().all(|&byte| byte == 7), "changed");
                received += bytes as u64;
            }
            let _ = stream.write_u64(received).await;
            let _ = stream.shutdown().await;
        });
    }
}

/// Waits until the paths are in these conditions.
pub async fn until(tunnel: &Tunnel, wanted: [Condition; 2]) {
    let reached = async {
        while tunnel.paths().iter().map(|path| path.condition).ne(wanted) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let reached = timeout(Duration::from_secs(20), reached).await;
    reached.unwrap_or_else(|_| panic!("not {wanted:?}: {:#?}", tunnel.paths()));
}

fn endpoints(host: &str) -> String {
    ip(&format!("netns exec {host} ip mptcp endpoint show"))
}

#[test]
fn both_paths_carry_data_and_endpoints_are_removed() {
    if !can_run() {
        return;
    }
    let hosts = Hosts::new("both");
    let near = hosts.near.clone();
    with_tunnel(
        &hosts,
        |_, _| {},
        move |tunnel| async move {
            until(&tunnel, [Condition::Up, Condition::Up]).await;
            assert_eq!(endpoints(&near).lines().count(), 2, "{}", endpoints(&near));
            let mut stream = tunnel.open().await.expect("open");
            let data = vec![7; 20_000_000];
            stream.write_all(&data).await.expect("open");
            stream.shutdown().await.expect("open");
            assert_eq!(
                stream.read_u64().await.expect("an answer"),
                data.len() as u64
            );
            let paths = tunnel.paths();
            let names = paths.iter().map(|path| (path.name.as_str(), path.local));
            let (first, second) = (address(1, 1), address(2, 1));
            assert!(
                names.eq([("10.0.1.1", Some(first)), ("10.0.2.1", Some(second))]),
                "{paths:#?}"
            );
            let sum: u64 = paths.iter().map(|path| path.sent_bytes).sum();
            assert!((20_000_000..25_000_000).contains(&sum), "{paths:#?}");
            for path in &paths {
                assert!(
                    path.sent_bytes > 100_000 && path.base_rtt_s.is_some(),
                    "{paths:#?}"
                );
                assert!(
                    path.window_packets > 1.0 && path.mtu_bytes == 1500,
                    "{paths:#?}"
                );
            }
        },
    );
    assert_eq!(endpoints(&hosts.near), "");
}

#[test]
fn a_backup_waits_and_a_path_that_is_never_used_is_off() {
    if !can_run() {
        return;
    }
    let hosts = Hosts::new("roles");
    let backup = |near: &mut Near, _: &mut Far| near.paths[1].role = Role::Backup;
    with_tunnel(&hosts, backup, |tunnel| async move {
        until(&tunnel, [Condition::Up, Condition::Standby]).await;
        let mut stream = tunnel.open().await.expect("open");
        stream.write_all(&vec![7; 5_000_000]).await.expect("open");
        stream.shutdown().await.expect("open");
        assert_eq!(stream.read_u64().await.expect("an answer"), 5_000_000);
        let paths = tunnel.paths();
        assert!(paths[1].sent_bytes < 5_000, "{paths:#?}");
        assert_eq!(paths[0].reason, None);
        assert_eq!(paths[1].reason.as_deref(), Some("its role is backup"));
    });
    drop(hosts);
    let hosts = Hosts::new("never");
    for (change, reason) in OFF {
        let off = |near: &mut Near, _: &mut Far| change(&mut near.paths[0]);
        with_tunnel(&hosts, off, move |tunnel| async move {
            until(&tunnel, [Condition::Off, Condition::Up]).await;
            assert_eq!(tunnel.paths()[0].reason.as_deref(), Some(reason));
        });
    }
}

/// Changes that turn a path off, with the reason.
type Off = (fn(&mut anabranch_carrier::Path), &'static str);
const OFF: [Off; 3] = [
    (|path| path.role = Role::Never, "its role is never"),
    (
        |path| (path.role, path.cap_bytes) = (Role::Never, Some(0)),
        "its cap_bytes are used up",
    ),
    (
        |path| path.address = "fd00::1".parse().ok(),
        "far has no address of its family",
    ),
];

/// Waits until the path has a reason that begins so.
async fn until_reason(tunnel: &Tunnel, path: usize, wanted: &str) {
    let reason = || tunnel.paths()[path].reason.clone().unwrap_or_default();
    let has = async {
        while !reason().starts_with(wanted) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = timeout(Duration::from_secs(15), has).await;
    waited.unwrap_or_else(|_| panic!("not {wanted:?}: {:#?}", tunnel.paths()));
}

#[test]
fn a_path_that_does_not_open_has_a_reason() {
    if !can_run() {
        return;
    }
    let hosts = Hosts::new("reasons");
    let nowhere = |near: &mut Near, _: &mut Far| {
        near.paths[1] = anabranch_carrier::Path {
            address: "10.0.7.7".parse().ok(),
            ..near.paths[1].clone()
        };
    };
    with_tunnel(&hosts, nowhere, |tunnel| async move {
        until_reason(&tunnel, 1, "this host has no address 10.0.7.7").await;
    });
    let gone = |near: &mut Near, _: &mut Far| {
        near.paths[1].address = None;
        near.paths[1].interface = Some("gone".to_owned());
    };
    with_tunnel(&hosts, gone, |tunnel| async move {
        until_reason(&tunnel, 1, "this host has no interface gone").await;
    });
    set_link(&hosts.far, 1, "down");
    let far = hosts.far.clone();
    with_tunnel(
        &hosts,
        |_, _| {},
        |tunnel| async move {
            until_reason(&tunnel, 0, "no answer from 10.0.9.9:4433: ").await;
            set_link(&far, 1, "up");
            until(&tunnel, [Condition::Up, Condition::Up]).await;
            assert_eq!(tunnel.paths()[0].reason, None);
        },
    );
}

/// The second link has no route, leads to the page of a portal, or through a middlebox that takes
/// away the options of Multipath TCP; when that ends, the path opens.
#[test]
fn a_path_over_a_link_that_is_not_whole_has_a_reason() {
    if !can_run() {
        return;
    }
    let hosts = Hosts::new("whole");
    let [near, far] = [hosts.near.clone(), hosts.far.clone()];
    let filter = far.clone();
    let nft = move |rules: &str| {
        let nft = ["netns", "exec", &filter, "nft", rules];
        let done = Command::new("ip").args(nft).status().expect("iproute2");
        assert!(done.success(), "{rules}");
    };
    let unreachable = move |change: &str| {
        ip(&format!(
            "-n {near} rule {change} from 10.0.2.1 unreachable"
        ));
    };
    let bind = || async { std::net::TcpListener::bind("0.0.0.0:80").expect("free") };
    let portal = run_in(&hosts.far, bind).join().expect("no panic");
    // Nobody answers ARP for far, which the kernel takes for a neighbour where it has no route.
    set_link(&far, 2, "down");
    unreachable("add");
    with_tunnel(
        &hosts,
        |_, _| {},
        move |tunnel| async move {
            until_reason(&tunnel, 1, "no route to 10.0.9.9 ").await;
            nft(
                "table ip portal { chain first { type nat hook prerouting priority dstnat; \
             iif v2 tcp dport 4433 redirect to :80; }; }",
            );
            unreachable("del");
            set_link(&far, 2, "up");
            portal.set_nonblocking(true).expect("set");
            let portal = TcpListener::from_std(portal).expect("a runtime");
            tokio::spawn(async move {
                while let Ok((mut client, _)) = portal.accept().await {
                    let _ = client.read(&mut [0; 2000]).await;
                    let _ = client.write_all(b"HTTP/1.1 302 Found\r\n\r\n").await;
                }
            });
            until_reason(&tunnel, 1, "another service than far answers there").await;
            nft(
                "delete table ip portal; table ip options { chain first { type filter hook prerouting \
             priority raw; iif v2 reset tcp option mptcp; }; }",
            );
            until_reason(&tunnel, 1, "far answers over it, but a middlebox strips").await;
            nft("delete table ip options");
            until(&tunnel, [Condition::Up, Condition::Up]).await;
        },
    );
}

#[test]
fn a_dead_path_costs_little_and_is_used_again_when_it_returns() {
    if !can_run() {
        return;
    }
    // Either the path that has connected, or the one that was added.
    for dead in [1u8, 2] {
        let hosts = Hosts::new(&format!("dead{dead}"));
        let far = hosts.far.clone();
        with_tunnel(
            &hosts,
            |_, _| {},
            move |tunnel| async move {
                let up = [Condition::Up, Condition::Up];
                until(&tunnel, up).await;
                let mut stream = tunnel.open().await.expect("open");
                let stop = Instant::now() + Duration::from_secs(25);
                let mut sent = 0u64;
                let mut longest = Duration::ZERO;
                let mut state = 0;
                let mut one_up = up;
                one_up[usize::from(dead - 1)] = Condition::Dead;
                while Instant::now() < stop && state < 4 {
                    let before = Instant::now();
                    stream.write_all(&[7; 100_000]).await.expect("open");
                    sent += 100_000;
                    longest = longest.max(before.elapsed());
                    let now: Vec<Condition> =
                        tunnel.paths().iter().map(|path| path.condition).collect();
                    match state {
                        0 if sent > 10_000_000 => set_link(&far, dead, "down"),
                        1 if now == one_up => {}
                        2 => set_link(&far, dead, "up"),
                        3 if now == up => {}
                        _ => continue,
                    }
                    println!(
                        "link {dead}: state {state} left after {:?}",
                        stop - Instant::now()
                    );
                    state += 1;
                }
                assert_eq!(state, 4, "{:#?}", tunnel.paths());
                stream.shutdown().await.expect("open");
                assert_eq!(stream.read_u64().await.expect("an answer"), sent);
                println!("link {dead}: longest stall {longest:?}, {sent} bytes");
                assert_eq!(tunnel.paths()[usize::from(dead - 1)].deaths, 1);
            },
        );
    }
}

#[test]
fn another_path_is_tried_if_the_first_has_no_answer() {
    if !can_run() {
        return;
    }
    let hosts = Hosts::new("first");
    let begin = Instant::now();
    set_link(&hosts.far, 1, "down");
    with_tunnel(
        &hosts,
        |_, _| {},
        |tunnel| async move {
            until(&tunnel, [Condition::Opening, Condition::Up]).await;
        },
    );
    // The first path has half a second, not the 5 s of a handshake.
    assert!(
        begin.elapsed() < Duration::from_secs(4),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn a_tunnel_without_any_working_path_is_closed_within_30_s() {
    if !can_run() {
        return;
    }
    let hosts = Hosts::new("silent");
    let far = hosts.far.clone();
    let (near_identity, far_identity, _) = identities();
    let (near_config, far_config) = configs_of_hosts();
    let (listening, is_listening) = std::sync::mpsc::channel();
    let accepting = run_in(&hosts.far, move || async move {
        let listener = Listener::bind(&far_config, &far_identity).await;
        let listener = listener.expect("bound");
        listening.send(()).expect("waiting");
        let (tunnel, _) = listener.accept().await.expect("accepted");
        tunnel.closed().await.0
    });
    is_listening.recv().expect("listening");
    let connecting = run_in(&hosts.near, move || async move {
        let tunnel = connect(&near_config, &near_identity).await;
        let tunnel = tunnel.expect("connected");
        until(&tunnel, [Condition::Up, Condition::Up]).await;
        set_link(&far, 1, "down");
        set_link(&far, 2, "down");
        let closed = timeout(Duration::from_secs(30), tunnel.closed()).await;
        closed.expect("closed in time").0
    });
    for end in [connecting, accepting] {
        let reason = end.join().expect("no panic");
        let known = ["nothing received for 20 s", "no path is left"];
        assert!(known.contains(&reason.as_str()), "{reason}");
    }
}

/// Endpoints that a killed near has left behind, or the operator's.
#[test]
fn endpoints_that_are_found_are_renewed_and_stay() {
    if !can_run() {
        return;
    }
    let hosts = Hosts::new("found");
    for link in [1, 2] {
        let address = address(link, 1);
        ip(&format!(
            "netns exec {} ip mptcp endpoint add {address} dev v{link} subflow",
            hosts.near
        ));
    }
    let before = endpoints(&hosts.near);
    let far = hosts.far.clone();
    with_tunnel(
        &hosts,
        |_, _| {},
        |tunnel| async move {
            until(&tunnel, [Condition::Up, Condition::Up]).await;
            set_link(&far, 2, "down");
            let mut stream = tunnel.open().await.expect("open");
            // Without data a path is not found dead.
            stream.write_all(&[7; 2_000_000]).await.expect("open");
            until(&tunnel, [Condition::Up, Condition::Dead]).await;
            set_link(&far, 2, "up");
            until(&tunnel, [Condition::Up, Condition::Up]).await;
        },
    );
    let sorted = |text: String| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(endpoints(&hosts.near)), sorted(before));
}

#[test]
fn no_endpoint_is_left_when_the_process_ends() {
    if !can_run() {
        return;
    }
    let hosts = Hosts::new("end");
    let near = hosts.near.clone();
    with_tunnel(
        &hosts,
        |_, _| {},
        |tunnel| async move {
            until(&tunnel, [Condition::Up, Condition::Up]).await;
            tunnel.close("done");
            tunnel.closed().await;
            remove_endpoints();
            assert_eq!(endpoints(&near), "");
        },
    );
}

#[test]
fn a_path_that_carries_data_has_the_name_of_its_interface() {
    if !can_run() {
        return;
    }
    let hosts = Hosts::new("names");
    set_link(&hosts.far, 1, "down");
    let by_interface = |near: &mut Near, _: &mut Far| {
        for (path, interface) in near.paths.iter_mut().zip(["v1", "v2"]) {
            (path.address, path.interface) = (None, Some(interface.to_owned()));
        }
    };
    with_tunnel(&hosts, by_interface, |tunnel| async move {
        let paths = tunnel.paths();
        let local: Vec<_> = paths.iter().map(|path| path.local).collect();
        assert_eq!(local, [None, Some(address(2, 1))], "{paths:#?}");
        until(&tunnel, [Condition::Opening, Condition::Up]).await;
        assert_eq!(tunnel.paths().len(), 2);
    });
}
