//! Agreement with a peer: ns-2's Sack1 agent on the same network (`tests/ns2/sack1.tcl`).
//!
//! On both sides ten users start within the first second, with packets of 1500 bytes of which 40
//! are header, a window of 2 at the start, an acknowledgement per packet and a minimal timeout of
//! 0.2 s. One run is one sample of a chaotic system, so each side is the mean over seeds. Without
//! ns-2 the test is skipped, and says so; with `ANABRANCH_REQUIRE_PEERS=1` in the environment it
//! fails.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::run;

const SEEDS: u64 = 8;
const DURATION_S: u64 = 100;
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ns2/sack1.tcl");
/// A peer that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(120);

struct Network {
    rate_mbps: u32,
    delay_ms: u32,
    queue_packets: u32,
    loss_probability: f64,
}

/// Data packets acknowledged, and dropped at the link, for whatever cause.
#[derive(Debug)]
struct Outcome {
    acknowledged: f64,
    dropped: f64,
}

impl Outcome {
    fn mean(outcomes: &[Outcome]) -> Outcome {
        let mean = |f: fn(&Outcome) -> f64| outcomes.iter().map(f).sum::<f64>() / SEEDS as f64;
        Outcome {
            acknowledged: mean(|outcome| outcome.acknowledged),
            dropped: mean(|outcome| outcome.dropped),
        }
    }
}

fn ours(network: &Network, seed: u64) -> Outcome {
    let Network {
        rate_mbps,
        delay_ms,
        queue_packets,
        loss_probability,
    } = network;
    let text = format!(
        r#"
        algorithm = "reno"
        measure = {{ duration_s = {DURATION_S}, sample_ms = 1e6 }}
        tcp = {{ header_bytes = 40, initial_window_packets = 2 }}
        [links.L]
        rate_mbps = {rate_mbps}
        delay_ms = {delay_ms}
        queue.drop_tail = {{ packets = {queue_packets} }}
        loss.bernoulli = {{ probability = {loss_probability} }}
        [[flows]]
        name = "users"
        count = 10
        paths = [["L"]]
        start_spread_s = 1
        "#
    );
    let record = run(&text, seed);
    let bytes: u64 = record.flows.delivered_bytes.iter().sum();
    let dropped: u64 = record.flows.lost_packets.iter().sum();
    Outcome {
        acknowledged: bytes as f64 / 1460.0,
        dropped: dropped as f64,
    }
}

/// What ns-2 makes of the same; `None` if it is not installed.
fn theirs(network: &Network, seed: u64) -> Option<Outcome> {
    let arguments = [
        network.rate_mbps.to_string(),
        network.delay_ms.to_string(),
        // ns-2 drops a packet that would fill its queue.
        (network.queue_packets + 1).to_string(),
        network.loss_probability.to_string(),
        DURATION_S.to_string(),
        seed.to_string(),
    ];
    let spawned = Command::new("ns")
        .arg(SCRIPT)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn();
    let child = match spawned {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        spawned => spawned.expect("ns can be started"),
    };
    let text = output(child);
    let numbers: Vec<f64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let &[acknowledged, dropped] = numbers.as_slice() else {
        panic!("expected two numbers from ns, got \"{text}\"");
    };
    Some(Outcome {
        acknowledged,
        dropped,
    })
}

/// What a process that soon ends has printed.
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

fn compare(network: &Network) {
    let Some(theirs) = (1..=SEEDS)
        .map(|seed| theirs(network, seed))
        .collect::<Option<Vec<_>>>()
    else {
        let required = std::env::var("ANABRANCH_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!required, "ns2 is not installed (apt-get install ns2)");
        // Not `eprintln!`: that shows only if the test fails.
        writeln!(
            std::io::stderr(),
            "SKIPPED: ns2 is not installed (apt-get install ns2)"
        )
        .expect("stderr is open");
        return;
    };
    let theirs = Outcome::mean(&theirs);
    let ours = Outcome::mean(
        &(1..=SEEDS)
            .map(|seed| ours(network, seed))
            .collect::<Vec<_>>(),
    );
    println!("ours {ours:.1?}\nns-2 {theirs:.1?}");
    let goodput = ours.acknowledged / theirs.acknowledged;
    assert!(
        (goodput - 1.0).abs() < 0.05,
        "goodput is {goodput:.3} of ns-2's"
    );
    let losses = ours.dropped / theirs.dropped;
    assert!(
        (losses - 1.0).abs() < 0.15,
        "losses are {losses:.3} of ns-2's"
    );
}

#[test]
fn agrees_with_ns2_where_a_queue_overflows() {
    compare(&Network {
        rate_mbps: 100,
        delay_ms: 10,
        queue_packets: 100,
        loss_probability: 0.0,
    });
}

#[test]
fn agrees_with_ns2_where_packets_are_lost_at_random() {
    let loss_probability = 1e-3;
    compare(&Network {
        rate_mbps: 1000,
        delay_ms: 50,
        queue_packets: 10_000,
        loss_probability,
    });
}
