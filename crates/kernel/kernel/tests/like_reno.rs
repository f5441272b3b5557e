//! Behaviour that every rule shares with the kernel's Reno: plain TCP, losses, timeouts, undo,
//! applications that send little.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::network::{Host, Network, connect, send_for};
use crate::common::{can_load, counter, is_installed, lock_names, wait_until};
use anabranch_kernel::{Lister, Loaded, Subflow, connections, load};
use socket2::Protocol;

/// EWTCP with a twentieth of NewReno's growth, which shows whether a socket runs the rule.
fn slow_rule() -> Loaded {
    load(&"ewtcp:a=0.05".parse().unwrap()).unwrap()
}

/// A subflow and the time of the sample.
type Sample = (Instant, Subflow);

/// Sends over one path to a server that supports this protocol, and samples the sender meanwhile.
fn sample(
    network: &Network,
    algorithm: &'static str,
    multipath: bool,
    server: Protocol,
) -> Vec<Sample> {
    const SENDING: Duration = Duration::from_millis(2500);
    let _sink = network.sink_of(server);
    network.inside(Host::Client, move || {
        let mut stream = connect(algorithm, multipath);
        let sending = thread::spawn(move || send_for(&mut stream, SENDING));
        let (lister, mut samples) = (Lister::load().unwrap(), Vec::new());
        while !sending.is_finished() {
            let connections = lister.connections().unwrap();
            let subflows = connections.into_iter().flat_map(|one| one.subflows);
            samples.extend(subflows.map(|subflow| (Instant::now(), subflow)));
            thread::sleep(Duration::from_millis(2));
        }
        samples
    })
}

/// Whether it is in congestion avoidance.
fn in_avoidance(subflow: &Subflow) -> bool {
    subflow
        .ssthresh
        .is_some_and(|ssthresh| subflow.window >= ssthresh.into())
}

/// Round trips between two samples. Within one, at most one loss event begins, because recovery
/// takes a round trip; if the sampler was late for longer, a loss may have passed unseen.
fn rounds_between(pair: &[Sample]) -> f64 {
    (pair[1].0 - pair[0].0).as_secs_f64() * 1000.0 / pair[0].1.rtt_ms
}

/// Packets by which the window grows in a round trip of congestion avoidance.
fn growth(samples: &[Sample]) -> f64 {
    let (mut packets, mut rounds) = (0.0, 0.0);
    for pair in samples.windows(2) {
        let (before, after, between) = (&pair[0].1, &pair[1].1, rounds_between(pair));
        // Not across a loss.
        if between < 1.0
            && in_avoidance(before)
            && before.ssthresh == after.ssthresh
            && after.window >= before.window
        {
            packets += after.window - before.window;
            rounds += between;
        }
    }
    assert!(rounds > 30.0, "{rounds} round trips");
    packets / rounds
}

/// The fraction of the window left by each loss: the threshold, at which recovery leaves the
/// window, of the largest window since the last recovery. The threshold alone does not show a loss,
/// because several in a row may set the same.
fn left_by_losses(samples: &[Sample]) -> Vec<f64> {
    let (mut left, mut largest) = (Vec::new(), None::<f64>);
    for pair in samples.windows(2) {
        let (before, after) = (&pair[0].1, &pair[1].1);
        let rounds = rounds_between(pair);
        // In 4 round trips it does not grow by the half that a loss takes.
        if rounds >= 4.0 || rounds >= 1.0 && after.window < before.window {
            largest = None;
        } else if is_at_threshold(after) && !is_at_threshold(before) {
            let threshold = f64::from(after.ssthresh.unwrap());
            // A window that has not grown since has met no other loss.
            let lost = largest.filter(|&window| window > threshold + 3.0);
            left.extend(lost.map(|window| threshold / window));
            largest = Some(after.window);
        } else {
            largest = largest.map(|window| window.max(after.window));
        }
    }
    left
}

/// Whether it is at most two round trips after recovery, which keeps the fraction of the window.
fn is_at_threshold(subflow: &Subflow) -> bool {
    in_avoidance(subflow) && subflow.window < f64::from(subflow.ssthresh.unwrap()) + 2.0
}

#[test]
fn plain_tcp_grows_by_a_packet_a_round_trip_whatever_the_rule() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let _loaded = slow_rule();
    let network = Network::new(1, Some(50));
    let both = growth(&sample(&network, "ewtcp", true, Protocol::MPTCP));
    assert!((0.03..0.1).contains(&both), "the rule runs: {both}");
    // ACKs of several packets count for all of them.
    let plain = growth(&sample(&network, "ewtcp", false, Protocol::MPTCP));
    assert!((0.8..1.2).contains(&plain), "plain TCP: {plain}");
    let unsupported = growth(&sample(&network, "ewtcp", true, Protocol::TCP));
    assert!(
        (0.8..1.2).contains(&unsupported),
        "a server without Multipath TCP: {unsupported}"
    );
}

#[test]
fn over_one_path_a_rule_is_newreno() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(1, Some(50));
    for name in ["lia", "olia", "balia"] {
        let _loaded = load(&name.parse().unwrap()).unwrap();
        // On a busy machine the sampler may miss a moment of each period between two losses.
        let (left, samples) = (0..3)
            .map(|_| sample(&network, name, true, Protocol::MPTCP))
            .map(|samples| (left_by_losses(&samples), samples))
            .find(|(left, _)| !left.is_empty())
            .unwrap_or_else(|| panic!("{name}: no losses"));
        let growth = growth(&samples);
        assert!((0.8..1.2).contains(&growth), "{name}: {growth}");
        // Half the window, but for the packets by which it grew unseen.
        assert!(
            left.iter().all(|part| (0.45..0.55).contains(part)),
            "{name}: {left:?}"
        );
    }
}

/// The one subflow of the namespace that the calling thread is in.
fn one_subflow() -> Subflow {
    connections().unwrap().remove(0).subflows.remove(0)
}

/// A write that is sent as one packet.
fn send_packet(stream: &mut TcpStream) {
    stream.write_all(&[0; 1000]).unwrap();
}

#[test]
fn the_window_does_not_grow_for_an_application_that_sends_little() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let _loaded = load(&"lia".parse().unwrap()).unwrap();
    let network = Network::new(1, None);
    let _sink = network.sink();
    for multipath in [true, false] {
        let (before, after) = network.inside(Host::Client, move || {
            let mut stream = connect("lia", multipath);
            stream.set_nodelay(true).unwrap();
            send_packet(&mut stream);
            let before = one_subflow().window;
            for _ in 0..100 {
                send_packet(&mut stream);
                thread::sleep(Duration::from_millis(5));
            }
            (before, one_subflow().window)
        });
        assert_eq!(before, after, "Multipath TCP: {multipath}");
    }
}

#[test]
fn a_spurious_timeout_is_undone() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let _loaded = load(&"lia".parse().unwrap()).unwrap();
    let network = Network::new(1, None);
    // Otherwise the window shrinks if the test is slow to send the rest.
    network.inside(Host::Client, || {
        fs::write("/proc/sys/net/ipv4/tcp_slow_start_after_idle", "0").unwrap();
    });
    let sink = network.sink();
    let mut stream = network.inside(Host::Client, || connect("lia", true));
    stream.write_all(&[0; 100_000]).unwrap();
    wait_until("all has arrived", || sink.received() == 100_000);
    let before = network.inside(Host::Client, one_subflow);
    assert_eq!(before.ssthresh, None);

    // The server no longer resolves the client's address: its acknowledgements are delayed.
    network.answer_arp(0, false);
    stream.write_all(&[0; 5000]).unwrap();
    network.inside(Host::Client, || {
        wait_until("a timeout", || counter("TCPTimeouts") > 0);
        assert!(one_subflow().window < 2.0 && one_subflow().ssthresh.is_some());
    });
    network.answer_arp(0, true);
    network.inside(Host::Client, || {
        wait_until("the undoing", || counter("TCPLossUndo") > 0);
    });
    let after = network.inside(Host::Client, one_subflow);
    assert_eq!(after.ssthresh, None);
    assert!(after.window >= before.window, "{before:?} {after:?}");
}

#[test]
fn a_connection_that_falls_back_after_it_was_opened_is_newreno() {
    if !can_load() || !is_installed("nft") {
        return;
    }
    let _lock = lock_names();
    let _loaded = load(&"lia".parse().unwrap()).unwrap();
    let network = Network::new(1, Some(50));
    network.strip_options_of_data();
    let growth = growth(&sample(&network, "lia", true, Protocol::MPTCP));
    assert!((0.8..1.2).contains(&growth), "{growth}");
    let fell_back = || counter("MPCapableSYNACKRX") == 1 && counter("MPCapableDataFallback") == 1;
    assert!(network.inside(Host::Client, fell_back));
}
