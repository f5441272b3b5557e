//! Connections of near itself that the packet filter redirects to near. Needs root and nftables.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anabranch_gateway::near::TunnelId;
use tokio::net::TcpStream;

use super::harness::*;

/// Whether the tests can run; with ANABRANCH_REQUIRE_KERNEL=1 they must.
fn can_run() -> bool {
    let root = rustix::process::geteuid().is_root();
    let nft = Command::new("nft").arg("--version").output().is_ok();
    if !(root && nft) {
        let state = format!("root: {root}, nftables: {nft}");
        assert!(
            std::env::var_os("ANABRANCH_REQUIRE_KERNEL").is_none(),
            "{state}"
        );
        println!("SKIPPED, because nothing can be redirected here ({state})");
    }
    root && nft
}

fn command(program: &str, arguments: &str, input: &str) {
    let mut child = Command::new(program)
        .args(arguments.split(' '))
        .stdin(Stdio::piped())
        .spawn()
        .expect(program);
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input.as_bytes()).expect("read");
    drop(stdin);
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{program} {arguments} {input}");
}

/// Runs this in a thread with a network of its own, whose address is 8.8.4.4.
fn in_own_network(run: impl AsyncFnOnce() + Send + 'static) {
    let thread = std::thread::spawn(|| {
        let network = rustix::thread::UnshareFlags::NEWNET;
        // SAFETY: it changes the network namespace of this thread, and no memory or descriptor.
        unsafe { rustix::thread::unshare_unsafe(network) }.expect("root");
        for arguments in [
            "link set lo up",
            "link add outside type veth peer name inside",
            "link set inside up",
            "address add 8.8.4.4/24 dev outside",
            "link set outside up",
            "route add default dev outside",
        ] {
            command("ip", arguments, "");
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(run());
    });
    thread.join().expect("the test passes");
}

/// Redirects locally generated connections to this port.
fn redirect(destinations: &str, to: SocketAddr) {
    let rule = format!("{destinations} redirect to :{}", to.port());
    let chain = format!("type nat hook output priority -100; {rule}");
    let table = format!("table ip loops {{\n chain output {{\n {chain}\n }}\n }}\n");
    command("nft", "-f -", &table);
}

const NEAR: &str = "redirect.listen = \"127.0.0.1:0\"
rules = [
    { to = \"8.8.8.8:80\", via = \"direct\" },
    { to = \"8.8.8.7:80\", via = \"path:a\" },
]";

#[test]
fn a_connection_of_near_that_is_redirected_to_near_is_reset_at_once() {
    if !can_run() {
        return;
    }
    for carrier in CARRIERS {
        in_own_network(async move || {
            let pair = Pair::near_with(carrier, NEAR).await;
            until("the tunnel", async || !pair.near.tunnels().is_empty()).await;
            let far = pair.far_config.listen.port();
            let listener = pair.at("redirect").await;
            redirect("tcp dport 80", listener);
            let counters = &pair.near_counters;

            let mut client = TcpStream::connect("8.8.8.8:80").await.expect("redirected");
            assert!(is_reset(&mut client).await);
            assert_eq!(counters.refused_loop.value(), 1);
            assert_eq!(counters.accepted_redirect.value(), 2);
            until("nothing is left", async || pair.near.active() == 0).await;

            // A tunnel of near that is redirected to near, as are the connections of the first one.
            if carrier == "mptcp" {
                redirect(&format!("tcp dport {far}"), listener);
                let client = TcpStream::connect("8.8.8.7:80").await.expect("redirected");
                until("found", async || counters.refused_loop.value() > 1).await;
                let mut ways = pair.near.tunnels().into_iter().map(|(id, _)| id);
                assert!(!ways.any(|id| id == TunnelId::Path("a".to_owned())));
                drop(client);
            }
            pair.close().await;
        });
    }
}

#[test]
fn an_own_address_that_is_public_is_reached_neither_directly_nor_from_far() {
    if !can_run() {
        return;
    }
    in_own_network(async || {
        let own = tokio::net::TcpListener::bind("8.8.4.4:80").await;
        let _own = own.expect("an own address");
        for (near, far) in [
            ("rules = [{ to = \"*\", via = \"direct\" }]", "allow = []"),
            ("", "allow = [\"*\", \"8.0.0.0/8\"]"),
        ] {
            let pair = Pair::with("quic", Options { near, far }).await;
            let own = "8.8.4.4:80".parse().expect("an address");
            assert_eq!(pair.connect(own).await.err(), Some(2), "{near} {far}");
            pair.close().await;
        }
    });
}
