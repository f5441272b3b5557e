//! Marks (ECN): what DCTCP does at them, and what every other rule does.

use crate::common::{ack, all_rules, close};
use anabranch_control::rules::Dctcp;
use anabranch_control::{Controller, Phase, Rule};
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

/// At first alpha is 1: from 100 packets to 50. After a round trip without a mark it is 15/16: to
/// 50 (1 - 15/32) = 26.5625. The window grows in between as NewReno's, without a pause.
#[test]
fn the_window_falls_by_half_of_alpha_and_grows_on() {
    let mut controller = dctcp(1, 1.0 / 16.0);
    controller.on_mark(0);
    assert!(close(controller.window(0), 50.0));
    controller.on_marked_share(0, 0.0);
    controller.on_mark(0);
    assert!(close(controller.window(0), 26.5625));
    assert_eq!(controller.phase(0), Phase::Avoidance);
    controller.on_ack(0, &ack(1.0, 0.1));
    assert!(close(controller.window(0), 26.5625 + 1.0 / 26.5625));
}

#[test]
fn a_mark_ends_slow_start() {
    let mut controller = Controller::new(Dctcp::with(&[0.0625]), 1, 10.0);
    controller.on_marked_share(0, 0.0);
    controller.on_mark(0);
    // 10 (1 - 15/32)
    assert!(close(controller.window(0), 5.3125) && close(controller.ssthresh(0), 5.3125));
    assert_eq!(controller.phase(0), Phase::Avoidance);
}

#[test]
fn each_path_has_its_own_alpha() {
    let mut controller = dctcp(2, 0.0625);
    (0..100).for_each(|_| controller.on_marked_share(1, 0.0));
    controller.on_mark(0);
    controller.on_mark(1);
    assert!(close(controller.window(0), 50.0));
    assert!(controller.window(1) > 99.0, "{}", controller.window(1));
}

/// A loss halves the window, whatever alpha is, and a mark during its repair changes nothing (RFC
/// 8257, section 3.5).
#[test]
fn dctcp_takes_a_loss_as_newreno_does() {
    let mut controller = dctcp(1, 0.0625);
    (0..100).for_each(|_| controller.on_marked_share(0, 0.0));
    controller.on_loss(0);
    controller.on_mark(0);
    assert!(close(controller.window(0), 50.0));
    assert_eq!(controller.phase(0), Phase::Recovery);
}

proptest! {
    #[test]
    fn alpha_is_a_share_and_a_mark_takes_no_more_than_half(
        shares in prop::collection::vec(0.0..=1.0, 0..50), g in 0.001..=1.0,
    ) {
        let mut controller = dctcp(1, g);
        for share in shares {
            controller.on_marked_share(0, share);
            let alpha = controller.memory(0).alpha;
            prop_assert!((0.0..=1.0).contains(&alpha), "{}", alpha);
            let before = controller.window(0);
            controller.on_mark(0);
            let window = controller.window(0);
            prop_assert!((before / 2.0).min(2.0) <= window && window <= before);
        }
    }

    #[test]
    fn every_other_rule_takes_a_mark_as_a_loss(paths in 1usize..4, packets in 1u32..100) {
        for (info, rule) in all_rules().filter(|(info, _)| !info.scalable) {
            let mut marked = rule.controller(paths, 10.0);
            marked.on_ack(0, &anabranch_control::Ack { packets, ..ack(1.0, 0.1) });
            let mut lost = marked.clone();
            marked.on_mark(0);
            lost.on_loss(0);
            prop_assert_eq!(marked.window(0), lost.window(0), "{}", info.name);
            prop_assert_eq!(marked.phase(0), Phase::Recovery, "{}", info.name);
        }
    }
}
