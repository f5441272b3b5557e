//! The rules that act once per round trip.

use crate::common::{ack, close, in_avoidance, path, rule};
use anabranch_control::rules::{Vegas, Wvegas};
use anabranch_control::{Ack, AnyController, Path, Phase, Rule};
use proptest::prelude::*;

/// Vegas's base RTT in these tests: with 3/32 s of 1/8 s a quarter of the window is queued,
/// exactly.
const BASE: f64 = 3.0 / 32.0;
const RTT: f64 = 1.0 / 8.0;

/// Ends one round trip of path `r` with this mean RTT; gives the change of the window.
fn round(controller: &mut AnyController, r: usize, rtt: f64) -> f64 {
    let before = controller.window(r);
    controller.on_ack(r, &ack(0.0, rtt));
    controller.window(r) - before
}

/// An empty queue adds kappa = 4. Then windows of 12, 16 and 20 queue 3, 4 and 5 packets.
#[test]
fn vegas_moves_towards_kappa_packets_queued() {
    for (window, change) in [(12.0, 4.0), (16.0, 0.0), (20.0, -4.0)] {
        let mut controller = in_avoidance("vegas:kappa=4", &[window - 4.0]);
        assert_eq!(round(&mut controller, 0, BASE), 4.0);
        assert_eq!(round(&mut controller, 0, RTT), change);
    }
}

#[test]
fn vegas_acts_once_per_round_trip() {
    let mut controller = in_avoidance("vegas", &[10.0]);
    controller.on_ack(0, &ack(1.0, BASE));
    controller.on_ack(
        0,
        &Ack {
            sent_at: 0.5,
            packets: 9,
            ..ack(1.05, BASE)
        },
    );
    assert_eq!(controller.window(0), 11.0);
    controller.on_ack(0, &ack(1.1, BASE));
    assert_eq!(controller.window(0), 12.0);
}

#[test]
fn a_path_that_is_not_window_limited_only_shrinks() {
    for (rtt, change) in [(BASE, 0.0), (RTT, -1.0)] {
        let mut controller = in_avoidance("vegas", &[20.0]);
        controller.on_ack(
            0,
            &Ack {
                window_limited: false,
                ..ack(0.0, BASE)
            },
        );
        controller.on_ack(
            0,
            &Ack {
                window_limited: false,
                ..ack(0.0, rtt)
            },
        );
        assert_eq!(controller.window(0) - 20.0, change);
    }
}

/// 2.5 * 9/10 of 2.5 packets are queued, more than kappa = 1: 1.5 would be left.
#[test]
fn vegas_keeps_two_packets() {
    let path = Path {
        base_rtt: 1.0,
        round_rtt: 10.0,
        ..path(2.5, 10.0)
    };
    let change = Vegas::with(&[1.0]).on_round(0, &[path], &mut [()]);
    assert_eq!(change, -0.5);
}

/// Acknowledgements of the window of one round trip, the first of which ends the round before.
fn window_of_acks(controller: &mut AnyController, now: f64, rtt: f64) {
    for _ in 0..controller.window(0) as u32 {
        controller.on_ack(
            0,
            &Ack {
                sent_at: now - rtt,
                ..ack(now, rtt)
            },
        );
    }
}

/// The first acknowledgement ends a round, so as in ns-2 the first window does not grow. It doubles
/// in the second, fourth and sixth round trip. In the sixth a quarter of the packets is queued, far
/// more than gamma = 1, but that round grew. The seventh did not, and ends slow
/// start with 32 - 32/8 = 28 packets.
#[test]
fn slow_start_of_vegas_doubles_every_other_round_trip_and_is_cut_by_an_eighth() {
    for name in ["vegas", "wvegas:vegas=1"] {
        let mut controller = rule(name).controller(1, 4.0);
        let mut windows = Vec::new();
        for round in 1..=7 {
            let rtt = if round > 5 { RTT } else { BASE };
            window_of_acks(&mut controller, f64::from(round) * RTT, rtt);
            windows.push(controller.window(0));
        }
        assert_eq!(windows, [4.0, 8.0, 8.0, 16.0, 16.0, 32.0, 32.0]);
        assert_eq!(controller.phase(0), Phase::SlowStart);
        controller.on_ack(0, &ack(8.0 * RTT, RTT));
        assert_eq!((controller.window(0), controller.ssthresh(0)), (28.0, 28.0));
        assert_eq!(controller.phase(0), Phase::Avoidance);
    }
}

/// A quarter of the window of 4 is 1 packet, of 5 more. The path holds 5 * 3/4 = 3.75 packets
/// without a queue; one more is left.
#[test]
fn slow_start_of_wvegas_ends_with_one_packet_queued() {
    let mut controller = rule("wvegas").controller(1, 3.0);
    controller.on_ack(0, &ack(0.0, BASE));
    controller.on_ack(0, &ack(0.0, RTT));
    assert_eq!(
        (controller.window(0), controller.phase(0)),
        (5.0, Phase::SlowStart)
    );
    controller.on_ack(0, &ack(0.0, RTT));
    assert_eq!(controller.phase(0), Phase::Avoidance);
    assert_eq!((controller.window(0), controller.ssthresh(0)), (4.75, 4.75));
}

/// 3/4 of 2 packets are queued; an eighth less is 1.75, and one more than without a queue 1.5. The
/// window becomes 2, as in step 4 of wVegas, but a smaller one is not raised.
#[test]
fn the_end_of_slow_start_leaves_two_packets() {
    for window in [2.0, 1.9] {
        let path = Path {
            base_rtt: 1.0,
            round_rtt: 4.0,
            ..path(window, 4.0)
        };
        let vegas = Vegas::with(&[1.0]).leaves_slow_start(&path);
        let wvegas = Wvegas::with(&[10.0, 2.0, 1.0, 0.0]).leaves_slow_start(&path);
        assert_eq!((vegas, wvegas), (Some(window), Some(window)));
    }
}

#[test]
fn a_loss_takes_half_as_reno_does_or_a_quarter_as_vegas() {
    for (name, left) in [("vegas", 10.0), ("wvegas", 10.0), ("wvegas:vegas=1", 15.0)] {
        let mut controller = in_avoidance(name, &[20.0]);
        controller.on_loss(0);
        assert_eq!(controller.window(0), left, "{name}");
    }
}

proptest! {
    /// With one path the weight is 1 and alpha is total_alpha; RTTs whose queueing delay stays
    /// below twice its smallest never make it back off.
    #[test]
    fn wvegas_with_one_path_is_vegas(delays in prop::collection::vec(0.010..0.019, 1..100)) {
        let mut vegas = in_avoidance("vegas", &[10.0]);
        let mut wvegas = in_avoidance("wvegas:total_alpha=1:min_alpha=1", &[10.0]);
        for delay in std::iter::once(0.0).chain(delays) {
            round(&mut vegas, 0, 0.1 + delay);
            round(&mut wvegas, 0, 0.1 + delay);
            prop_assert_eq!(vegas.window(0), wvegas.window(0));
        }
    }

    #[test]
    fn permuting_the_paths_permutes_wvegas(
        rounds in prop::collection::vec((0usize..3, 0.1..0.2), 1..100),
    ) {
        let (mut one, mut other) = (in_avoidance("wvegas", &[20.0; 3]), in_avoidance("wvegas", &[20.0; 3]));
        for (r, rtt) in rounds {
            round(&mut one, r, rtt);
            round(&mut other, (r + 1) % 3, rtt);
            for k in 0..3 {
                prop_assert!(close(one.window(k), other.window((k + 1) % 3)));
            }
        }
    }
}

/// Alone, it ends with its total of 10 packets queued: on a path of 1000 packets/s and 100 ms, at a
/// window of 110. It comes from above; from below see the next test.
#[test]
fn wvegas_keeps_its_total_queued() {
    let mut controller = in_avoidance("wvegas", &[150.0]);
    round(&mut controller, 0, 0.1);
    for _ in 0..100 {
        let rtt = controller.window(0) / 1000.0;
        round(&mut controller, 0, rtt);
    }
    assert!(
        (controller.window(0) - 110.0).abs() <= 1.0,
        "{}",
        controller.window(0)
    );
}

/// As printed (`drain = 0`): a queue that grows from one packet to two has doubled, and the path
/// backs off, here from 102 + 1 by half of 128/130.
#[test]
fn wvegas_as_printed_treats_its_first_two_queued_packets_as_a_doubled_queue() {
    let mut controller = in_avoidance("wvegas:drain=0", &[100.0]);
    assert_eq!(round(&mut controller, 0, 128.0 / 1024.0), 1.0);
    assert_eq!(round(&mut controller, 0, 129.0 / 1024.0), 1.0);
    round(&mut controller, 0, 130.0 / 1024.0);
    assert!(close(controller.window(0), 103.0 * 0.5 * 128.0 / 130.0));
    // Now two packets are the smallest queue seen.
    assert_eq!(round(&mut controller, 0, 130.0 / 1024.0), 1.0);
}

/// The same path grows on by default. Once more than its alpha of 10 is queued, it backs off
/// from a queue that has doubled since then: 25 of 100 packets queued, then 41.
#[test]
fn wvegas_backs_off_at_a_doubled_queue_above_alpha_only() {
    let mut controller = in_avoidance("wvegas", &[100.0]);
    for rtt in [128.0, 129.0, 130.0, 131.0, 132.0] {
        assert_eq!(round(&mut controller, 0, rtt / 1024.0), 1.0);
    }
    let mut controller = in_avoidance("wvegas", &[99.0]);
    round(&mut controller, 0, BASE);
    assert_eq!(round(&mut controller, 0, RTT), -1.0);
    // 99 - 1 packets, and a queueing delay of 2/32 s instead of 1/32.
    round(&mut controller, 0, BASE + 2.0 / 32.0);
    assert!(close(controller.window(0), 98.0 * 0.5 * 3.0 / 5.0));
}

/// The smallest queue before a loss is discarded: a queue twice as long is the first one since.
#[test]
fn a_loss_resets_the_smallest_queue_of_wvegas() {
    let mut controller = in_avoidance("wvegas:drain=0", &[100.0]);
    round(&mut controller, 0, 128.0 / 1024.0);
    round(&mut controller, 0, 129.0 / 1024.0);
    controller.on_loss(0);
    controller.on_recovered(0);
    assert_eq!(round(&mut controller, 0, 130.0 / 1024.0), 1.0);
}

/// A window of 8 has 2 packets queued, the alpha it starts with: that is enough to get its weight
/// of 1 and with it an alpha of 10.
#[test]
fn wvegas_computes_its_weight_as_soon_as_alpha_is_queued() {
    let mut controller = in_avoidance("wvegas", &[7.0]);
    round(&mut controller, 0, BASE);
    assert_eq!(round(&mut controller, 0, RTT), 1.0);
}

/// `0 >= 2 * 0` is not a doubled queue.
#[test]
fn an_empty_queue_does_not_make_wvegas_back_off() {
    let mut controller = in_avoidance("wvegas:drain=0", &[20.0]);
    assert!((0..50).all(|_| round(&mut controller, 0, 0.1) == 1.0));
}

/// Halving 3 + 1 would give 4 * 0.5 * 0.1/0.2 = 1.
#[test]
fn wvegas_keeps_two_packets() {
    let mut controller = in_avoidance("wvegas:drain=0", &[2.0]);
    round(&mut controller, 0, 0.1); // 3 packets
    round(&mut controller, 0, 0.102); // 4 packets, smallest queue 2 ms
    round(&mut controller, 0, 0.2); // 5 * 0.25 = 1.25
    assert_eq!(controller.window(0), 2.0);
}

/// A path with 40 packets, `queued` of them in queues, at this RTT.
fn full(rtt: f64, queued: f64) -> Path<f64> {
    Path {
        base_rtt: rtt * (1.0 - queued / 40.0),
        ..path(40.0, rtt)
    }
}

/// Rates of 40/(1/8) = 320 and 40/(1/4) = 160 packets/s. Of the total of 10 the second may queue a
/// third, 3.33: with 3 queued it grows, with 5 it shrinks.
#[test]
fn the_weights_of_wvegas_are_shares_of_the_rate() {
    for (queued, change) in [(3.0, 1.0), (5.0, -1.0)] {
        let paths = [full(0.125, 20.0), full(0.25, queued)];
        let (wvegas, mut memory) = (
            Wvegas::with(&[10.0, 2.0, 1.0, 0.0]),
            [Default::default(); 2],
        );
        // Alone so far, its weight is 1: 20 queued are more than 10.
        assert_eq!(wvegas.on_round(0, &paths, &mut memory), -1.0);
        assert_eq!(wvegas.on_round(1, &paths, &mut memory), change);
    }
}

/// A path's alpha of 10 stays while fewer are queued, though the sibling that came since would
/// leave it 6.67 of them: with 8 queued it still grows.
#[test]
fn wvegas_keeps_its_alpha_below_equilibrium() {
    let paths = [full(0.125, 20.0), full(0.25, 5.0)];
    let (wvegas, mut memory) = (
        Wvegas::with(&[10.0, 2.0, 1.0, 0.0]),
        [Default::default(); 2],
    );
    wvegas.on_round(0, &paths, &mut memory);
    wvegas.on_round(1, &paths, &mut memory);
    assert_eq!(
        wvegas.on_round(0, &[full(0.125, 8.0), paths[1]], &mut memory),
        1.0
    );
}

/// Two equal paths with a quarter of 40 packets queued: each may queue 5 of the total of 10, and
/// shrinks. After a loss on the first the second may queue all 10, and at 9.5 grows.
#[test]
fn a_loss_takes_a_path_out_of_the_weights_of_wvegas() {
    for (loss, change) in [(false, -1.0), (true, 1.0)] {
        let mut controller = in_avoidance("wvegas", &[39.0, 39.0]);
        (0..2).for_each(|r| assert_eq!(round(&mut controller, r, BASE), 1.0));
        round(&mut controller, 0, RTT);
        assert_eq!(round(&mut controller, 1, RTT), -1.0);
        if loss {
            controller.on_loss(0);
        }
        assert_eq!(round(&mut controller, 1, RTT), change);
    }
}
