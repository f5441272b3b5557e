//! The controller's measurements for the rules: RTTs, queueing delays, losses, rounds.

use anabranch_control::Ack;

use crate::common::{ack, close, in_avoidance};
use crate::controller::{new, packets};

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
