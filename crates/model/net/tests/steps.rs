//! Links whose rate, delay or loss changes at given times.

use anabranch_net::{
    Cause, Dice, Fate, ImpairedLink, Impairments, Link, LinkConfig, Loss, MILLISECOND, Rate,
    SECOND, Steps, Time,
};
use proptest::prelude::*;

const MS: Time = MILLISECOND;

fn with_rate(steps: &[(Time, f64)]) -> LinkConfig {
    LinkConfig {
        rate: Rate::Steps(Steps::new(steps.iter().copied())),
        ..LinkConfig::constant(1e6, 10 * MS)
    }
}

/// The delay of a link beyond its smallest.
fn more(steps: Steps) -> Impairments {
    Impairments {
        more_delay: Some(steps),
        ..Impairments::default()
    }
}

fn arrival(fate: Fate) -> Option<Time> {
    match fate {
        Fate::Delivered { at } => Some(at),
        Fate::Dropped(_) => None,
    }
}

/// 1500 bytes take 1 ms at 12 Mbps. Half of them are left when the rate becomes 6 Mbps, and take 1
/// ms; if it is 0 until 2 ms, they take half a millisecond from then on.
#[test]
fn a_packet_goes_on_at_the_new_rate() {
    let mut slower = Link::new(with_rate(&[(0, 12e6), (MS / 2, 6e6)]), 1);
    assert_eq!(arrival(slower.offer(0, 1500)), Some(10 * MS + MS * 3 / 2));
    assert_eq!(arrival(slower.offer(0, 1500)), Some(10 * MS + MS * 7 / 2));
    let stopped = [(0, 12e6), (MS / 2, 0.0), (2 * MS, 12e6)];
    let mut stopped = Link::new(with_rate(&stopped), 1);
    assert_eq!(arrival(stopped.offer(0, 1500)), Some(10 * MS + MS * 5 / 2));
    assert_eq!(stopped.counters(MS).delivered, 750 * 8 * 10u128.pow(18));
}

/// All packets whose transmission ends before 1 s arrive, and no later one.
#[test]
fn losses_follow_their_steps() {
    let config = LinkConfig {
        loss: Loss::Steps(Steps::new([(0, 0.0), (SECOND, 1.0)])),
        ..LinkConfig::constant(12e6, 0)
    };
    let mut link = Link::new(config, 1);
    for number in 1..2000 {
        let fate = link.offer((number - 1) * MS, 1500);
        let lost = fate == Fate::Dropped(Cause::Random);
        assert_eq!(lost, number >= 1000, "{number}");
    }
}

/// The delay rises from 10 ms to 30 at 1 s and falls to 10 at 2 s. Packets of 1 ms every 2 ms: at
/// the fall, those sent within 20 ms of it wait for the one before them.
#[test]
fn a_delay_that_falls_keeps_the_order() {
    let steps = [(0, 0.0), (SECOND, 20.0 * MS as f64), (2 * SECOND, 0.0)];
    let config = LinkConfig {
        impairments: more(Steps::new(steps)),
        ..LinkConfig::constant(12e6, 10 * MS)
    };
    let mut link = ImpairedLink::new(config, 1);
    for sent in (0..3000).step_by(2).map(|ms| ms * MS) {
        let fate = link.offer(sent, 1500, false).fate;
        let delay = match sent + MS {
            end if end < SECOND => 10 * MS,
            end if end < 2 * SECOND => 30 * MS,
            end => (10 * MS).max((2 * SECOND + 29 * MS).saturating_sub(end)),
        };
        assert_eq!(arrival(fate), Some(sent + MS + delay), "{sent}");
    }
}

/// Random packets: times between offers, and sizes.
fn offers() -> impl Strategy<Value = Vec<(Time, u32)>> {
    prop::collection::vec((0..3 * MS, 40u32..9000), 1..200)
}

proptest! {
    /// Rates that change after the last packet only are constant ones, to the bit.
    #[test]
    fn steps_that_are_far_away_are_a_constant_rate(
        rate in 1e3..1e9_f64,
        offers in offers(),
        seed in any::<u64>(),
    ) {
        let losing = |rate| LinkConfig {
            rate,
            loss: Loss::Bernoulli { probability: 0.05 },
            ..LinkConfig::constant(1e6, 10 * MS)
        };
        let steps = Steps::new([(0, rate), (1_000_000 * SECOND, rate / 2.0)]);
        let mut varying = Link::new(losing(Rate::Steps(steps)), seed);
        let mut constant = Link::new(losing(Rate::Constant { bits_per_second: rate }), seed);
        let mut now = 0;
        for (gap, bytes) in offers {
            now += gap;
            prop_assert_eq!(varying.offer(now, bytes), constant.offer(now, bytes));
            prop_assert_eq!(varying.counters(now), constant.counters(now));
            prop_assert_eq!(varying.queue(now), constant.queue(now));
        }
    }

    /// A link delivers every packet in order, none earlier than its delay and no more than its rate
    /// allows.
    #[test]
    fn packets_arrive_in_order_and_within_the_rate(
        rates in prop::collection::vec((1..20 * MS, 0.0..50e6_f64), 1..20),
        delays in prop::collection::vec((1..20 * MS, 0.0..30e9_f64), 1..20),
        offers in offers(),
    ) {
        let function = |pieces: &[(Time, f64)], last: f64| {
            let mut time = 0;
            let steps = pieces.iter().map(|&(length, value)| {
                time += length;
                (time - length, value)
            });
            let mut steps: Vec<_> = steps.collect();
            steps.push((steps.last().unwrap().0 + 30 * MS, last));
            Steps::new(steps)
        };
        let rate = function(&rates, 1e6);
        let config = LinkConfig {
            rate: Rate::Steps(rate.clone()),
            impairments: more(function(&delays, 0.0)),
            ..LinkConfig::constant(1e6, 10 * MS)
        };
        let mut link = ImpairedLink::new(config, 1);
        let (mut now, mut last, mut bytes, mut first) = (0, 0, 0, None);
        for (gap, size) in offers {
            now += gap;
            first = first.or(Some(now));
            let fate = link.offer(now, size, false).fate;
            let at = arrival(fate).expect("nothing is lost");
            prop_assert!(at >= now + 10 * MS && at >= last);
            last = at;
            bytes += u64::from(size);
            let from = first.unwrap();
            let possible = rate.mean_between(from, at) * (at - from) as f64 * 1e-12 / 8.0;
            prop_assert!(bytes as f64 <= possible * (1.0 + 1e-9) + 1.0, "{bytes} of {possible}");
        }
        let counters = link.counters(now);
        prop_assert_eq!(counters.accepted.bytes, bytes);
        let end = last.max(now) + 100 * SECOND;
        prop_assert_eq!(link.counters(end).delivered, u128::from(bytes) * 8 * 10u128.pow(18));
    }

    /// The mean of a function, against a sum over small parts.
    #[test]
    fn a_mean_is_that_of_the_values(
        values in prop::collection::vec(0.0..10.0_f64, 1..8),
        seed in any::<u64>(),
    ) {
        let steps = Steps::new(values.iter().enumerate().map(|(i, &v)| (i as Time * 1000, v)));
        let mut dice = Dice::new(seed);
        let from = (dice.uniform() * 4000.0) as Time;
        let to = from + 1 + (dice.uniform() * 6000.0) as Time;
        let sum: f64 = (from..to).map(|time| steps.at(time)).sum();
        let mean = sum / (to - from) as f64;
        prop_assert!((steps.mean_between(from, to) - mean).abs() < 1e-9);
    }
}
