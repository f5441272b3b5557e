//! Agreement with a peer: ns-2's Sack1 agent on the same network (`tests/ns2/sack1.tcl`).
//!
//! On both sides users start within the first second, with packets of 1500 bytes of which 40 are
//! header, a window of 2 at the start, an acknowledgement per packet and a minimal timeout of 0.2
//! s. One run is one sample of a chaotic system, so each side is the mean over seeds. Without ns-2
//! the test is skipped, and says so; with `ANABRANCH_REQUIRE_PEERS=1` in the environment it fails.
//!
//! In the steady state both agree closely. In the first seconds they differ for a known reason:
//! after the many losses that end slow start, ns-2's pipe still counts the lost packets (Fall and
//! Floyd, 1996), so that it sends nothing for most of a window; RFC 6675 takes them out of the
//! pipe. With one user both drop the same 303 packets on 20 Mbps, 60 ms and a queue of two
//! bandwidth-delay products, and ns-2 delivers 11 % less in 5 s; with ten, those that start later
//! find the link idle and overflow the queue again (500 drops against 331). From 20 to 100 s they
//! drop 312 and 315.

use std::io::{ErrorKind, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::run;

mod two_way;

const SEEDS: u64 = 8;
const DURATION_S: u64 = 80;

/// From when on it is counted, and the largest relative differences in goodput and in packets sent
/// again.
struct Check {
    from_s: u64,
    goodput: f64,
    sent_again: f64,
}

const STEADY: Check = Check {
    from_s: 20,
    goodput: 0.01,
    sent_again: 0.05,
};
const FROM_THE_START: Check = Check {
    from_s: 0,
    goodput: 0.05,
    sent_again: 0.15,
};
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ns2/sack1.tcl");
/// A peer that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy)]
struct Network {
    flows: u32,
    rate_mbps: u32,
    delay_ms: u32,
    queue_packets: u32,
    loss_probability: f64,
}

/// Data packets acknowledged, dropped at the link for whatever cause, and sent again; timeouts.
#[derive(Debug)]
struct Outcome {
    acknowledged: f64,
    dropped: f64,
    sent_again: f64,
    timeouts: f64,
}

impl Outcome {
    fn mean(outcomes: &[Outcome]) -> Outcome {
        let mean = |f: fn(&Outcome) -> f64| outcomes.iter().map(f).sum::<f64>() / SEEDS as f64;
        Outcome {
            acknowledged: mean(|outcome| outcome.acknowledged),
            dropped: mean(|outcome| outcome.dropped),
            sent_again: mean(|outcome| outcome.sent_again),
            timeouts: mean(|outcome| outcome.timeouts),
        }
    }
}

fn ours(network: &Network, from_s: u64, seed: u64) -> Outcome {
    let Network {
        flows,
        rate_mbps,
        delay_ms,
        queue_packets,
        loss_probability,
    } = network;
    let text = format!(
        r#"
        algorithm = "reno"
        measure = {{ duration_s = {DURATION_S}, warmup_s = {from_s}, sample_ms = 1e6 }}
        tcp = {{ header_bytes = 40, initial_window_packets = 2, min_rto_ms = 200 }}
        [links.L]
        rate_mbps = {rate_mbps}
        delay_ms = {delay_ms}
        queue.drop_tail = {{ packets = {queue_packets} }}
        loss.bernoulli = {{ probability = {loss_probability} }}
        [[flows]]
        name = "users"
        count = {flows}
        paths = [["L"]]
        start_spread_s = 1
        "#
    );
    let record = run(&text, seed);
    let sum = |column: &[u64]| column.iter().sum::<u64>() as f64;
    let users = &record.flows;
    Outcome {
        acknowledged: sum(&users.delivered_bytes) / 1460.0,
        dropped: sum(&users.lost_packets),
        sent_again: sum(&users.retransmitted_packets),
        timeouts: sum(&users.timeouts),
    }
}

/// The same in ns-2; `None` if that is not installed.
fn theirs(network: &Network, from_s: u64, seed: u64) -> Option<Outcome> {
    let arguments = [
        network.flows.to_string(),
        network.rate_mbps.to_string(),
        network.delay_ms.to_string(),
        // ns-2 drops a packet that would fill its queue.
        (network.queue_packets + 1).to_string(),
        network.loss_probability.to_string(),
        from_s.to_string(),
        DURATION_S.to_string(),
        seed.to_string(),
    ];
    let numbers = ask(SCRIPT, &arguments)?;
    let &[acknowledged, dropped, sent_again, timeouts] = numbers.as_slice() else {
        panic!("expected four numbers from ns, got {numbers:?}");
    };
    Some(Outcome {
        acknowledged,
        dropped,
        sent_again,
        timeouts,
    })
}

/// The numbers that a script of ns-2 prints; `None` if ns-2 is not installed.
pub fn ask(script: &str, arguments: &[String]) -> Option<Vec<f64>> {
    let spawned = Command::new("ns")
        .arg(script)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn();
    let child = match spawned {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        spawned => spawned.expect("ns can be started"),
    };
    let text = output(child);
    let words = text.split_whitespace();
    Some(words.filter_map(|word| word.parse().ok()).collect())
}

/// Says that a test is skipped because ns-2 is missing, or fails where peers are required.
pub fn skip() {
    let required = std::env::var("ANABRANCH_REQUIRE_PEERS").is_ok_and(|value| value == "1");
    assert!(!required, "ns2 is not installed (apt-get install ns2)");
    // Not `eprintln!`: that shows only if the test fails.
    writeln!(
        std::io::stderr(),
        "SKIPPED: ns2 is not installed (apt-get install ns2)"
    )
    .expect("stderr is open");
}

/// The output of a process that soon ends.
fn output(mut child: Child) -> String {
    let deadline = Instant::now() + PATIENCE;
    while child
        .try_wait()
        .expect("a child can be waited for")
        .is_none()
    {
        if Instant::now() > deadline {
            child.kill().expect("a child can be killed");
            panic!("ns has not finished within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut text = String::new();
    let mut stdout = child.stdout.take().expect("stdout is piped");
    stdout.read_to_string(&mut text).expect("ns prints text");
    text
}

/// Our outcome and ns-2's, means over seeds; `None`, with a warning, without ns-2.
fn outcomes(network: &Network, from_s: u64) -> Option<(Outcome, Outcome)> {
    let Some(theirs) = (1..=SEEDS)
        .map(|seed| theirs(network, from_s, seed))
        .collect::<Option<Vec<_>>>()
    else {
        skip();
        return None;
    };
    let ours: Vec<_> = (1..=SEEDS)
        .map(|seed| ours(network, from_s, seed))
        .collect();
    Some((Outcome::mean(&ours), Outcome::mean(&theirs)))
}

fn compare(check: &Check, network: &Network) {
    let Some((ours, theirs)) = outcomes(network, check.from_s) else {
        return;
    };
    println!("ours {ours:.1?}\nns-2 {theirs:.1?}");
    let goodput = ours.acknowledged / theirs.acknowledged;
    assert!(
        (goodput - 1.0).abs() < check.goodput,
        "goodput is {goodput:.4} of ns-2's"
    );
    let sent_again = ours.sent_again / theirs.sent_again;
    assert!(
        (sent_again - 1.0).abs() < check.sent_again,
        "retransmissions are {sent_again:.3} of ns-2's"
    );
}

/// A drop-tail link with a queue of `products` bandwidth-delay products.
fn drop_tail(flows: u32, rate_mbps: u32, rtt_ms: u32, products: f64) -> Network {
    let product = f64::from(rate_mbps * rtt_ms) * 1e3 / (8.0 * 1500.0);
    Network {
        flows,
        rate_mbps,
        delay_ms: rtt_ms / 2,
        queue_packets: (products * product).round() as u32,
        loss_probability: 0.0,
    }
}

#[test]
fn agrees_with_ns2_with_2_flows_on_5_mbps_and_half_a_product() {
    compare(&STEADY, &drop_tail(2, 5, 100, 0.5));
}

#[test]
fn agrees_with_ns2_with_5_flows_on_10_mbps_and_one_product() {
    compare(&STEADY, &drop_tail(5, 10, 50, 1.0));
}

#[test]
fn agrees_with_ns2_with_10_flows_on_20_mbps_and_two_products() {
    compare(&STEADY, &drop_tail(10, 20, 60, 2.0));
}

#[test]
#[ignore = "slow: make test-all"]
fn agrees_with_ns2_with_20_flows_on_50_mbps_and_half_a_product() {
    compare(&STEADY, &drop_tail(20, 50, 80, 0.5));
}

#[test]
#[ignore = "slow: make test-all"]
fn agrees_with_ns2_with_30_flows_on_30_mbps_and_two_products() {
    compare(&STEADY, &drop_tail(30, 30, 30, 2.0));
}

#[test]
#[ignore = "slow: make test-all"]
fn agrees_with_ns2_with_50_flows_on_100_mbps_and_one_product() {
    compare(&STEADY, &drop_tail(50, 100, 40, 1.0));
}

#[test]
fn agrees_with_ns2_from_the_start_where_a_queue_overflows() {
    let hundred_packets = Network {
        queue_packets: 100,
        ..drop_tail(10, 100, 20, 1.0)
    };
    compare(&FROM_THE_START, &hundred_packets);
}

/// In the gate `one_path_truth.rs` has the law of random losses.
#[test]
#[ignore = "slow: make test-all"]
fn agrees_with_ns2_where_packets_are_lost_at_random() {
    // 16 000 losses in all seeds, so that the standard error of goodput is about 0.5 %.
    compare(
        &STEADY,
        &Network {
            loss_probability: 3e-3,
            ..drop_tail(10, 1000, 20, 10.0)
        },
    );
}
