//! Marks (ECN): what DCTCP does at them, and what every other rule does.

use crate::common::{ack, all_rules, close};
use anabranch_control::rules::Dctcp;
use anabranch_control::{Ack, Algorithm, AnyController, Controller, Phase, Rule};
use proptest::prelude::*;

fn dctcp(paths: usize, g: f64) -> Controller<Dctcp> {
    let mut controller = Controller::new(Dctcp::with(&[g]), paths, 100.0);
    (0..paths).for_each(|r| controller.set_ssthresh(r, 100.0));
    controller
}

/// `(1 - g) alpha + g M` has the fixed point M, and each step takes off the share g of the distance
/// from it, which is at most 1 at first.
#[test]
fn alpha_converges_to_the_share_of_packets_that_are_marked() {
    for (share, g) in [(0.0, 0.0625), (0.3, 0.0625), (1.0, 0.0625), (0.3, 0.5)] {
        let mut controller = dctcp(1, g);
        for round in 1..200 {
            controller.on_marked_share(0, share);
            let expected = share + (1.0 - share) * (1.0 - g).powi(round);
            assert!(close(controller.memory(0).alpha, expected), "round {round}");
        }
    }
}

/// At first alpha is 1, and a round trip of which half is marked leaves 31/32 of it: from 100
/// packets to 100 (1 - 31/64) = 51.5625. One without a mark takes alpha to 15/16 of that, and
/// nothing from the window, which grows as NewReno's, without a pause.
#[test]
fn a_round_trip_with_marks_takes_half_of_alpha() {
    let mut controller = dctcp(1, 1.0 / 16.0);
    controller.on_marked_share(0, 0.5);
    assert!(close(controller.window(0), 51.5625));
    assert_eq!(controller.phase(0), Phase::Avoidance);
    controller.on_marked_share(0, 0.0);
    assert!(close(controller.window(0), 51.5625));
    assert!(close(controller.memory(0).alpha, 31.0 / 32.0 * 15.0 / 16.0));
    controller.on_ack(0, &ack(1.0, 0.1));
    assert!(close(controller.window(0), 51.5625 + 1.0 / 51.5625));
}

#[test]
fn a_round_trip_with_marks_ends_slow_start() {
    let mut controller = Controller::new(Dctcp::with(&[0.0625]), 1, 10.0);
    controller.on_marked_share(0, 1.0);
    assert!(close(controller.window(0), 5.0) && close(controller.ssthresh(0), 5.0));
    assert_eq!(controller.phase(0), Phase::Avoidance);
}

/// With the share M = 0.02 of each round trip marked, one takes 0.01 of the window and adds a
/// packet less half of the 1/100 that the window grows meanwhile: 0.99 (w + 0.995) = w at 98.5,
/// and 2/M = 100 packets before the marks; half a packet more or less, because a whole number of
/// them is acknowledged.
#[test]
fn the_window_is_twice_the_inverse_of_the_share_of_marks() {
    let mut controller = dctcp(1, 0.0625);
    for round in 0..2000 {
        let packets = controller.window(0).round() as u32;
        let ack = Ack {
            packets,
            ..ack(f64::from(round), 0.1)
        };
        controller.on_ack(0, &ack);
        controller.on_marked_share(0, 0.02);
    }
    let window = controller.window(0);
    assert!((98.0..99.0).contains(&window), "{window}");
}

#[test]
fn each_path_has_its_own_alpha() {
    let mut controller = dctcp(2, 0.0625);
    (0..100).for_each(|_| controller.on_marked_share(1, 0.0));
    controller.on_marked_share(0, 1.0);
    controller.on_marked_share(1, 0.01);
    assert!(close(controller.window(0), 50.0));
    assert!(controller.window(1) > 99.0, "{}", controller.window(1));
}

/// A loss halves the window, whatever alpha is, and marks during its repair take nothing (RFC 8257,
/// section 3.5).
#[test]
fn dctcp_takes_a_loss_as_newreno_does() {
    let mut controller = dctcp(1, 0.0625);
    (0..100).for_each(|_| controller.on_marked_share(0, 0.0));
    controller.on_loss(0);
    controller.on_marked_share(0, 1.0);
    assert!(close(controller.window(0), 50.0));
    assert_eq!(controller.phase(0), Phase::Recovery);
}

/// ABE (RFC 8511, section 3): at a mark ssthresh and window are 0.8 of the window of Reno, here 80
/// of 100, and 0.85 of CUBIC's, 85. A loss, and a mark without the parameter, leave Reno 50 and
/// CUBIC 70; a second mark in the same recovery takes nothing. LIA over two paths leaves 80 of 100,
/// too, and the other path as it is. BBR ignores marks.
#[test]
fn a_mark_leaves_the_share_of_abe_and_a_loss_what_the_rule_leaves() {
    let after = |spec: &str, event: fn(&mut AnyController, usize)| {
        let mut controller = Algorithm::parse(spec).unwrap().controller(2, 100.0);
        event(&mut controller, 0);
        event(&mut controller, 0);
        [
            controller.window(0),
            controller.ssthresh(0),
            controller.window(1),
        ]
    };
    for (spec, at_mark, at_loss) in [
        ("reno", 50.0, 50.0),
        ("reno:beta_ecn=0.8", 80.0, 50.0),
        ("cubic:beta_ecn=0.85", 85.0, 70.0),
        ("lia:beta_ecn=0.8", 80.0, 50.0),
    ] {
        for (event, left) in [
            (
                AnyController::on_mark as fn(&mut AnyController, usize),
                at_mark,
            ),
            (AnyController::on_loss, at_loss),
        ] {
            let found = after(spec, event);
            assert!(
                close(found[0], left) && close(found[1], left),
                "{spec}: {found:?}"
            );
            assert_eq!(found[2], 100.0, "{spec}");
        }
    }
    assert_eq!(
        after("bbr3", AnyController::on_mark),
        [100.0, f64::INFINITY, 100.0]
    );
}

proptest! {
    #[test]
    fn alpha_is_a_share_and_marks_take_no_more_than_half(
        shares in prop::collection::vec(0.0..=1.0, 0..50), g in 0.001..=1.0,
    ) {
        let mut controller = dctcp(1, g);
        for share in shares {
            let before = controller.window(0);
            controller.on_marked_share(0, share);
            let (alpha, window) = (controller.memory(0).alpha, controller.window(0));
            prop_assert!((0.0..=1.0).contains(&alpha), "{}", alpha);
            prop_assert!((before / 2.0).min(2.0) <= window && window <= before);
        }
    }

    #[test]
    fn shares_of_marks_change_the_windows_of_scalable_rules_only(
        share in 0.0..=1.0, packets in 1u32..100,
    ) {
        for (info, rule) in all_rules() {
            let mut controller = rule.controller(1, 10.0);
            controller.on_ack(0, &Ack { packets, ..ack(1.0, 0.1) });
            let before = controller.window(0);
            controller.on_marked_share(0, share);
            let falls = controller.window(0) < before;
            prop_assert_eq!(falls, info.scalable && share > 0.0, "{}", info.name);
        }
    }
}
