//! The rate adjustment of gateways. Numbers are worked out by hand.

use crate::common::close;
use anabranch_control::{Adjuster, BufferSample, Guard, RateAdjustment, Trend};
use proptest::prelude::*;

/// Table I, but for three samples to a round and simple thresholds: 20 and 100 packets.
const ADJUSTMENT: RateAdjustment = RateAdjustment {
    samples: 3,
    period_s: 0.5,
    max_kappa: 10.0,
    max_queue_packets: 100.0,
    epsilon: 0.1,
    gamma: 0.2,
    low_threshold: 0.2,
    high_threshold: 1.0,
    guard: Guard::Off,
};

const GUARDED: RateAdjustment = RateAdjustment {
    guard: Guard::Load,
    ..ADJUSTMENT
};

/// A buffer of `mean_packets` that grows at this share of the expected rate; the load does not
/// matter.
fn trend(growth: f64, mean_packets: f64) -> Trend {
    Trend {
        growth,
        mean_packets,
        load: 0.0,
    }
}

/// A round in which the buffer has these lengths. The window is 20 packets and the smallest RTT
/// 40 ms: 500 packets/s are expected. `arriving` packets/s have come in for 10 s.
fn round(adjuster: &mut Adjuster, lengths: [f64; 3], arriving: f64) -> f64 {
    for buffer_packets in lengths {
        adjuster.sample(&BufferSample {
            age_s: 10.0,
            buffer_packets,
            arrived_packets: 10.0 * arriving,
            window: 20.0,
            base_rtt: 0.04,
        });
    }
    adjuster.kappa()
}

/// 0.5 (0.3 + 0.1) 5 = 1.
#[test]
fn kappa_grows_by_equation_10() {
    assert!(close(
        ADJUSTMENT.kappa_after(5.0, &trend(0.3, 50.0), 0),
        6.0
    ));
    assert_eq!(ADJUSTMENT.kappa_after(9.5, &trend(0.3, 50.0), 0), 10.0);
}

#[test]
fn kappa_does_not_grow_while_the_buffer_is_small() {
    assert_eq!(ADJUSTMENT.kappa_after(5.0, &trend(0.3, 20.0), 0), 5.0);
    assert!(ADJUSTMENT.kappa_after(5.0, &trend(0.3, 20.1), 0) > 5.0);
}

/// 0.5 (0.1 + 0.1) 5 = 0.5 is less than 1; 0.5 (0.9 + 0.1) 5 = 2.5 is more.
#[test]
fn above_the_high_threshold_kappa_grows_by_one_or_more_and_never_shrinks() {
    assert_eq!(ADJUSTMENT.kappa_after(5.0, &trend(0.1, 101.0), 0), 6.0);
    assert!(close(
        ADJUSTMENT.kappa_after(5.0, &trend(0.9, 101.0), 0),
        7.5
    ));
    assert_eq!(ADJUSTMENT.kappa_after(9.5, &trend(0.1, 101.0), 0), 10.0);
    assert_eq!(ADJUSTMENT.kappa_after(5.0, &trend(-0.1, 101.0), 2), 5.0);
    assert_eq!(ADJUSTMENT.kappa_after(5.0, &trend(-0.1, 100.0), 2), 4.0);
}

/// Below the low threshold too. A round with a zero or positive slope resets the count, and so
/// does the decrease itself.
#[test]
fn kappa_shrinks_after_two_rounds_of_negative_slope() {
    let mut adjuster = Adjuster::new(ADJUSTMENT, 10.0);
    let (falls, constant, grows) = ([9.0, 8.0, 7.0], [9.0; 3], [7.0, 8.0, 9.0]);
    let rounds = [
        (falls, 10.0),
        (falls, 8.0),
        (falls, 8.0),
        (constant, 8.0),
        (falls, 8.0),
        (grows, 8.0),
        (falls, 8.0),
        (falls, 6.4),
    ];
    for (i, (lengths, kappa)) in rounds.into_iter().enumerate() {
        assert!(
            close(round(&mut adjuster, lengths, 0.0), kappa),
            "round {i}"
        );
    }
}

/// Lengths 30, 60, 30 + 80: a slope of 80 packets/s whatever the middle. Of 500 packets/s that is
/// 0.16, and kappa grows by 0.5 (0.16 + 0.1) 5 = 0.65.
#[test]
fn the_slope_is_that_of_least_squares() {
    for middle in [40.0, 60.0, 100.0] {
        let mut adjuster = Adjuster::new(ADJUSTMENT, 5.0);
        assert!(close(
            round(&mut adjuster, [30.0, middle, 110.0], 0.0),
            5.65
        ));
    }
}

/// 448 packets/s are 0.896 of what is expected, which with epsilon is below the share; 452 are
/// 0.904.
#[test]
fn the_guard_holds_kappa_while_arrivals_come_near_the_share() {
    for (adjustment, arriving, kappa) in [
        (GUARDED, 448.0, 4.0),
        (GUARDED, 452.0, 5.0),
        (ADJUSTMENT, 452.0, 4.0),
    ] {
        let mut adjuster = Adjuster::new(adjustment, 5.0);
        round(&mut adjuster, [9.0, 8.0, 7.0], arriving);
        assert_eq!(round(&mut adjuster, [9.0, 8.0, 7.0], arriving), kappa);
    }
}

/// A fall of 60 packets/s is 0.12 of 500, above epsilon = 0.1; one of 40 is 0.08.
#[test]
fn the_guard_of_growth_lets_kappa_shrink_only_where_the_buffer_falls_by_more_than_epsilon() {
    let by_growth = RateAdjustment {
        guard: Guard::Growth,
        ..ADJUSTMENT
    };
    for (adjustment, fall, kappa) in [
        (by_growth, 60.0, 4.0),
        (by_growth, 40.0, 5.0),
        (ADJUSTMENT, 40.0, 4.0),
    ] {
        // Samples are 0.5 s apart.
        let lengths = [90.0, 90.0 - 0.5 * fall, 90.0 - fall];
        let mut adjuster = Adjuster::new(adjustment, 5.0);
        round(&mut adjuster, lengths, 0.0);
        assert!(close(round(&mut adjuster, lengths, 0.0), kappa), "{fall}");
    }
}

/// Section III-B would add a unit "if L' is non-negative", III-A where "L' > 0": a buffer of 101
/// packets that stays the same adds none, and the least growth adds one.
#[test]
fn above_the_high_threshold_a_slope_of_0_changes_nothing() {
    assert_eq!(ADJUSTMENT.kappa_after(5.0, &trend(0.0, 101.0), 0), 5.0);
    assert_eq!(ADJUSTMENT.kappa_after(5.0, &trend(1e-12, 101.0), 0), 6.0);
}

/// An increase by 1 from 9.5 would be "out of range": it is cut to M = 10, not left out. With M = 3
/// from then on the next change ends there; below 1 it ends at 1.
#[test]
fn kappa_ends_at_the_largest_of_the_moment() {
    let mut adjuster = Adjuster::new(ADJUSTMENT, 9.5);
    let grows = [101.0, 102.0, 103.0];
    for (max_kappa, kappa) in [(10.0, 10.0), (3.0, 3.0), (0.0, 1.0)] {
        adjuster.set_max_kappa(max_kappa);
        assert_eq!(round(&mut adjuster, grows, 0.0), kappa);
    }
}

/// Means of 101 and of 100 packets; the threshold is 100. Two samples are no round.
#[test]
fn a_buffer_is_too_long_by_the_mean_of_the_last_round() {
    let mut adjuster = Adjuster::new(ADJUSTMENT, 5.0);
    round(&mut adjuster, [0.0, 101.0, 202.0], 0.0);
    assert!(adjuster.is_too_long());
    round(&mut adjuster, [0.0, 100.0, 200.0], 0.0);
    assert!(!adjuster.is_too_long());
}

/// Expected are 1000, 500 and 250 packets/s, the last with an empty buffer. 400 that arrive are,
/// with epsilon, 0.9 of 500; of 1000 they would be 0.5 and of 250 1.7. 460 are 1.02 of 500 and 0.56
/// of 1000.
#[test]
fn the_share_is_the_smallest_rate_with_a_non_empty_buffer() {
    for (arriving, kappa) in [(400.0, 4.0), (460.0, 5.0)] {
        let mut adjuster = Adjuster::new(GUARDED, 5.0);
        for (buffer_packets, window) in [(9.0, 40.0), (5.0, 20.0), (0.0, 10.0)].repeat(2) {
            adjuster.sample(&BufferSample {
                age_s: 10.0,
                buffer_packets,
                arrived_packets: 10.0 * arriving,
                window,
                base_rtt: 0.04,
            });
        }
        assert_eq!(adjuster.kappa(), kappa);
    }
}

#[test]
fn a_round_waits_for_a_share_of_its_own_length() {
    let mut adjuster = Adjuster::new(ADJUSTMENT, 5.0);
    assert_eq!(adjuster.wait_s(|| 0.0), 0.5);
    assert_eq!(adjuster.wait_s(|| 0.5), 0.5 + 0.75);
    let sample = BufferSample {
        age_s: 1.0,
        buffer_packets: 0.0,
        arrived_packets: 0.0,
        window: 20.0,
        base_rtt: 0.04,
    };
    for _ in 0..2 {
        adjuster.sample(&sample);
        assert_eq!(adjuster.wait_s(|| unreachable!("within a round")), 0.5);
    }
    adjuster.sample(&sample);
    assert_eq!(adjuster.wait_s(|| 0.5), 1.25);
}

prop_compose! {
    fn any_sample()(
        age_s in 0.0..1e7,
        buffer_packets in prop_oneof![Just(0.0), 0.0..1e9],
        arrived_packets in 0.0..1e9,
        window in 1.0..1e6,
        base_rtt in prop_oneof![Just(f64::INFINITY), 1e-6..10.0],
    ) -> BufferSample {
        BufferSample { age_s, buffer_packets, arrived_packets, window, base_rtt }
    }
}

proptest! {
    #[test]
    fn kappa_stays_from_one_to_the_largest(
        samples in 2u32..6,
        max_kappa in 1.0..100.0,
        start in 0.01..1e6,
        gamma in 0.0..=1.0,
        guard in prop_oneof![Just(Guard::Off), Just(Guard::Load), Just(Guard::Growth)],
        buffer_samples in prop::collection::vec(any_sample(), 0..60),
    ) {
        let adjustment = RateAdjustment { samples, max_kappa, gamma, guard, ..ADJUSTMENT };
        let mut adjuster = Adjuster::new(adjustment, start);
        for sample in &buffer_samples {
            prop_assert!((1.0..=max_kappa).contains(&adjuster.kappa()), "{}", adjuster.kappa());
            adjuster.sample(sample);
        }
        prop_assert!((1.0..=max_kappa).contains(&adjuster.kappa()), "{}", adjuster.kappa());
    }

    #[test]
    fn a_guard_never_makes_kappa_smaller(
        guard in prop_oneof![Just(Guard::Load), Just(Guard::Growth)],
        kappa in 1.0..10.0,
        growth in -2.0..2.0,
        mean_packets in 0.0..200.0,
        load in 0.0..2.0,
        falling in 0u32..4,
    ) {
        let trend = Trend { growth, mean_packets, load };
        let [printed, guarded] =
            [Guard::Off, guard].map(|guard| RateAdjustment { guard, ..ADJUSTMENT })
            .map(|a| a.kappa_after(kappa, &trend, falling));
        prop_assert!(guarded >= printed);
    }
}
