//! The controller, by examples.

use crate::common::{ack, all_rules, close, in_avoidance, rule};
use anabranch_control::{Ack, AnyController, MAX_WINDOW, Phase};

pub fn new(spec: &str, paths: usize, initial_window: f64) -> AnyController {
    rule(spec).controller(paths, initial_window)
}

pub fn packets(packets: u32) -> Ack {
    Ack {
        packets,
        ..ack(0.0, None)
    }
}

#[test]
fn slow_start_grows_by_one_per_packet_and_the_rest_by_the_rule() {
    let mut controller = new("reno", 1, 10.0);
    controller.set_ssthresh(0, 12.0);
    controller.on_ack(0, &packets(1));
    assert_eq!(
        (controller.window(0), controller.phase(0)),
        (11.0, Phase::SlowStart)
    );
    // One packet to ssthresh, then 12 + 1/12 for the second and last.
    controller.on_ack(0, &packets(2));
    assert_eq!(controller.phase(0), Phase::Avoidance);
    assert!(close(controller.window(0), 12.0 + 1.0 / 12.0));
}

#[test]
fn slow_start_ends_at_a_fraction_too() {
    let mut controller = new("reno", 1, 10.0);
    controller.set_ssthresh(0, 10.5);
    controller.on_ack(0, &packets(1));
    assert_eq!(
        (controller.window(0), controller.phase(0)),
        (10.5, Phase::Avoidance)
    );
}

#[test]
fn avoidance_adds_one_packet_per_window() {
    let mut controller = in_avoidance("reno", &[10.0]);
    controller.on_ack(0, &packets(1));
    assert!(close(controller.window(0), 10.1));
}

#[test]
fn a_sender_that_is_not_window_limited_does_not_grow() {
    for (controller, window) in [
        (&mut new("reno", 1, 10.0), 10.0),
        (&mut in_avoidance("reno", &[20.0]), 20.0),
    ] {
        controller.on_ack(
            0,
            &Ack {
                window_limited: false,
                ..packets(5)
            },
        );
        assert_eq!(controller.window(0), window);
    }
}

#[test]
fn a_loss_reduces_the_window_once_and_recovery_keeps_it() {
    let mut controller = in_avoidance("reno", &[20.0]);
    controller.on_loss(0);
    assert_eq!((controller.window(0), controller.ssthresh(0)), (10.0, 10.0));
    assert_eq!(controller.phase(0), Phase::Recovery);
    controller.on_ack(0, &packets(7));
    controller.on_loss(0);
    assert_eq!(controller.window(0), 10.0);
    controller.on_recovered(0);
    assert_eq!(controller.phase(0), Phase::Avoidance);
    controller.on_ack(0, &packets(1));
    assert!(close(controller.window(0), 10.1));
}

#[test]
fn each_path_has_its_own_phase() {
    let mut controller = in_avoidance("lia", &[20.0, 20.0]);
    controller.on_loss(1);
    assert_eq!(
        (controller.phase(0), controller.phase(1)),
        (Phase::Avoidance, Phase::Recovery)
    );
    assert_eq!((controller.window(0), controller.window(1)), (20.0, 10.0));
}

/// LIA with windows 10 and 1 and 0.1 s on both: `max(w/rtt^2) / (sum w/rtt)^2 = 1000 / 110^2` per
/// packet. Alone it was Reno, 1/10; beside a path without a sample, which has no rate yet, it still
/// is.
#[test]
fn a_rule_sees_a_path_from_when_it_is_added() {
    let mut controller = in_avoidance("lia", &[10.0]);
    let sample = Ack {
        packets: 0,
        ..ack(0.0, 0.1)
    };
    let grows = |controller: &AnyController, expected: f64| {
        let mut next = controller.clone();
        next.on_ack(0, &packets(1));
        assert!((next.window(0) - controller.window(0) - expected).abs() < 1e-12);
    };
    controller.on_ack(0, &sample);
    grows(&controller, 0.1);
    controller.add_path();
    assert_eq!((controller.paths().len(), controller.window(1)), (2, 1.0));
    assert_eq!(controller.phase(1), Phase::SlowStart);
    grows(&controller, 0.1);
    controller.on_ack(1, &sample);
    grows(&controller, 1000.0 / 110.0_f64.powi(2));
}

/// Halving 3 gives 1.5: below the floor of one path, above the floor of several.
#[test]
fn the_smallest_ssthresh_is_2_with_one_path_and_1_with_several() {
    for (paths, ssthresh) in [(1, 2.0), (2, 1.5)] {
        let mut controller = in_avoidance("reno", &vec![3.0; paths]);
        controller.on_loss(0);
        assert_eq!(
            (controller.window(0), controller.ssthresh(0)),
            (ssthresh, ssthresh)
        );
    }
    let mut controller = in_avoidance("reno", &[1.0, 1.0]);
    controller.on_loss(0);
    assert_eq!((controller.window(0), controller.ssthresh(0)), (1.0, 1.0));
    let mut controller = new("reno", 0, 10.0);
    controller.add_path();
    controller.set_ssthresh(0, 0.0);
    assert_eq!(controller.ssthresh(0), 2.0);
}

/// Even so no window falls below 1.
#[test]
fn the_smallest_ssthresh_can_be_set() {
    for (floor, expected) in [(2.0, 2.0), (0.0, 1.0)] {
        let mut controller = in_avoidance("reno", &[1.0, 1.0]);
        controller.set_smallest_ssthresh(floor);
        controller.on_loss(0);
        assert_eq!(
            (controller.window(0), controller.ssthresh(0)),
            (1.0, expected)
        );
    }
}

#[test]
fn ssthresh_is_never_below_the_smallest() {
    let mut set = new("reno", 1, 10.0);
    set.set_ssthresh(0, 0.0);
    assert_eq!(set.ssthresh(0), 2.0);
    // 1.14 of 1.9 packets are queued: wVegas leaves slow start.
    let mut left = new("wvegas", 1, 1.9);
    for rtt in [0.1, 0.25] {
        left.on_ack(
            0,
            &Ack {
                window_limited: false,
                ..ack(0.0, rtt)
            },
        );
    }
    assert_eq!((left.phase(0), left.ssthresh(0)), (Phase::Avoidance, 2.0));
}

/// A window of 1 cannot be reduced; after the repair it is below the ssthresh of 2.
#[test]
fn a_loss_never_raises_the_window() {
    let mut controller = new("reno", 1, 1.0);
    controller.on_loss(0);
    assert_eq!((controller.window(0), controller.ssthresh(0)), (1.0, 2.0));
    controller.on_recovered(0);
    assert_eq!(controller.phase(0), Phase::SlowStart);
}

#[test]
fn a_timeout_starts_again_from_one_packet() {
    let mut controller = in_avoidance("reno", &[20.0]);
    controller.on_timeout(0);
    assert_eq!((controller.window(0), controller.ssthresh(0)), (1.0, 10.0));
    assert_eq!(controller.phase(0), Phase::SlowStart);
}

/// RFC 5681, section 3.1: the timer of the same packet expires again, and ssthresh stays. Once
/// something was acknowledged, it is another packet's: half of 2, but at least 2.
#[test]
fn a_repeated_timeout_keeps_ssthresh() {
    let mut controller = in_avoidance("reno", &[20.0]);
    controller.on_timeout(0);
    let before = *controller.path(0);
    controller.on_timeout(0);
    assert_eq!((controller.window(0), controller.ssthresh(0)), (1.0, 10.0));
    assert_eq!(*controller.path(0), before, "no second loss is counted");
    controller.on_ack(0, &packets(1));
    controller.on_timeout(0);
    assert_eq!((controller.window(0), controller.ssthresh(0)), (1.0, 2.0));
}

/// Half of the 40 packets that were in flight at the loss, whose recovery the timeout ends.
#[test]
fn a_timeout_in_recovery_keeps_the_ssthresh_of_the_loss() {
    let mut controller = in_avoidance("reno", &[40.0]);
    controller.on_loss(0);
    let at_the_loss = *controller.path(0);
    controller.on_timeout(0);
    assert_eq!((controller.window(0), controller.ssthresh(0)), (1.0, 20.0));
    assert_eq!(controller.phase(0), Phase::SlowStart);
    assert_eq!(
        controller.path(0).loss_interval,
        at_the_loss.loss_interval,
        "one loss"
    );
}

/// RFC 4015: window, ssthresh, phase and the counters of losses are as on a path that had no
/// timeout and no loss, for every rule.
#[test]
fn a_spurious_timeout_or_loss_leaves_no_trace() {
    for (info, rule) in all_rules() {
        let mut controller = rule.controller(2, 10.0);
        for r in 0..2 {
            controller.on_ack(r, &packets(30));
            controller.on_loss(r);
            controller.on_recovered(r);
            controller.on_ack(r, &packets(7));
        }
        let mut timed_out = controller.clone();
        timed_out.on_timeout(0);
        timed_out.on_timeout(0);
        assert_eq!(timed_out.window(0), 1.0);
        let mut lost = controller.clone();
        lost.keep_for_undo(0);
        lost.on_loss(0);
        assert_eq!(lost.phase(0), Phase::Recovery);
        for mut undone in [timed_out, lost] {
            let mut untouched = controller.clone();
            undone.on_spurious(0);
            for other in [&mut undone, &mut untouched] {
                other.on_ack(0, &packets(3));
                other.on_loss(0);
            }
            assert_eq!(undone.paths(), untouched.paths(), "{}", info.name);
            assert_eq!(undone.ssthresh(0), untouched.ssthresh(0), "{}", info.name);
        }
    }
}

#[test]
fn a_spurious_timeout_in_recovery_is_not_undone() {
    let mut controller = in_avoidance("reno", &[40.0]);
    controller.on_loss(0);
    controller.on_timeout(0);
    controller.on_spurious(0);
    assert_eq!((controller.window(0), controller.ssthresh(0)), (1.0, 20.0));
}

#[test]
fn an_idle_path_restarts_from_the_initial_window() {
    let mut controller = new("reno", 1, 4.0);
    controller.on_ack(0, &packets(36));
    controller.on_loss(0);
    controller.on_recovered(0);
    assert_eq!(
        (controller.window(0), controller.phase(0)),
        (20.0, Phase::Avoidance)
    );
    controller.on_idle(0, 9.0);
    assert_eq!(
        (controller.window(0), controller.phase(0)),
        (4.0, Phase::SlowStart)
    );
    assert_eq!(controller.ssthresh(0), 20.0);
}

/// A restart from a window that is no larger keeps the stage, without the idle time.
#[test]
fn idle_time_does_not_age_a_path() {
    let mut controller = new("cubic", 1, 10.0);
    controller.set_ssthresh(0, 10.0);
    controller.on_ack(0, &packets(0));
    controller.on_idle(0, 8.0);
    controller.on_ack(0, &ack(8.25, 0.1));
    assert!(close(controller.path(0).age, 0.25));
}

#[test]
fn an_idle_restart_never_raises_the_window() {
    let mut controller = new("reno", 1, 10.0);
    controller.on_timeout(0);
    controller.on_idle(0, 9.0);
    assert_eq!(controller.window(0), 1.0);
}

#[test]
fn no_window_grows_without_bound() {
    let mut controller = new("reno", 1, 1e300);
    assert_eq!(controller.window(0), MAX_WINDOW);
    controller.on_ack(0, &packets(10));
    assert_eq!(controller.window(0), MAX_WINDOW);
    assert_eq!(new("reno", 1, f64::NAN).window(0), 1.0);
}
