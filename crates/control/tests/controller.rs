//! The controller, by examples.

use crate::common::{ack, all_rules, close, in_avoidance, rule};
use anabranch_control::{Ack, AnyController, MAX_WINDOW, Phase};

fn new(spec: &str, paths: usize, initial_window: f64) -> AnyController {
    rule(spec).controller(paths, initial_window)
}

fn packets(packets: u32) -> Ack {
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
/// timeout, for every rule.
#[test]
fn a_spurious_timeout_leaves_no_trace() {
    for (info, rule) in all_rules() {
        let mut controller = rule.controller(2, 10.0);
        for r in 0..2 {
            controller.on_ack(r, &packets(30));
            controller.on_loss(r);
            controller.on_recovered(r);
            controller.on_ack(r, &packets(7));
        }
        let mut undone = controller.clone();
        undone.on_timeout(0);
        undone.on_timeout(0);
        assert_eq!(undone.window(0), 1.0);
        undone.on_spurious_timeout(0);
        for other in [&mut undone, &mut controller] {
            other.on_ack(0, &packets(3));
            other.on_loss(0);
        }
        assert_eq!(undone.paths(), controller.paths(), "{}", info.name);
        assert_eq!(undone.ssthresh(0), controller.ssthresh(0), "{}", info.name);
    }
}

#[test]
fn a_spurious_timeout_in_recovery_is_not_undone() {
    let mut controller = in_avoidance("reno", &[40.0]);
    controller.on_loss(0);
    controller.on_timeout(0);
    controller.on_spurious_timeout(0);
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

/// RFC 6298, section 2: first srtt = R, then srtt = 7/8 srtt + 1/8 R.
#[test]
fn the_rtt_is_smoothed_as_rfc_6298_says() {
    let mut controller = new("reno", 1, 10.0);
    controller.on_ack(0, &ack(1.0, 0.1));
    assert_eq!(controller.path(0).rtt, 0.1);
    // 0.875 * 0.1 + 0.125 * 0.18 = 0.11
    controller.on_ack(0, &ack(2.0, 0.18));
    assert!(close(controller.path(0).rtt, 0.11));
    controller.on_ack(0, &ack(3.0, None));
    assert!(close(controller.path(0).rtt, 0.11), "no sample, no change");
    assert_eq!(controller.path(0).base_rtt, 0.1);
}

#[test]
fn the_queue_delay_is_the_known_one_or_else_that_of_the_rtt() {
    let mut controller = new("reno", 2, 10.0);
    // Known: first 8 ms, then an eighth of the way from 8 ms to 16 ms.
    controller.on_ack(
        0,
        &Ack {
            queue_delay: Some(0.008),
            ..ack(1.0, 0.1)
        },
    );
    assert!(close(controller.path(0).queue_delay, 0.008));
    controller.on_ack(
        0,
        &Ack {
            queue_delay: Some(0.016),
            ..ack(2.0, 0.1)
        },
    );
    assert!(close(controller.path(0).queue_delay, 0.009));
    // Unknown: srtt = 0.1 + 0.08/8 = 0.11, base 0.1.
    controller.on_ack(1, &ack(1.0, 0.1));
    controller.on_ack(1, &ack(2.0, 0.18));
    assert!((controller.path(1).queue_delay - 0.01).abs() < 1e-12);
}

/// Losses after 100, 200 and 600 packets: the mean moves a quarter of the way each time.
#[test]
fn losses_are_counted_in_acknowledged_packets() {
    let mut controller = in_avoidance("reno", &[101.0]);
    let mut lose_after = |more: u32| {
        controller.on_ack(0, &packets(more));
        controller.on_loss(0);
        controller.on_recovered(0);
        *controller.path(0)
    };
    let first = lose_after(0); // the 100 packets that opened the window
    assert_eq!(
        (first.between_losses, first.loss_interval, first.since_loss),
        (100.0, 100.0, 0.0)
    );
    let second = lose_after(200);
    assert_eq!(
        (second.between_losses, second.loss_interval),
        (200.0, 125.0)
    );
    let third = lose_after(600);
    assert_eq!(
        (third.between_losses, third.loss_interval),
        (600.0, 125.0 + 475.0 / 4.0)
    );
    controller.on_ack(0, &packets(3));
    assert_eq!(controller.path(0).since_loss, 3.0);
}

/// Zero would mean that there was no loss.
#[test]
fn a_loss_before_any_packet_counts_as_after_one() {
    let mut controller = new("reno", 1, 10.0);
    controller.on_loss(0);
    assert_eq!(
        (
            controller.path(0).between_losses,
            controller.path(0).loss_interval
        ),
        (1.0, 1.0)
    );
}

#[test]
fn packets_are_counted_in_recovery_too() {
    let mut controller = in_avoidance("reno", &[20.0]);
    controller.on_loss(0);
    controller.on_ack(0, &packets(5));
    assert_eq!(controller.path(0).since_loss, 5.0);
}

/// The round begins with the ACK at 1.0 s; packets sent before then do not end it.
#[test]
fn a_round_trip_ends_with_the_first_packet_sent_since_it_began() {
    let mut controller = new("vegas", 1, 10.0);
    let mut acknowledge = |now: f64, sent_at: f64, rtt: f64| {
        controller.on_ack(
            0,
            &Ack {
                sent_at,
                ..ack(now, rtt)
            },
        );
        controller.path(0).round_rtt
    };
    assert!(close(acknowledge(1.0, 0.9, 0.10), 0.10));
    assert!(close(acknowledge(1.05, 0.95, 0.11), 0.10));
    assert!(close(acknowledge(1.08, 0.98, 0.13), 0.10));
    assert!(close(acknowledge(1.12, 1.0, 0.12), 0.12)); // (0.11 + 0.13 + 0.12) / 3
}

#[test]
fn no_window_grows_without_bound() {
    let mut controller = new("reno", 1, 1e300);
    assert_eq!(controller.window(0), MAX_WINDOW);
    controller.on_ack(0, &packets(10));
    assert_eq!(controller.window(0), MAX_WINDOW);
    assert_eq!(new("reno", 1, f64::NAN).window(0), 1.0);
}
