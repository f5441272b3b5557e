//! Coupled paths: groups, each a connection of its own to the rule.

use std::sync::Arc;

use crate::common::{ack, all_rules, close};
use anabranch_control::{Ack, Algorithm, AnyController, AnyRule, Coupling, Custom, External, Path};
use proptest::prelude::*;

fn controller(spec: &str, paths: usize) -> AnyController {
    Algorithm::parse(spec).unwrap().controller(paths, 10.0)
}

fn groups(controller: &AnyController, paths: usize) -> Vec<usize> {
    (0..paths).map(|r| controller.group(r)).collect()
}

/// Whether path `r` evolves with these events bit for bit as in a controller of this coupling, in
/// which no path is silent.
fn evolves_as(
    controller: &AnyController,
    coupling: Coupling,
    r: usize,
    mut now: f64,
    events: &[(f64, Event)],
) -> bool {
    let (mut one, mut other) = (controller.clone(), controller.clone());
    other.set_coupling(coupling);
    events.iter().all(|(after, event)| {
        now += after;
        apply(&mut one, r, now, event);
        apply(&mut other, r, now, event);
        (one.window(r), one.ssthresh(r)) == (other.window(r), other.ssthresh(r))
    })
}

/// An event of a path in a random history.
#[derive(Clone, Debug)]
enum Event {
    Ack { packets: u32, rtt: f64 },
    Loss,
    Recovered,
    Timeout,
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => (1u32..8, 0.01..0.5).prop_map(|(packets, rtt)| Event::Ack { packets, rtt }),
        2 => Just(Event::Loss),
        2 => Just(Event::Recovered),
        1 => Just(Event::Timeout),
    ]
}

fn apply(controller: &mut AnyController, r: usize, now: f64, event: &Event) {
    match *event {
        Event::Ack { packets, rtt } => {
            let sent_at = now - rtt;
            let ack = Ack {
                packets,
                sent_at,
                ..ack(now, rtt)
            };
            controller.on_ack(r, &ack);
        }
        Event::Loss => controller.on_loss(r),
        Event::Recovered => controller.on_recovered(r),
        Event::Timeout => controller.on_timeout(r),
    }
}

proptest! {
    /// Over one path lia, olia and balia are NewReno, so each path's window has the bits of a
    /// connection's of its own, up to the rounding of the rule's formula.
    #[test]
    fn without_coupling_each_path_is_a_connection_of_its_own(
        rule in prop::sample::select(vec!["reno", "lia", "olia", "balia", "wvegas", "cubic"]),
        paths in 1usize..4,
        history in prop::collection::vec((0usize..4, 0.0..0.3, any_event()), 1..200),
    ) {
        let mut together = controller(&format!("{rule}:coupling=never"), paths);
        let mut alone: Vec<AnyController> = (0..paths).map(|_| controller(rule, 1)).collect();
        let mut now = 0.0;
        for (r, after, event) in history {
            let r = r % paths;
            now += after;
            apply(&mut together, r, now, &event);
            apply(&mut alone[r], 0, now, &event);
            prop_assert_eq!(together.window(r), alone[r].window(0));
            prop_assert_eq!(together.ssthresh(r), alone[r].ssthresh(0));
        }
        prop_assert_eq!(groups(&together, paths), (0..paths).collect::<Vec<_>>());
    }

    /// For every rule, whatever happened before: once each sibling had two timeouts in a row or was
    /// closed, the living path's window and ssthresh have the bits of a connection's with that path
    /// alone, which is what `coupling=never` makes of each path. After one timeout, and once
    /// something was acknowledged on the siblings, they are those of a connection that couples all
    /// paths.
    #[test]
    fn a_sibling_counts_until_it_is_silent_and_again_when_it_is_heard(
        paths in 2usize..5, living in 0usize..4, closed in 0usize..8,
        before in prop::collection::vec((0usize..4, 0.0..0.3, any_event()), 1..100),
        after in prop::collection::vec((0.0..0.3, any_event()), 1..50),
    ) {
        let living = living % paths;
        let siblings: Vec<usize> = (0..paths).filter(|&r| r != living).collect();
        for (info, rule) in all_rules() {
            let mut one = rule.controller(paths, 10.0);
            let mut now = 0.0;
            for (r, after, event) in &before {
                now += after;
                apply(&mut one, r % paths, now, event);
            }
            // An acknowledgement ends a row of timeouts.
            for &r in &siblings {
                apply(&mut one, r, now, &Event::Ack { packets: 1, rtt: 0.1 });
                one.on_timeout(r);
            }
            let same = evolves_as(&one, Coupling::Always, living, now, &after);
            prop_assert!(same, "{}: one timeout", info.name);
            for &r in &siblings {
                if closed >> r & 1 == 0 { one.on_timeout(r) } else { one.on_silence(r) }
            }
            let same = evolves_as(&one, Coupling::Never, living, now, &after);
            prop_assert!(same, "{}: silent", info.name);
            for &r in &siblings {
                apply(&mut one, r, now, &Event::Ack { packets: 1, rtt: 0.1 });
            }
            let same = evolves_as(&one, Coupling::Always, living, now, &after);
            prop_assert!(same, "{}: heard", info.name);
        }
    }

    /// For every rule, with memory or without, the others evolve bit for bit as in a connection
    /// that never had the path, whichever its place is.
    #[test]
    fn several_paths_evolve_as_if_a_silent_one_were_not_there(
        paths in 2usize..4, silent in 0usize..4,
        history in prop::collection::vec((0usize..4, 0.0..0.3, any_event()), 1..100),
    ) {
        let silent = silent % (paths + 1);
        for (info, rule) in all_rules() {
            let mut with = rule.controller(paths + 1, 10.0);
            let mut without = rule.controller(paths, 10.0);
            apply(&mut with, silent, 0.0, &Event::Ack { packets: 8, rtt: 0.1 });
            (0..2).for_each(|_| with.on_timeout(silent));
            let mut now = 0.0;
            for (r, after, event) in &history {
                now += after;
                let r = r % paths;
                let place = if r < silent { r } else { r + 1 };
                apply(&mut with, place, now, event);
                apply(&mut without, r, now, event);
                prop_assert_eq!(with.window(place), without.window(r), "{}", info.name);
                prop_assert_eq!(with.ssthresh(place), without.ssthresh(r), "{}", info.name);
            }
        }
    }

    /// A group that holds every path is the rule as published.
    #[test]
    fn before_anything_is_known_all_paths_are_coupled(
        paths in 1usize..4,
        history in prop::collection::vec((0usize..4, 0.0..0.01, any_event()), 1..200),
    ) {
        let mut always = controller("lia", paths);
        let mut shared = controller("lia:coupling=shared", paths);
        let mut now = 0.0;
        for (r, after, event) in history {
            now += after;
            for one in [&mut always, &mut shared] {
                apply(one, r % paths, now, &event);
            }
            prop_assert_eq!(always.window(r % paths), shared.window(r % paths));
        }
    }

    /// Delays of three paths in random queues; the paths in another order.
    #[test]
    fn permuting_the_paths_permutes_the_groups(
        spec in prop::sample::select(vec!["lia:coupling=shared", "lia:coupling=rfc8382"]),
        queue_of in prop::collection::vec(0usize..3, 3),
        levels in prop::collection::vec(prop::collection::vec(0.0..0.1, 80), 3),
        shift in 1usize..3,
    ) {
        let order: Vec<usize> = (0..3).map(|r| (r + shift) % 3).collect();
        let run = |order: &[usize]| {
            let mut controller = controller(spec, 3);
            for (step, now) in (0..80 * 20).map(|step| (step, f64::from(step) * 0.01)) {
                for (place, &r) in order.iter().enumerate() {
                    let delay = levels[queue_of[r]][step as usize / 20];
                    controller.on_ack(place, &delayed(now, delay));
                }
            }
            groups(&controller, 3)
        };
        let (plain, permuted) = (run(&[0, 1, 2]), run(&order));
        for i in 0..3 {
            for j in 0..3 {
                let together = plain[order[i]] == plain[order[j]];
                prop_assert_eq!(permuted[i] == permuted[j], together);
            }
        }
    }
}

/// An acknowledgement of a packet that was delayed by this long in queues.
fn delayed(now: f64, queue_delay: f64) -> Ack {
    Ack {
        queue_delay: Some(queue_delay),
        ..ack(now, 0.05 + queue_delay)
    }
}

/// A pseudo-random delay, another one in every interval of 0.2 s (SplitMix64).
fn noise(queue: u64, now: f64) -> f64 {
    let interval = (now / 0.2) as u64;
    let mut z = (interval + 1000 * queue + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    0.05 * ((z ^ (z >> 31)) >> 40) as f64 / (1u64 << 24) as f64
}

/// The groups after `seconds`, with 100 packets per second and path; `delay` of path and time.
fn after(spec: &str, paths: usize, seconds: u32, delay: impl Fn(usize, f64) -> f64) -> Vec<usize> {
    let mut controller = controller(spec, paths);
    for step in 0..100 * seconds {
        let now = f64::from(step) * 0.01;
        for r in 0..paths {
            controller.on_ack(r, &delayed(now, delay(r, now)));
        }
    }
    groups(&controller, paths)
}

#[test]
fn paths_whose_delays_change_together_are_one_group() {
    for spec in ["lia:coupling=shared", "lia:coupling=rfc8382"] {
        let queues = [0, 1, 0];
        let delay = |r: usize, now| 0.01 * r as f64 + noise(queues[r], now);
        assert_eq!(
            after("lia:coupling=shared", 3, 60, delay),
            [0, 1, 0],
            "{spec}"
        );
    }
    // Propagation delays do not matter.
    let far = |r: usize, now| r as f64 + noise(0, now);
    assert_eq!(after("lia:coupling=shared", 2, 30, far), [0, 0]);
}

#[test]
fn a_path_is_separate_three_seconds_after_it_has_begun() {
    // 15 intervals of 0.2 s, of which the last ends with the packet at 3 s.
    let apart = |r: usize, now| noise(r as u64, now);
    assert_eq!(after("lia:coupling=shared", 2, 3, apart), [0, 0]);
    assert_eq!(after("lia:coupling=shared", 2, 4, apart), [0, 1]);
}

#[test]
fn constant_delays_show_no_shared_bottleneck() {
    for spec in ["lia:coupling=shared", "lia:coupling=rfc8382"] {
        assert_eq!(after(spec, 2, 60, |_, _| 0.02), [0, 1], "{spec}");
    }
}

#[test]
fn a_path_without_packets_stays_coupled() {
    let mut controller = controller("lia:coupling=shared", 2);
    for step in 0..3000 {
        let now = f64::from(step) * 0.01;
        controller.on_ack(0, &delayed(now, noise(0, now)));
    }
    assert_eq!(groups(&controller, 2), [0, 0]);
}

/// The groups after a minute of packets at random intervals of up to 50 ms, of which every second
/// one is acknowledged, or the first 40 ms after its arrival (RFC 1122); `delay` of path and time.
fn with_delayed_acks(delay: impl Fn(usize, f64) -> f64) -> Vec<usize> {
    let mut controller = controller("lia:coupling=shared", 2);
    let mut held: [Option<f64>; 2] = [None; 2];
    let mut next = [0.0; 2];
    for packet in 0..6000 {
        let r = usize::from(next[1] < next[0]);
        let arrival = next[r];
        // Another value of `noise`, up to 50 ms, for every packet.
        next[r] += noise(7, 0.2 * f64::from(packet) + 0.1);
        let Some(first) = held[r].take() else {
            held[r] = Some(arrival);
            continue;
        };
        let answer = arrival.min(first + 0.04);
        controller.on_ack(r, &delayed(answer, delay(r, first) + answer - first));
        if answer < arrival {
            held[r] = Some(arrival);
        }
    }
    groups(&controller, 2)
}

/// The queue's delay is uniform up to 10 ms, with a variance of 8 ms^2; the wait for an
/// acknowledgement up to 40 ms, with at least 40^2 / 12 = 133 ms^2.
#[test]
fn delayed_acknowledgements_do_not_separate_paths() {
    let queue = |queue, now| 0.2 * noise(queue, now);
    assert_eq!(with_delayed_acks(|_, now| queue(0, now)), [0, 0]);
    assert_eq!(with_delayed_acks(|r, now| queue(r as u64, now)), [0, 1]);
}

#[test]
fn groups_follow_a_bottleneck_that_moves() {
    let moves = |r: usize, now: f64| noise(if now < 30.0 { 0 } else { r as u64 }, now);
    assert_eq!(after("lia:coupling=shared", 2, 30, moves), [0, 0]);
    assert_eq!(after("lia:coupling=shared", 2, 60, moves), [0, 1]);
    let comes = |r: usize, now: f64| noise(if now < 30.0 { r as u64 } else { 0 }, now);
    assert_eq!(after("lia:coupling=shared", 2, 60, comes), [0, 0]);
}

/// Two paths of window 10 and the same RTT in one group: alpha is 20 * 10 / (10 + 10)^2 = 1/2, and
/// LIA adds alpha / 20 = 1/40 per packet. Over the third path, a group of its own, it adds 1/10.
#[test]
fn a_rule_is_given_the_paths_of_the_group_alone() {
    let mut controller = controller("lia:coupling=shared", 3);
    let queues = [0u64, 1, 0];
    for step in 0..6000 {
        let now = f64::from(step) * 0.01;
        for (r, &queue) in queues.iter().enumerate() {
            let ack = Ack {
                window_limited: false,
                ..delayed(now, noise(queue, now))
            };
            controller.on_ack(r, &ack);
        }
    }
    assert_eq!(groups(&controller, 3), [0, 1, 0]);
    let rtt = controller.path(1).rtt;
    for r in 0..3 {
        controller.set_ssthresh(r, 10.0);
    }
    let one = Ack {
        packets: 1,
        rtt: None,
        ..ack(60.0, rtt)
    };
    for (r, increase) in [(1, 0.1), (0, 0.025)] {
        controller.on_ack(r, &one);
        assert!(close(controller.window(r), 10.0 + increase));
    }
}

/// An agent has a value for the first path and one for the second: the second path grows by its own
/// although the first is silent.
#[test]
fn a_rule_that_knows_paths_by_place_is_given_silent_paths_too() {
    struct ByPlace;
    impl External for ByPlace {
        fn increase(&self, r: usize, _paths: &[Path<f64>]) -> f64 {
            [3.0, 5.0][r]
        }
        fn decrease(&self, _r: usize, _paths: &[Path<f64>]) -> f64 {
            0.0
        }
        fn knows_paths_by_place(&self) -> bool {
            true
        }
    }
    let mut controller = AnyRule::Custom(Custom(Arc::new(ByPlace))).controller(2, 10.0);
    controller.set_ssthresh(1, 10.0);
    (0..2).for_each(|_| controller.on_timeout(0));
    controller.on_ack(1, &ack(1.0, 0.1));
    assert_eq!(controller.window(1), 15.0);
}

/// RFC 5681's smallest ssthresh of 2 packets holds for a connection of one path.
#[test]
fn a_path_on_its_own_keeps_the_smallest_ssthresh_of_a_connection() {
    for (spec, smallest) in [("lia", 1.0), ("lia:coupling=never", 2.0)] {
        let mut controller = Algorithm::parse(spec).unwrap().controller(2, 1.0);
        controller.on_timeout(0);
        assert_eq!(controller.ssthresh(0), smallest, "{spec}");
    }
}

#[test]
fn the_coupling_is_a_part_of_the_specification() {
    let parse = |text| match Algorithm::parse(text) {
        Ok(algorithm) => Ok(algorithm.to_string()),
        Err(error) => Err(error.message),
    };
    assert_eq!(parse("lia:coupling=always").unwrap(), "lia");
    assert_eq!(
        parse("balia: coupling = shared :cap=2").unwrap(),
        "balia:cap=2:coupling=shared"
    );
    let never = Algorithm::parse("lia:coupling=never").unwrap();
    assert_eq!(never.coupling(), Coupling::Never);
    assert_ne!(never, Algorithm::parse("lia").unwrap());
    for coupling in Coupling::ALL {
        assert_eq!(Coupling::parse(coupling.name()), Ok(coupling));
    }
    assert_eq!(
        parse("lia:coupling=sometimes").unwrap_err(),
        "lia: coupling expects one of always, shared, rfc8382, never, got \"sometimes\""
    );
    assert_eq!(
        parse("lia:coupling=never:coupling=never").unwrap_err(),
        "lia: coupling is given twice"
    );
}
