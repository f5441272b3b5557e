//! Laws that hold for every link and every sequence of offers.

use anabranch_net::{
    ATTOBITS_PER_BYTE, Cause, Fate, Link, LinkConfig, Loss, Pie, Policer, Queue, Rate, Red, Time,
    Trace,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// (time since the offer before, ps; bytes)
type Offers = Vec<(Time, u32)>;

/// A packet that got through: when it was offered and when it was transmitted.
struct Passage {
    offered: Time,
    transmitted: Time,
    bytes: u32,
}

const DELAY: Time = 5_000_000_000;

/// Gaps of up to two packets at 10 Mbps, many of them 0, and now and then a long pause.
fn offers() -> impl Strategy<Value = Offers> {
    let gap = prop_oneof![3 => Just(0), 3 => 0..2_400_000_000u64, 1 => 0..30_000_000_000u64];
    vec((gap, 1..=1500u32), 1..300)
}

/// Offers, and times without one at which the counters are read.
fn events() -> impl Strategy<Value = Vec<(Time, Option<u32>)>> {
    let gap = prop_oneof![3 => Just(0), 6 => 0..2_400_000_000u64, 1 => 0..30_000_000_000u64];
    vec((gap, option::of(1..=1500u32)), 1..300)
}

/// Attobits that a rate allows after one time and until another: a constant rate in proportion to
/// the time, a trace 1500 bytes at each of its opportunities.
fn capacity(rate: &Rate) -> impl Fn(Time, Time) -> u128 {
    let (micro_bits, opportunities) = match rate {
        Rate::Constant { bits_per_second } => ((bits_per_second * 1e6).round() as u128, Vec::new()),
        Rate::Trace(_) => (0, opportunities(rate)),
        Rate::Steps(_) => unreachable!("in steps.rs"),
    };
    move |from, to| {
        let until = |time| opportunities.partition_point(|&opportunity| opportunity <= time);
        let packets = (until(to) - until(from)) as u128;
        packets * 1500 * ATTOBITS_PER_BYTE + micro_bits * u128::from(to - from)
    }
}

/// The opportunities of a trace: what a saturated link delivers is all that there are.
fn opportunities(rate: &Rate) -> Vec<Time> {
    let rate = rate.clone();
    let saturated = LinkConfig {
        rate,
        ..LinkConfig::constant(1.0, DELAY)
    };
    let transmitted = passages(saturated, &vec![(0, 1500); 20_000]).into_iter();
    transmitted.map(|passage| passage.transmitted).collect()
}

fn trace() -> impl Strategy<Value = Trace> {
    vec(0..5u32, 1..30).prop_map(|gaps| {
        let mut time_ms = 1;
        let line = |gap: u32| {
            time_ms += gap;
            format!("{time_ms}\n")
        };
        let text: String = gaps.into_iter().map(line).collect();
        Trace::parse(&text).expect("the trace is well formed")
    })
}

fn drop_tail() -> impl Strategy<Value = Queue> {
    (option::of(0..20u32), option::of(0..20_000u64))
        .prop_map(|(packets, bytes)| Queue::DropTail { packets, bytes })
}

fn red() -> impl Strategy<Value = Queue> {
    (
        0.0..5.0f64,
        0.0..5.0f64,
        0.0..10.0f64,
        0.0..=1.0f64,
        option::of(0.001..=1.0f64),
        1..20u32,
    )
        .prop_map(
            |(min, middle, upper, mid_probability, average_weight, limit_packets)| {
                Queue::Red(Red {
                    min_packets: min,
                    mid_packets: min + middle,
                    max_packets: min + middle + upper,
                    mid_probability,
                    average_weight,
                    limit_packets,
                    ecn: true,
                    uniform: false,
                })
            },
        )
}

fn policer() -> impl Strategy<Value = Queue> {
    (1e5..20e6f64, 1..6000u32).prop_map(|(bits_per_second, burst_bytes)| {
        Queue::Policer(Policer {
            bits_per_second,
            burst_bytes,
        })
    })
}

fn pie() -> impl Strategy<Value = Queue> {
    let times = (
        1..20_000_000_000u64,
        1..20_000_000_000u64,
        0..50_000_000_000u64,
    );
    (times, 0.1..5.0f64, 0.1..5.0f64, 1..20u32, any::<bool>()).prop_map(
        |((target, tupdate, max_burst), alpha, beta, limit_packets, derandomize)| {
            Queue::Pie(Pie {
                target,
                tupdate,
                alpha,
                beta,
                max_burst,
                limit_packets,
                derandomize,
                ecn: true,
            })
        },
    )
}

fn loss() -> impl Strategy<Value = Loss> {
    let probability = 0.0..=1.0f64;
    let chain = (
        probability.clone(),
        probability.clone(),
        probability.clone(),
        probability.clone(),
    );
    prop_oneof![
        Just(Loss::None),
        probability.prop_map(|probability| Loss::Bernoulli { probability }),
        chain.prop_map(|(good_to_bad, bad_to_good, loss_good, loss_bad)| {
            Loss::GilbertElliott {
                good_to_bad,
                bad_to_good,
                loss_good,
                loss_bad,
            }
        }),
    ]
}

/// Up to five intervals of up to 20 ms, up to 50 ms apart or touching.
fn down() -> impl Strategy<Value = Vec<(Time, Time)>> {
    let interval = (
        prop_oneof![Just(0), 0..50_000_000_000u64],
        1..20_000_000_000u64,
    );
    vec(interval, 0..5).prop_map(|lengths| {
        let mut end = 0;
        let interval = |(gap, length): (Time, Time)| {
            let from = end + gap;
            end = from + length;
            (from, end)
        };
        lengths.into_iter().map(interval).collect()
    })
}

fn constant() -> impl Strategy<Value = Rate> {
    (1e6..50e6f64).prop_map(|bits_per_second| Rate::Constant { bits_per_second })
}

fn rate() -> impl Strategy<Value = Rate> {
    prop_oneof![constant(), trace().prop_map(Rate::Trace)]
}

fn queue() -> impl Strategy<Value = Queue> {
    prop_oneof![drop_tail(), red(), pie(), policer()]
}

fn link() -> impl Strategy<Value = LinkConfig> {
    (rate(), queue(), loss(), down()).prop_map(|(rate, queue, loss, down)| LinkConfig {
        rate,
        delay: DELAY,
        queue,
        loss,
        down,
        impairments: Default::default(),
    })
}

/// Offers everything and returns the fates with the times and sizes of the offers.
fn fates(link: &mut Link, offers: &Offers) -> Vec<(Time, u32, Fate)> {
    let mut now = 0;
    let offer = |&(gap, bytes): &(Time, u32)| {
        now += gap;
        (now, bytes, link.offer(now, bytes))
    };
    offers.iter().map(offer).collect()
}

fn passages(config: LinkConfig, offers: &Offers) -> Vec<Passage> {
    let passage = |(offered, bytes, fate)| match fate {
        Fate::Delivered { at } => Some(Passage {
            offered,
            transmitted: at - DELAY,
            bytes,
        }),
        Fate::Dropped(_) => None,
    };
    fates(&mut Link::new(config, 1), offers)
        .into_iter()
        .filter_map(passage)
        .collect()
}

/// The naive link of 8 Mbps, 1 us per byte: it remembers every packet and looks at all of them.
/// Transmissions (start, end, bytes) of the packets let in are added to `accepted`.
fn naive_offer(
    accepted: &mut Vec<(Time, Time, u32)>,
    config: &LinkConfig,
    now: Time,
    bytes: u32,
) -> Fate {
    let Queue::DropTail {
        packets: packet_limit,
        bytes: byte_limit,
    } = config.queue
    else {
        unreachable!("the naive link knows drop-tail only")
    };
    if config
        .down
        .iter()
        .any(|&(from, to)| from <= now && now < to)
    {
        return Fate::Dropped(Cause::Down);
    }
    let start = accepted.last().map_or(now, |&(_, end, _)| end.max(now));
    let end = start + Time::from(bytes) * 1_000_000;

    let waiting = || accepted.iter().filter(|&&(start, ..)| start > now);
    let packets_with = waiting().count() as u32 + 1;
    let bytes_with = waiting().map(|&(.., bytes)| u64::from(bytes)).sum::<u64>() + u64::from(bytes);
    let full = packet_limit.is_some_and(|limit| packets_with > limit)
        || byte_limit.is_some_and(|limit| bytes_with > limit);
    if start > now && full {
        return Fate::Dropped(Cause::Overflow);
    }
    if config
        .down
        .iter()
        .any(|&(from, to)| now < to && from <= end)
    {
        return Fate::Dropped(Cause::Down);
    }
    accepted.push((start, end, bytes));
    Fate::Delivered {
        at: end + config.delay,
    }
}

proptest! {
    #[test]
    fn a_drop_tail_link_does_what_the_naive_one_does(
        queue in drop_tail(), down in down(), offers in offers()
    ) {
        let config = LinkConfig { queue, down, ..LinkConfig::constant(8e6, DELAY) };
        let mut accepted = Vec::new();
        for (now, bytes, fate) in fates(&mut Link::new(config.clone(), 1), &offers) {
            prop_assert_eq!(fate, naive_offer(&mut accepted, &config, now, bytes));
        }
    }

    #[test]
    fn deliveries_never_reorder(config in link(), offers in offers()) {
        let passages = passages(config, &offers);
        for pair in passages.windows(2) {
            prop_assert!(pair[0].transmitted <= pair[1].transmitted);
        }
        for passage in passages {
            prop_assert!(passage.offered <= passage.transmitted);
        }
    }

    #[test]
    fn what_arrives_is_delivered_or_dropped(config in link(), offers in offers()) {
        let mut link = Link::new(config, 1);
        let fates = fates(&mut link, &offers);
        let tally = |wanted: &dyn Fn(Fate) -> bool| {
            let chosen = || fates.iter().filter(|&&(_, _, fate)| wanted(fate));
            let bytes: u64 = chosen().map(|&(_, bytes, _)| u64::from(bytes)).sum();
            (chosen().count() as u64, bytes)
        };
        let end = fates.last().map_or(0, |&(now, ..)| now);
        let counters = link.counters(end);
        let counted = |tally: anabranch_net::Tally| (tally.packets, tally.bytes);
        let delivered = |fate| matches!(fate, Fate::Delivered { .. });
        prop_assert_eq!(counted(counters.arrived), tally(&|_| true));
        prop_assert_eq!(counted(counters.accepted), tally(&delivered));
        for cause in [Cause::Overflow, Cause::Red, Cause::Random, Cause::Down, Cause::Aqm] {
            let expected = tally(&|fate| fate == Fate::Dropped(cause));
            prop_assert_eq!(counted(counters.dropped(cause)), expected);
        }
    }

    #[test]
    fn the_rate_is_never_exceeded(
        bits_per_second in 1e6..1e10f64, queue in drop_tail(), down in down(), offers in offers()
    ) {
        let config = LinkConfig { queue, down, ..LinkConfig::constant(bits_per_second, DELAY) };
        let passages = passages(config, &offers);
        // A rate is rounded to a millionth of a bit per second.
        let rate = bits_per_second + 0.5e-6;
        for first in 0..passages.len() {
            let mut bits = 0.0;
            for last in &passages[first + 1..] {
                bits += f64::from(last.bytes) * 8.0;
                // Both ends of the window are rounded down to a picosecond.
                let window_ps = (last.transmitted - passages[first].transmitted) as f64 + 1.001;
                prop_assert!(bits <= rate * window_ps / 1e12);
            }
        }
    }

    #[test]
    fn a_trace_is_never_exceeded(trace in trace(), queue in drop_tail(), offers in offers()) {
        let rate = Rate::Trace(trace);
        let opportunities = opportunities(&rate);
        let config = LinkConfig { rate, queue, ..LinkConfig::constant(1.0, DELAY) };
        let passages = passages(config, &offers);
        for first in 0..passages.len() {
            let mut bytes = 0;
            let from = passages[first].transmitted;
            let since = opportunities.partition_point(|&time| time < from);
            for last in &passages[first..] {
                bytes += last.bytes;
                let to = last.transmitted;
                let until = opportunities.partition_point(|&time| time <= to);
                prop_assert!(until < opportunities.len());
                // The first packet may have used up to 1499 bytes of opportunities before.
                prop_assert!(bytes <= (until - since) as u32 * 1500 + 1499);
            }
        }
    }

    #[test]
    fn in_no_window_is_more_delivered_than_the_rate_allows(
        rate in rate(), queue in queue(), loss in loss(), down in down(), events in events()
    ) {
        let mut link = Link::new(LinkConfig { rate: rate.clone(), delay: DELAY, impairments: Default::default(), queue, loss, down }, 1);
        let capacity = capacity(&rate);
        let (mut now, mut before, mut delivered) = (0, 0, 0);
        for (gap, bytes) in events {
            now += gap;
            if let Some(bytes) = bytes {
                link.offer(now, bytes);
            }
            let counted = link.counters(now).delivered;
            prop_assert!(delivered <= counted);
            prop_assert!(counted - delivered <= capacity(before, now), "{before} to {now} ps");
            (before, delivered) = (now, counted);
        }
    }

    #[test]
    fn at_any_time_all_packets_but_one_are_delivered_in_whole_or_not_at_all(
        config in link(), offers in offers(), wait in 0..30_000_000_000u64
    ) {
        let mut link = Link::new(config.clone(), 1);
        let last = fates(&mut link, &offers).last().map_or(0, |&(now, ..)| now);
        let delivered = link.counters(last + wait).delivered;
        // Ends of transmissions are rounded down to a picosecond.
        let whole: u128 = passages(config, &offers)
            .iter()
            .filter(|passage| passage.transmitted < last + wait)
            .map(|passage| u128::from(passage.bytes) * ATTOBITS_PER_BYTE)
            .sum();
        prop_assert!((whole..=whole + 1500 * ATTOBITS_PER_BYTE).contains(&delivered));
    }

    #[test]
    fn a_backlogged_link_delivers_exactly_its_rate(
        bits_per_second in 1_000_000..10_000_000_000u64, sizes in vec(1..=1500u32, 1..300)
    ) {
        let mut link = Link::new(LinkConfig::constant(bits_per_second as f64, 0), 1);
        let mut bytes: u128 = 0;
        for size in sizes {
            bytes += u128::from(size);
            let due = (bytes * 8_000_000_000_000 / u128::from(bits_per_second)) as Time;
            let Fate::Delivered { at } = link.offer(0, size) else { panic!("nothing is dropped") };
            prop_assert_eq!(at, due);
        }
    }

    #[test]
    fn the_backlog_never_exceeds_the_limits(config in link(), offers in offers()) {
        let (packet_limit, byte_limit) = match &config.queue {
            Queue::DropTail { packets, bytes } => (*packets, *bytes),
            Queue::Red(red) => (Some(red.limit_packets), None),
            Queue::Pie(pie) => (Some(pie.limit_packets), None),
            Queue::Policer(_) => (None, None),
            other => unreachable!("{other:?} is not drawn"),
        };
        let mut link = Link::new(config, 1);
        let mut now = 0;
        for (gap, bytes) in offers {
            now += gap;
            link.offer(now, bytes);
            let backlog = link.queue(now);
            prop_assert!(backlog.packets <= packet_limit.unwrap_or(u32::MAX));
            prop_assert!(backlog.bytes <= byte_limit.unwrap_or(u64::MAX));
        }
    }

    #[test]
    fn nothing_outlives_the_start_of_a_down_interval(config in link(), offers in offers()) {
        let down = config.down.clone();
        for passage in passages(config, &offers) {
            let lived_through = |&(from, to): &(Time, Time)| {
                passage.offered < to && from <= passage.transmitted
            };
            prop_assert!(!down.iter().any(lived_through));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_fates(
        config in link(), seed in any::<u64>(), offers in offers()
    ) {
        let [first, second] = [(); 2].map(|()| fates(&mut Link::new(config.clone(), seed), &offers));
        prop_assert_eq!(first, second);
    }
}
