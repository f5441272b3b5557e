//! CUBIC, RFC 9438, one stage of congestion avoidance at a time.

use crate::common::{ack, close, path, rule};
use anabranch_control::{Ack, AnyController, Path, Phase};

/// A path with these windows: now, at the start of the stage, at the last loss, at the one before.
/// Each RTT of 0.1 s of its age acknowledged a window.
fn stage(window: f64, start: f64, peak: f64, prior_peak: f64, age: f64) -> Path<f64> {
    Path {
        epoch_window: start,
        peak,
        prior_peak,
        age,
        rounds: age / 0.1,
        ..path(window, 0.1)
    }
}

fn increase(path: Path<f64>) -> f64 {
    rule("cubic").increase(0, &[path])
}

fn agrees(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

/// K = cbrt((100.6 - 75) / 0.4) = cbrt 64 = 4 s. At 1.9 s + 0.1 s the target is
/// 0.4 (2 - 4)^3 + 100.6 = 97.4, so from 90 each packet adds 7.4/90. (Reno would be at
/// 75 + 20 * 9/17 = 85.6.)
#[test]
fn the_concave_region_grows_towards_the_peak() {
    assert!(agrees(
        increase(stage(90.0, 75.0, 100.6, 0.0, 1.9)),
        7.4 / 90.0
    ));
}

/// One RTT before K the target is the peak itself.
#[test]
fn the_plateau_is_the_peak() {
    assert!(agrees(increase(stage(100.6, 75.0, 100.6, 0.0, 3.9)), 0.0));
}

/// At 6 s + 1 s the target is 0.4 (7 - 4)^3 + 100.6 = 111.4. (At such an RTT Reno would be at
/// 75 + 7 * 9/17 = 78.7.)
#[test]
fn the_convex_region_grows_away_from_the_peak() {
    let path = Path {
        rtt: 1.0,
        rounds: 6.0,
        ..stage(105.0, 75.0, 100.6, 0.0, 6.0)
    };
    assert!(agrees(increase(path), 6.4 / 105.0));
}

/// RFC 9438, section 4.2: the target is at most 1.5 windows, and at least the window.
#[test]
fn growth_is_at_most_half_a_packet_per_packet_and_never_negative() {
    assert_eq!(increase(stage(90.0, 75.0, 100.6, 0.0, 1000.0)), 0.5);
    assert_eq!(increase(stage(200.0, 75.0, 100.6, 0.0, 1.9)), 0.0);
}

/// RFC 9438, section 4.7: a peak of 80 below the one before counts as 68. From 56, K is
/// cbrt(12/0.4) = 3.107 s where it would be cbrt(24/0.4) = 3.915 s; the target is for 2 s + 1 s.
#[test]
fn fast_convergence_gives_way_to_a_newcomer() {
    for (prior_peak, w_max, k) in [(90.0, 68.0, 30f64.cbrt()), (70.0, 80.0, 60f64.cbrt())] {
        let path = Path {
            rtt: 1.0,
            rounds: 2.0,
            ..stage(60.0, 56.0, 80.0, prior_peak, 2.0)
        };
        let target = 0.4 * (3.0 - k).powi(3) + w_max;
        assert!(agrees(increase(path), (target - 60.0) / 60.0));
    }
}

/// RFC 9438, section 4.8: with no peak W_max is the window the stage began with, and K = 0.
#[test]
fn a_stage_after_slow_start_begins_convex() {
    // At 1.9 s + 0.1 s: 0.4 * 8 + 50 = 53.2, and Reno has gained 1 per RTT: 50 + 20 = 70.
    let path = stage(50.0, 50.0, 0.0, 0.0, 1.9);
    assert!(agrees(increase(path), 20.0 / 50.0));
    assert!(agrees(
        increase(Path {
            rtt: 2.0,
            age: 0.0,
            rounds: 0.0,
            ..path
        }),
        3.2 / 50.0
    ));
}

/// With a short RTT CUBIC is Reno with a slope of 9/17 per RTT up to the peak and of 1 beyond it:
/// acknowledged packet by packet, the window runs along that line.
#[test]
fn the_reno_friendly_region_runs_along_reno() {
    let mut path = Path {
        rtt: 0.01,
        ..stage(7.0, 7.0, 10.0, 0.0, 0.0)
    };
    let rounds_to_peak = 3.0 * 17.0 / 9.0;
    while path.age < 0.5 {
        path.age += path.rtt / path.window;
        path.rounds += 1.0 / path.window;
        path.window += increase(path);
        let rounds = path.rounds;
        let reno =
            7.0 + rounds.min(rounds_to_peak) * 9.0 / 17.0 + (rounds - rounds_to_peak).max(0.0);
        assert!((path.window - reno).abs() < 0.5, "{} {reno}", path.window);
    }
}

#[test]
fn a_loss_leaves_seven_tenths_and_starts_a_stage() {
    let mut controller = crate::common::in_avoidance("cubic", &[100.0]);
    controller.on_loss(0);
    let path = controller.path(0);
    assert_eq!(
        (path.window, path.epoch_window, path.peak, path.prior_peak),
        (70.0, 70.0, 100.0, 0.0)
    );
    controller.on_recovered(0);
    controller.on_loss(0);
    let path = controller.path(0);
    assert_eq!(
        (path.window, path.peak, path.prior_peak),
        (49.0, 70.0, 100.0)
    );
}

#[test]
fn a_timeout_forgets_the_peaks() {
    let mut controller = crate::common::in_avoidance("cubic", &[100.0]);
    controller.on_loss(0);
    controller.on_recovered(0);
    controller.on_timeout(0);
    assert_eq!(
        (controller.path(0).peak, controller.path(0).prior_peak),
        (0.0, 0.0)
    );
    // ssthresh is 0.7 * 70 = 49; 48 packets open the window to it.
    (0..48).for_each(|_| controller.on_ack(0, &ack(1.0, 0.1)));
    assert_eq!(
        (controller.phase(0), controller.path(0).epoch_window),
        (Phase::Avoidance, 49.0)
    );
}

/// Neither recovery nor an application that sends less than the window allows adds to the age.
#[test]
fn age_counts_window_limited_avoidance_only() {
    let mut controller = rule("cubic").controller(1, 10.0);
    controller.set_ssthresh(0, 10.0);
    controller.on_ack(
        0,
        &Ack {
            packets: 0,
            ..ack(0.0, None)
        },
    );
    let mut age_after = |act: &dyn Fn(&mut AnyController)| {
        act(&mut controller);
        controller.path(0).age
    };
    assert!(close(age_after(&|c| c.on_ack(0, &ack(1.0, 0.1))), 1.0));
    assert!(close(age_after(&|c| c.on_ack(0, &ack(1.5, 0.1))), 1.5));
    let unlimited = Ack {
        window_limited: false,
        ..ack(3.0, 0.1)
    };
    assert!(close(age_after(&|c| c.on_ack(0, &unlimited)), 1.5));
    age_after(&|c| c.on_ack(0, &ack(3.5, 0.1)));
    assert!(close(age_after(&|c| c.on_ack(0, &ack(3.75, 0.1))), 2.25));
    assert_eq!(age_after(&|c| c.on_loss(0)), 0.0);
    assert_eq!(age_after(&|c| c.on_ack(0, &ack(9.0, 0.1))), 0.0);
    assert_eq!(age_after(&|c| c.on_recovered(0)), 0.0);
    assert!(close(age_after(&|c| c.on_ack(0, &ack(9.5, 0.1))), 0.5));
}
