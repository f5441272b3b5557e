//! What attackers without a key can write into far's log.

use std::time::{Duration, Instant};

use super::STRANGER;
use super::initial::{self, Attacker};
use crate::process::pair::Pair;

/// Sends datagrams with these frames for a while; bytes of log per second.
fn log_rate(pair: &Pair, frames: &[u8], period: Duration) -> f64 {
    let before = pair.far.log().len();
    let start = Instant::now();
    // An attacker who writes any address into datagrams is not asked to show that it receives.
    let mut hosts = (1..=250).cycle();
    while start.elapsed() < period {
        let host = hosts.next().expect("endless");
        let mut from = STRANGER;
        from.set_ip([127, host, host, host].into());
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
    let close = initial::close(&reason);
    let hello = initial::crypto(&initial::hello(&super::nobody()));
    for frames in [
        close.clone(),
        [hello.clone(), close].concat(),
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
