//! Faults of the out-of-tree Multipath TCP kernel that must not recur. Each test restates the
//! old integer arithmetic in a function `old_*`, shows that it goes wrong, and that ours does not.
//!
//! There a smoothed RTT was kept in units of 1/8 us.

use crate::common::{ack, close, in_avoidance, path, rule};
use anabranch_control::rules::Wvegas;
use anabranch_control::{Path, Rule};

/// A path as the old kernel stored it: window in packets, RTT in 1/8 us.
type Old = (u64, u64);

fn old(path: &Path<f64>) -> Old {
    (path.window as u64, (path.rtt * 8e6).round() as u64)
}

/// Index of LIA's best path: `(w << 32) / rtt^2`, the last of the largest.
fn old_lia_best(paths: &[Path<f64>]) -> usize {
    let quality = |r: &usize| {
        let (window, rtt) = old(&paths[*r]);
        (window << 32) / (rtt * rtt)
    };
    (0..paths.len()).max_by_key(quality).unwrap()
}

/// LIA's growth per packet on path r: alpha is an integer, 2^12 times the first term, at least 1.
fn old_lia_increase(r: usize, paths: &[Path<f64>]) -> f64 {
    let (best_window, best_rtt) = old(&paths[old_lia_best(paths)]);
    let share = |(window, rtt): Old| (window << 10) * best_rtt / rtt;
    let sum: u64 = paths.iter().map(old).map(share).sum();
    let alpha = ((best_window << 32) / (sum * sum)).max(1);
    let packets_per_increment = ((1 << 12) / alpha).max(old(&paths[r]).0);
    1.0 / packets_per_increment as f64
}

/// Two equal paths should grow by `w / (2w)^2 = 1/(4w)` each, a quarter of Reno. In twelve bits
/// that is 0 from w = 1025 on, and the 1 put in its place gives `1/max(4096, w)`.
#[test]
fn lia_stays_coupled_at_large_windows() {
    for (window, old_share) in [(1000.0, 0.25), (2048.0, 0.5), (8000.0, 1.0)] {
        let paths = [path(window, 0.1); 2];
        let share_of_reno = |increase: f64| increase * window;
        assert!((share_of_reno(old_lia_increase(0, &paths)) - old_share).abs() < 0.01);
        assert!(close(share_of_reno(rule("lia").increase(0, &paths)), 0.25));
    }
}

/// `w / tau^2` in integers is 0 below 149 packets at 100 ms, so all paths tie and the last wins.
/// With 100 packets at 100 ms and 1 at 200 ms the first is best: 1e4 / (1000 + 5)^2 = 0.0099, which
/// is below Reno's 1/100.
#[test]
fn the_best_path_of_lia_is_not_always_the_last() {
    let paths = [path(100.0, 0.1), path(1.0, 0.2)];
    assert_eq!(old_lia_best(&paths), 1);
    assert!(old_lia_increase(0, &paths) < 0.3 / 100.0);
    assert!(close(
        rule("lia").increase(0, &paths),
        1e4 / (1005.0 * 1005.0)
    ));
}

/// Index of OLIA's best path, by `l_a tau_b^2 >= l_b tau_a^2` in 64 bits with l in bytes.
fn old_olia_best(paths: &[Path<f64>]) -> usize {
    let mut best = (0u64, 1u64, 0);
    for (r, path) in paths.iter().enumerate() {
        let bytes = path.since_loss.max(path.between_losses) as u64 * 1448;
        let square = old(path).1 * old(path).1;
        if bytes.wrapping_mul(best.1) >= best.0.wrapping_mul(square) {
            best = (bytes, square, r);
        }
    }
    best.2
}

/// 20 000 packets between losses at 100 ms are better than 1000 at 100 ms: `l tau^2` is 2.896e7 *
/// 6.4e11 = 1.85e19, above 2^64 = 1.84e19. So the first path, with the smaller window, must grow
/// beyond `w_0 / (w_0 + w_1)^2`, by 1/(2 w_0), and the second give as much.
#[test]
fn the_best_path_of_olia_does_not_overflow() {
    let losses = |window, between_losses| Path {
        between_losses,
        ..path(window, 0.1)
    };
    let paths = [losses(10.0, 20_000.0), losses(30.0, 1_000.0)];
    assert_eq!(old_olia_best(&paths), 1);
    assert!(close(
        rule("olia").increase(0, &paths),
        10.0 / 1600.0 + 1.0 / 20.0
    ));
    assert!(close(
        rule("olia").increase(1, &paths),
        30.0 / 1600.0 - 1.0 / 60.0
    ));
    // The same path with fewer packets, where nothing overflowed.
    assert_eq!(old_olia_best(&[losses(10.0, 19_000.0), paths[1]]), 0);
}

/// Balia's decrease: `w/2 * min(a, 3/2)` with `a = max_rate / rate` in integers.
fn old_balia_decrease(r: usize, paths: &[Path<f64>]) -> f64 {
    let rate = |path: &Path<f64>| {
        let (window, rtt) = old(path);
        window * 1448 * 8_000_000 / rtt
    };
    let a = paths.iter().map(rate).max().unwrap() / rate(&paths[r]);
    let half = old(&paths[r]).0 >> 1;
    ((half * (a << 10).min(3 << 9)) >> 10) as f64
}

/// `a = 28/20 = 1.4`, so the decrease is 14; with a truncated to 1 it was 10.
#[test]
fn the_rate_ratio_of_balia_is_not_an_integer() {
    let paths = [path(28.0, 0.1), path(20.0, 0.1)];
    assert_eq!(old_balia_decrease(1, &paths), 10.0);
    assert!(close(rule("balia").decrease(1, &paths), 14.0));
}

/// The decrease was computed when the window last grew and kept. Path 1 was as fast as its sibling
/// then; by its own loss the sibling has grown to three times its rate, so a is 1.5 by the cap, and
/// the decrease of 20 packets is 15, not 10.
#[test]
fn balia_cuts_by_the_rates_at_the_loss() {
    let mut controller = in_avoidance("balia", &[20.0, 20.0]);
    controller.on_ack(0, &ack(1.0, 0.1));
    controller.on_ack(1, &ack(1.0, 0.1));
    let window = controller.window(1);
    let stale = old_balia_decrease(1, controller.paths());

    controller.set_ssthresh(0, 60.0);
    (0..40).for_each(|_| controller.on_ack(0, &ack(2.0, 0.1)));
    assert!(controller.window(0) > 2.9 * window);
    controller.on_loss(1);
    assert_eq!(stale, 10.0);
    assert!(close(controller.window(1), window - 0.75 * window));
}

/// wVegas's weight of path r. The sum ran over the paths with RTT samples in their present round:
/// one whose round has just ended has none yet.
fn old_wvegas_weight(r: usize, rates: &[f64], samples: &[u32]) -> f64 {
    let counted = rates
        .iter()
        .zip(samples)
        .filter(|(_, samples)| **samples > 0);
    rates[r] / counted.map(|(rate, _)| rate).sum::<f64>()
}

/// Two equal paths with 40 packets, 8 of them queued, whose rounds end one after the other: a
/// weight of 1/2 each and an alpha of 5, so the second has to shrink. Without its sibling it had an
/// alpha of 10 and grew.
#[test]
fn wvegas_counts_a_sibling_whose_round_has_just_ended() {
    let full = Path {
        base_rtt: 0.1,
        ..path(40.0, 0.125)
    };
    assert_eq!(old_wvegas_weight(1, &[320.0, 320.0], &[0, 30]), 1.0);

    let (wvegas, mut memory) = (
        Wvegas::with(&[10.0, 2.0, 1.0, 0.0]),
        [Default::default(); 2],
    );
    wvegas.on_round(0, &[full; 2], &mut memory);
    assert_eq!(wvegas.on_round(1, &[full; 2], &mut memory), -1.0);
}

/// It added one increment per acknowledgement, however many packets that was for.
#[test]
fn a_stretched_acknowledgement_counts_in_full() {
    let mut controller = in_avoidance("lia", &[10.0, 10.0]);
    controller.on_ack(0, &ack(1.0, 0.1));
    controller.on_ack(1, &ack(1.0, 0.1));
    let before = controller.window(0);
    controller.on_ack(
        0,
        &anabranch_control::Ack {
            packets: 8,
            ..ack(2.0, 0.1)
        },
    );
    // Eight times about 1/(4w).
    assert!((controller.window(0) - before - 8.0 / 40.0).abs() < 0.01);
}
