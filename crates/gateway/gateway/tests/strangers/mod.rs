//! Lines that attackers without a key can write into far's log.

use std::time::{Duration, Instant};

#[path = "../../../carrier/tests/strangers/initial.rs"]
#[expect(dead_code, reason = "shared with the tests of the carrier")]
mod initial;

use anabranch_gateway::keys::KeyPair;
use anabranch_gateway::tls::Identity;
use initial::Attacker;

use crate::process::pair::Pair;

/// Somebody whom far does not know.
fn nobody() -> std::sync::Arc<Identity> {
    let key = || KeyPair::generate().expect("random numbers");
    Identity::new(&key(), vec![key().public().clone()])
}

/// A frame CONNECTION_CLOSE (RFC 9000, section 19.19).
fn close(reason: &str) -> Vec<u8> {
    let length = 0x4000 | reason.len() as u16;
    [&[0x1c, 0, 0], &length.to_be_bytes()[..], reason.as_bytes()].concat()
}

/// Sends datagrams with these frames for a while. Returns the bytes of log per second.
fn log_rate(pair: &Pair, frames: &[u8], period: Duration) -> f64 {
    let before = pair.far.log().len();
    let start = Instant::now();
    // An attacker who writes any address into datagrams is not asked to show that it receives.
    let mut hosts = (1..=250).cycle();
    while start.elapsed() < period {
        let host = hosts.next().expect("endless");
        let from = ([127, host, host, host], 0).into();
        Attacker::new(from, pair.listen, frames.to_vec()).begin();
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(500));
    (pair.far.log().len() - before) as f64 / start.elapsed().as_secs_f64()
}

#[test]
fn datagrams_without_a_key_write_no_lines_of_their_own_and_few_others() {
    let pair = Pair::start(1.0);
    let forged = "x\n2026-01-01T00:00:00.000000Z  INFO tunnel established tunnel=7 \u{1b}[31m";
    let reason = forged.to_owned() + &"a".repeat(600);
    let ending = close(&reason);
    let hello = initial::crypto(&initial::hello(&nobody()));
    for frames in [
        ending.clone(),
        [hello.clone(), ending].concat(),
        hello[..40].to_vec(),
    ] {
        let rate = log_rate(&pair, &frames, Duration::from_secs(2));
        println!("{rate:.0} B/s");
        assert!(rate < 1000.0, "{rate} bytes of log per second");
    }
    let log = pair.far.log();
    assert!(!log.contains("\n2026-01-01"), "{log}");
    assert!(!log.contains('\u{1b}'), "{log}");
    assert!(!log.contains(&"a".repeat(100)), "{log}");
}
