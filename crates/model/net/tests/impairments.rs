//! Links with jitter, displaced packets and retransmissions.

use anabranch_net::{
    Arq, Cause, Crossing, Dice, Displacement, Fate, ImpairedLink, Impairments, Link, LinkConfig,
    Loss, MILLISECOND, Overtaking, Reorder, Steps, Time,
};
use proptest::collection::vec;
use proptest::prelude::*;

const MS: Time = MILLISECOND;
const DELAY: Time = 10 * MS;

fn config(loss: Loss, impairments: Impairments) -> LinkConfig {
    LinkConfig {
        loss,
        impairments,
        ..LinkConfig::constant(12e6, DELAY)
    }
}

fn displaced(share: f64, by: Displacement) -> Impairments {
    Impairments {
        reorder: Some(Reorder { share, by }),
        ..Impairments::default()
    }
}

fn behind(count: u32, hold: Time) -> Displacement {
    Displacement::Packets { count, hold }
}

fn at(crossing: Crossing) -> Option<Time> {
    match crossing.fate {
        Fate::Delivered { at } => Some(at),
        Fate::Dropped(_) => None,
    }
}

/// Offers packets of 1500 bytes, which take 1 ms, at these times. Gives, in the order of arrivals,
/// each packet's number and when it arrives, and the numbers of the displaced ones.
fn arrivals(config: LinkConfig, seed: u64, offers: &[Time]) -> (Vec<(usize, Time)>, Vec<usize>) {
    let mut link = ImpairedLink::new(config, seed);
    let (mut overtaking, mut order, mut held) = (Overtaking::default(), Vec::new(), Vec::new());
    for (number, &now) in offers.iter().enumerate() {
        while let Some((time, packet)) = overtaking.take(now) {
            order.push((packet, time));
        }
        let crossing = link.offer(now, 1500, false);
        if crossing.behind > 0 {
            held.push(number);
        }
        if let Some(at) = at(crossing) {
            overtaking.push(at, crossing.behind, number);
            assert!(
                overtaking
                    .next()
                    .is_some_and(|next| now < next && next <= at)
            );
        }
    }
    while let Some((time, packet)) = overtaking.take(Time::MAX) {
        order.push((packet, time));
    }
    (order, held)
}

/// For each of `late`, how many packets offered after it arrive before it.
fn overtakings(order: &[(usize, Time)], late: &[usize]) -> Vec<usize> {
    let place = |number| order.iter().position(|&(packet, _)| packet == number);
    let before = |&number: &usize| {
        let place = place(number).expect("it arrives");
        order[..place]
            .iter()
            .filter(|&&(packet, _)| packet > number)
            .count()
    };
    late.iter().map(before).collect()
}

/// A packet per ms, the first displaced by two: 0 arrives with 2, behind it.
#[test]
fn a_displaced_packet_arrives_behind_the_last_that_overtakes_it() {
    let mut overtaking = Overtaking::default();
    overtaking.push(100, 2, 'a');
    for (at, packet) in [(11, 'b'), (12, 'c'), (13, 'd')] {
        overtaking.push(at, 0, packet);
    }
    let order: Vec<_> = std::iter::from_fn(|| overtaking.take(50)).collect();
    assert_eq!(order, [(11, 'b'), (12, 'c'), (12, 'a'), (13, 'd')]);
}

/// Two are displaced by two each, and a third between those that overtake: each is overtaken by two
/// that are not displaced.
#[test]
fn displaced_packets_do_not_count_among_those_that_overtake() {
    let mut overtaking = Overtaking::default();
    for (at, behind, packet) in [
        (100, 2, 'a'),
        (100, 2, 'b'),
        (13, 0, 'c'),
        (100, 2, 'd'),
        (15, 0, 'e'),
        (16, 0, 'f'),
    ] {
        overtaking.push(at, behind, packet);
    }
    let order: String = std::iter::from_fn(|| overtaking.take(50).map(|it| it.1)).collect();
    assert_eq!(order, "ceabfd");
}

/// Where fewer packets follow, it arrives when it has been held.
#[test]
fn a_packet_that_few_overtake_arrives_when_it_has_been_held() {
    let all = displaced(1.0, behind(3, 7 * MS));
    let (order, held) = arrivals(config(Loss::None, all), 1, &[0, 5 * MS]);
    assert_eq!(held, [0, 1]);
    assert_eq!(order, [(0, 18 * MS), (1, 23 * MS)]);
    let mut late = Overtaking::default();
    late.push(20, 2, 'a');
    late.push(11, 0, 'b');
    late.push(30, 0, 'c');
    let order: Vec<_> = std::iter::from_fn(|| late.take(50)).collect();
    assert_eq!(order, [(11, 'b'), (20, 'a'), (30, 'c')]);
}

/// A packet per ms, all lost once: 8 ms later. With a wire that loses all, none arrives.
#[test]
fn what_is_lost_is_sent_again_up_to_a_number_of_times() {
    let lost_until = |until| {
        Loss::Repeated(Box::new(Arq {
            loss: Loss::Steps(Steps::new([(0, 1.0), (until, 0.0)])),
            retries: 3,
            delay: 8 * MS,
        }))
    };
    // Transmissions end at 1, 9, 17 and 25 ms.
    for (until, expected) in [
        (1, Some(0)),
        (9, Some(8)),
        (10, Some(16)),
        (25, Some(24)),
        (26, None),
    ] {
        let mut link = ImpairedLink::new(config(lost_until(until * MS), Impairments::default()), 1);
        let crossing = link.offer(0, 1500, false);
        let delayed = at(crossing).map(|at| (at - DELAY - MS) / MS);
        assert_eq!(delayed, expected, "{until}");
        let lost = link.counters(MS).dropped(Cause::Random).packets;
        assert_eq!(lost, u64::from(expected.is_none()));
    }
}

/// The second of three packets is sent again. In order the third waits for it; otherwise not.
#[test]
fn later_packets_wait_behind_a_retransmission_or_overtake_it() {
    let second = Loss::Steps(Steps::new([(0, 0.0), (2 * MS, 1.0), (2 * MS + 1, 0.0)]));
    let loss = Loss::Repeated(Box::new(Arq {
        loss: second,
        retries: 1,
        delay: 5 * MS,
    }));
    for (overtakes, third) in [(false, 17), (true, 13)] {
        let impairments = Impairments {
            overtakes,
            ..Impairments::default()
        };
        let mut link = ImpairedLink::new(config(loss.clone(), impairments), 1);
        let arrivals = [0; 3].map(|now| at(link.offer(now, 1500, false)).map(|at| at / MS));
        assert_eq!(arrivals, [Some(11), Some(17), Some(third)]);
    }
}

/// The mean of an `Arq` is the share of packets that it loses: p^(n + 1), and for bursts what a
/// million packets lose, within five standard errors of a chain that forgets in ten packets.
#[test]
fn the_mean_after_retransmissions_is_what_they_lose() {
    let bursts = Loss::GilbertElliott {
        good_to_bad: 0.05,
        bad_to_good: 0.25,
        loss_good: 0.01,
        loss_bad: 0.8,
    };
    let single = Loss::Bernoulli { probability: 0.3 };
    for (loss, retries) in [(single.clone(), 1), (single, 3), (bursts, 2)] {
        let arq = Loss::Repeated(Box::new(Arq {
            loss,
            retries,
            delay: MS,
        }));
        let mut link = Link::new(config(arq.clone(), Impairments::default()), 3);
        let (packets, mean) = (300_000, arq.mean());
        let lost = (0..packets).filter(|&number| {
            let fate = link.offer(number * MS, 1500);
            fate == Fate::Dropped(Cause::Random)
        });
        let share = lost.count() as f64 / packets as f64;
        let error = (10.0 * mean / packets as f64).sqrt();
        assert!((share - mean).abs() < 5.0 * error, "{share} and {mean}");
    }
    let steps = Loss::Repeated(Box::new(Arq {
        loss: Loss::Steps(Steps::new([(0, 0.5), (MS, 0.25), (2 * MS, 0.0)])),
        retries: 1,
        delay: MS,
    }));
    assert_eq!(steps.mean(), (0.25 + 0.0625) / 2.0);
}

/// 20 000 packets, a share of 0.01: 200 expected, four standard deviations are 56. Uniform jitter
/// up to 8 ms: 4 ms in the mean, four standard errors of 8 / sqrt(12 * 20 000) are 0.065 ms.
#[test]
fn the_share_of_displaced_packets_and_the_mean_of_jitter_are_those_of_the_keys() {
    let impairments = Impairments {
        jitter: 8 * MS,
        overtakes: true,
        ..displaced(0.01, Displacement::Delay(50 * MS))
    };
    let mut link = ImpairedLink::new(config(Loss::None, impairments), 5);
    let (mut late, mut sum) = (0, 0.0);
    for now in (0..20_000).map(|number| number * MS) {
        let more = at(link.offer(now, 1500, false)).expect("it arrives") - now - MS - DELAY;
        let jitter = more % (50 * MS);
        assert!(jitter < 8 * MS);
        late += u32::from(more >= 50 * MS);
        sum += jitter as f64 / MS as f64;
    }
    assert!((144..=256).contains(&late), "{late}");
    assert!((sum / 20_000.0 - 4.0).abs() < 0.065, "{}", sum / 20_000.0);
}

fn offers() -> impl Strategy<Value = Vec<Time>> {
    let gap = prop_oneof![3 => Just(0), 3 => 0..3 * MS, 1 => 0..30 * MS];
    vec(gap, 1..150).prop_map(|gaps| {
        let mut now = 0;
        let time = |gap| {
            now += gap;
            now
        };
        gaps.into_iter().map(time).collect()
    })
}

fn loss() -> impl Strategy<Value = Loss> {
    let single = (0.0..0.5f64).prop_map(|probability| Loss::Bernoulli { probability });
    let repeated = (0.0..0.9f64, 1..4u32, 0..20 * MS).prop_map(|(probability, retries, delay)| {
        Loss::Repeated(Box::new(Arq {
            loss: Loss::Bernoulli { probability },
            retries,
            delay,
        }))
    });
    prop_oneof![Just(Loss::None), single, repeated]
}

fn reorder() -> impl Strategy<Value = Option<Reorder>> {
    let by = prop_oneof![
        (1..40 * MS).prop_map(Displacement::Delay),
        (1..9u32, 1..200 * MS).prop_map(|(count, hold)| behind(count, hold)),
    ];
    prop::option::of((0.0..=1.0f64, by).prop_map(|(share, by)| Reorder { share, by }))
}

fn impairments() -> impl Strategy<Value = Impairments> {
    (0..20 * MS, any::<bool>(), reorder()).prop_map(|(jitter, overtakes, reorder)| Impairments {
        more_delay: None,
        jitter,
        overtakes,
        reorder,
    })
}

proptest! {
    /// Each packet arrives once or is lost, none earlier than its transmission and delay, and none
    /// later than twice the longest delay after the last transmission.
    #[test]
    fn packets_are_conserved_and_within_the_delays(
        loss in loss(), impairments in impairments(), offers in offers(), seed in any::<u64>(),
    ) {
        let config = config(loss, impairments);
        let (order, _) = arrivals(config.clone(), seed, &offers);
        let mut plain = Link::new(LinkConfig::constant(12e6, 0), 1);
        let ends: Vec<Time> = offers.iter().map(|&now| match plain.offer(now, 1500) {
            Fate::Delivered { at } => at,
            Fate::Dropped(_) => unreachable!("it has no limit"),
        }).collect();
        for &(packet, time) in &order {
            prop_assert!(ends[packet] + DELAY <= time);
            // Behind others: these may be delayed as much, and in order by all that came before.
            prop_assert!(time <= ends[offers.len() - 1] + 2 * config.longest_delay());
        }
        prop_assert!(order.is_sorted_by_key(|&(_, time)| time));
        let mut arrived: Vec<usize> = order.iter().map(|&(packet, _)| packet).collect();
        arrived.sort_unstable();
        prop_assert!(arrived.is_sorted_by(|a, b| a < b), "once");
        let mut link = ImpairedLink::new(config, seed);
        let fates = offers.iter().map(|&now| at(link.offer(now, 1500, false)).is_some());
        let delivered: Vec<usize> = (0..).zip(fates).filter(|it| it.1).map(|it| it.0).collect();
        prop_assert_eq!(&arrived, &delivered);
        let counters = link.counters(*offers.last().unwrap());
        prop_assert_eq!(counters.accepted.packets, delivered.len() as u64);
        prop_assert_eq!(counters.arrived.packets, counters.accepted.packets + counters.lost());
    }

    /// Where the order is kept, only displaced packets leave it.
    #[test]
    fn packets_keep_their_order_where_the_key_says_so(
        loss in loss(), jitter in 0..20 * MS, reorder in reorder(), offers in offers(),
    ) {
        let impairments = Impairments { jitter, reorder, ..Impairments::default() };
        let mut link = ImpairedLink::new(config(loss, impairments.clone()), 7);
        let mut last = 0;
        for now in offers {
            let crossing = link.offer(now, 1500, false);
            let Some(at) = at(crossing) else { continue };
            match &impairments.reorder {
                Some(Reorder { by: Displacement::Packets { .. }, .. }) if crossing.behind > 0 => {
                    prop_assert!(at > last);
                }
                Some(Reorder { by: Displacement::Delay(by), .. }) if at >= last + by => {}
                _ => {
                    prop_assert!(at >= last);
                    last = at;
                }
            }
        }
    }

    /// With enough packets behind it, a displaced packet is overtaken by exactly the number given,
    /// also where others are lost, sent again, or have jitter.
    #[test]
    fn exactly_as_many_packets_overtake_as_the_key_says(
        loss in loss(), jitter in 0..20 * MS, share in 0.0..0.5f64, count in 1..9u32,
        offers in offers(), seed in any::<u64>(),
    ) {
        let impairments = Impairments { jitter, ..displaced(share, behind(count, 1_000_000 * MS)) };
        let (order, held) = arrivals(config(loss, impairments), seed, &offers);
        let arrived = order.iter().map(|it| it.0);
        let in_place: Vec<usize> = arrived.filter(|number| !held.contains(number)).collect();
        for &number in &held {
            let others = |it: &&(usize, Time)| it.0 == number || in_place.contains(&it.0);
            let order: Vec<(usize, Time)> = order.iter().filter(others).copied().collect();
            let later = in_place.iter().filter(|&&other| other > number).count();
            // The last ones, which fewer follow, arrive when they have been held.
            prop_assert_eq!(overtakings(&order, &[number]), [later.min(count as usize)]);
        }
    }

    /// Without a key nothing is drawn: what a link with losses does is the same, to the bit.
    #[test]
    fn a_link_without_keys_is_the_plain_link_to_the_bit(
        probability in 0.0..0.5f64, offers in offers(), seed in any::<u64>(),
    ) {
        let config = config(Loss::Bernoulli { probability }, Impairments::default());
        let mut plain = Link::new(config.clone(), seed);
        let mut link = ImpairedLink::new(config, seed);
        for now in offers {
            let crossing = link.offer(now, 1500, false);
            prop_assert_eq!(crossing.fate, plain.offer(now, 1500));
            prop_assert_eq!(crossing.behind, 0);
            prop_assert_eq!(link.counters(now), plain.counters(now));
        }
    }

    /// The losses of a link do not change with a share of 0, a jitter of 0, or an order that need
    /// not be kept: these draw nothing either.
    #[test]
    fn keys_without_effect_draw_nothing(
        by in 1..40 * MS, overtakes in any::<bool>(), offers in offers(), seed in any::<u64>(),
    ) {
        let loss = Loss::Bernoulli { probability: 0.3 };
        let impairments = Impairments { overtakes, ..displaced(0.0, Displacement::Delay(by)) };
        let mut plain = Link::new(config(loss.clone(), Impairments::default()), seed);
        let mut link = ImpairedLink::new(config(loss, impairments), seed);
        for now in offers {
            prop_assert_eq!(link.offer(now, 1500, false).fate, plain.offer(now, 1500));
        }
    }
}

/// A link draws its losses as before, whatever is drawn for those that get through: the seed alone
/// decides, so the same seed gives the same arrivals.
#[test]
fn a_seed_gives_the_same_arrivals() {
    let impairments = Impairments {
        jitter: 3 * MS,
        overtakes: true,
        ..displaced(0.2, behind(3, 50 * MS))
    };
    let loss = Loss::Bernoulli { probability: 0.1 };
    let mut dice = Dice::new(1);
    let mut now = 0;
    let times = std::iter::repeat_with(|| {
        now += (dice.uniform() * 2.0 * MS as f64) as Time;
        now
    });
    let offers: Vec<Time> = times.take(500).collect();
    let config = config(loss, impairments);
    assert_eq!(
        arrivals(config.clone(), 1, &offers),
        arrivals(config.clone(), 1, &offers)
    );
    assert_ne!(
        arrivals(config.clone(), 1, &offers),
        arrivals(config, 2, &offers)
    );
}

#[test]
fn periodic_loss_takes_every_nth_packet_and_its_link_repeats_it_once() {
    let lost = |loss: Loss| -> Vec<u64> {
        let mut link = Link::new(config(loss, Impairments::default()), 1);
        let offers = (1..=12).map(|number| (number, link.offer(number * MS, 1500)));
        let lost = offers.filter(|(_, fate)| matches!(fate, Fate::Dropped(_)));
        lost.map(|(number, _)| number).collect()
    };
    assert_eq!(lost(Loss::Periodic { packets: 5 }), [5, 10]);
    assert_eq!(lost(Loss::Periodic { packets: 1 }).len(), 12);
    assert_eq!(Loss::Periodic { packets: 5 }.mean(), 0.2);
    // Sent again it has the next number, which is no multiple of 5.
    let arq = |packets, retries| {
        Loss::Repeated(Box::new(Arq {
            loss: Loss::Periodic { packets },
            retries,
            delay: MS,
        }))
    };
    assert_eq!(
        [arq(5, 1).mean(), arq(5, 0).mean(), arq(1, 3).mean()],
        [0.0, 0.2, 1.0]
    );
}
