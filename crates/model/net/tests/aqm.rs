//! CoDel, FQ-CoDel and others without endpoints: the packets arrive at times given here.

use anabranch_net::{
    Cause, Codel, Departure, DualPi2, Fate, FqCodel, Link, LinkConfig, Loss, MILLISECOND, Offer,
    Policer, Queue, QueuedLink, Rate, Red, SECOND, Time, Trace,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// At this rate a packet of 1500 bytes takes 1 ms.
pub const ONE_PACKET_PER_MS: f64 = 12e6;

pub fn link(queue: Queue) -> LinkConfig {
    LinkConfig {
        queue,
        ..LinkConfig::constant(ONE_PACKET_PER_MS, 0)
    }
}

/// From this number on flows are of low delay.
pub const LOW_DELAY: u64 = 100;

fn offer(flow: u64, packet: (u64, Time), bytes: u32, ecn_capable: bool) -> Offer<(u64, Time)> {
    Offer {
        packet,
        bytes,
        flow,
        ecn_capable,
        low_delay: flow >= LOW_DELAY,
    }
}

/// Fates of packets, each a flow and the time of the offer.
#[derive(Default)]
pub struct Outcome {
    pub sent: Vec<((u64, Time), Time)>,
    pub marked: Vec<Time>,
    pub dropped: Vec<((u64, Time), Cause, Time)>,
}

/// Offers packets (time, flow, bytes, whether ECN-capable), and starts what is due up to `end`.
pub fn play(
    link: &mut QueuedLink<(u64, Time)>,
    offers: impl IntoIterator<Item = (Time, u64, u32, bool)>,
    end: Time,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut start_until = |link: &mut QueuedLink<(u64, Time)>, until: Option<Time>| {
        while let Some(now) = link.next_start()
            && until.is_none_or(|until| now < until)
            && now <= end
        {
            if let Some(Departure { packet, marked, .. }) = link.start(now) {
                outcome.sent.push((packet, now));
                outcome.marked.extend(marked.then_some(now));
            }
            let dropped = link
                .take_dropped()
                .map(|(packet, cause)| (packet, cause, now));
            outcome.dropped.extend(dropped);
        }
    };
    let mut refused = Vec::new();
    for (now, flow, bytes, capable) in offers {
        start_until(link, Some(now));
        link.offer(now, offer(flow, (flow, now), bytes, capable));
        refused.extend(
            link.take_dropped()
                .map(|(packet, cause)| (packet, cause, now)),
        );
    }
    start_until(link, None);
    outcome.dropped.extend(refused);
    outcome
}

/// Two full packets of a flow at each millisecond before `end`: twice what the link can carry.
fn overload(end: Time, capable: bool) -> impl Iterator<Item = (Time, u64, u32, bool)> {
    (0..end / MILLISECOND).flat_map(move |ms| [(ms * MILLISECOND, 0, 1500, capable); 2])
}

/// At `k` ms the packet leaves that arrived at `k / 2` ms. Its delay, `k / 2` rounded up, reaches
/// the target of 5 ms at 9 ms; the first drop comes an interval later, at 109 ms, and the second at
/// 209 ms. The drop after the n-th follows `100 / sqrt(n)` ms later: 209 + 70.7 = 279.7,
/// + 57.7 = 337.4, + 50 = 387.4. What leaves is judged at whole milliseconds.
const CODEL_ACTS_MS: [u64; 5] = [109, 209, 280, 338, 388];

#[test]
fn codel_drops_first_after_an_interval_above_the_target_and_then_ever_more_often() {
    let mut codel = QueuedLink::new(&link(Queue::Codel(Codel::default())), 1).expect("CoDel");
    let end = 400 * MILLISECOND;
    let outcome = play(&mut codel, overload(end, false), end);
    let times: Vec<u64> = outcome
        .dropped
        .iter()
        .map(|drop| drop.2 / MILLISECOND)
        .collect();
    assert_eq!(times, CODEL_ACTS_MS);
    assert!(outcome.dropped.iter().all(|drop| drop.1 == Cause::Aqm));
}

#[test]
fn codel_marks_at_the_times_at_which_it_would_drop() {
    let mut codel = QueuedLink::new(&link(Queue::Codel(Codel::default())), 1).expect("CoDel");
    let end = 400 * MILLISECOND;
    let outcome = play(&mut codel, overload(end, true), end);
    let times: Vec<u64> = outcome
        .marked
        .iter()
        .map(|time| time / MILLISECOND)
        .collect();
    assert_eq!(times, CODEL_ACTS_MS);
    assert!(outcome.dropped.is_empty());
    assert_eq!(codel.counters(end).marked, 5);
}

#[test]
fn codel_without_ecn_drops_packets_that_may_be_marked() {
    let silent = Codel {
        ecn: false,
        ..Codel::default()
    };
    let mut codel = QueuedLink::new(&link(Queue::Codel(silent)), 1).expect("CoDel");
    let end = 400 * MILLISECOND;
    let outcome = play(&mut codel, overload(end, true), end);
    assert_eq!((outcome.marked.len(), outcome.dropped.len()), (0, 5));
}

/// A thin flow sends a packet every 7.3 ms beside the overload.
fn thin_beside_bulk(end: Time) -> Vec<(Time, u64, u32, bool)> {
    let thin = (1..end / 7_300_000_000).map(|i| (i * 7_300_000_000, 9, 200, false));
    let mut offers: Vec<_> = overload(end, false).chain(thin).collect();
    offers.sort_by_key(|offer| offer.0);
    offers
}

fn longest_wait_of_the_thin_flow(queue: Queue) -> Time {
    let mut queued = QueuedLink::new(&link(queue), 1).expect("a queued link");
    let end = 2 * SECOND;
    let outcome = play(&mut queued, thin_beside_bulk(end), end);
    let thin = outcome.sent.iter().filter(|((flow, _), _)| *flow == 9);
    let waits: Vec<Time> = thin.map(|((_, offered), start)| start - offered).collect();
    assert!(
        waits.len() > 100,
        "{} packets of the thin flow",
        waits.len()
    );
    waits.into_iter().max().expect("packets")
}

/// A flow that has just become active is served after the transmission in progress, 1 ms; with one
/// queue it waits behind some hundred packets of the bulk.
#[test]
fn fq_codel_isolates_a_thin_flow_and_codel_does_not() {
    let isolated = longest_wait_of_the_thin_flow(Queue::FqCodel(FqCodel::default()));
    assert!(isolated <= MILLISECOND, "{isolated} ps");
    let shared = longest_wait_of_the_thin_flow(Queue::Codel(Codel::default()));
    assert!(shared > 100 * MILLISECOND, "{shared} ps");
}

/// Flows with packets of 1500, 700 and 300 bytes, each offering what the link carries. In turns of
/// 1514 bytes all send the same number of bytes, but for a quantum and a packet.
#[test]
fn fq_codel_shares_bytes_equally() {
    let mut fq = QueuedLink::new(&link(Queue::FqCodel(FqCodel::default())), 1).expect("FQ-CoDel");
    let end = SECOND;
    let sizes = [1500, 700, 300];
    let each = |flow: usize| {
        let gap = u64::from(sizes[flow]) * MILLISECOND / 1500;
        (0..end / gap).map(move |i| (i * gap, flow as u64, sizes[flow], false))
    };
    let mut offers: Vec<_> = (0..3).flat_map(each).collect();
    offers.sort_by_key(|offer| offer.0);
    let outcome = play(&mut fq, offers, end);
    let bytes = |flow: u64| {
        let packets = outcome.sent.iter().filter(|sent| sent.0.0 == flow);
        packets.count() as i64 * i64::from(sizes[flow as usize])
    };
    for flow in 1..3 {
        let difference = (bytes(flow) - bytes(0)).abs();
        assert!(
            difference <= 2 * (1514 + 1500),
            "flow {flow}: {difference} bytes"
        );
    }
}

/// 10 packets of the first flow and then 3 of the second exceed a limit of 12 by 1 with the last.
/// The first is the longest with 9 waiting (one is in transmission): half of them go, oldest first.
#[test]
fn fq_codel_shortens_the_longest_queue_when_the_limit_is_exceeded() {
    let mut limited = FqCodel::default();
    limited.codel.limit_packets = 11;
    let mut fq = QueuedLink::new(&link(Queue::FqCodel(limited)), 1).expect("FQ-CoDel");
    let first = (0..10).map(|i| (i, 0, 1500, false));
    let second = (10..13).map(|i| (i, 1, 1500, false));
    let outcome = play(&mut fq, first.chain(second), 12);
    let dropped: Vec<_> = outcome
        .dropped
        .iter()
        .map(|drop| (drop.0, drop.1))
        .collect();
    let expected = [1, 2, 3, 4].map(|time| ((0, time), Cause::Overflow));
    assert_eq!(dropped, expected);
}

/// RED with a probability of 1 from 4 packets on, and of 0.5 from 0: below, every hit is a mark.
#[test]
fn red_marks_below_its_upper_threshold_and_drops_from_there_on() {
    let red = Red {
        min_packets: 0.0,
        mid_packets: 1.0,
        max_packets: 4.0,
        mid_probability: 0.5,
        average_weight: None,
        limit_packets: 100,
        ecn: true,
    };
    let mut link = Link::new(link(Queue::Red(red)), 1);
    let fates: Vec<_> = (0..100).map(|_| link.offer_ecn_capable(0, 1500)).collect();
    let passed = fates
        .iter()
        .filter(|(fate, _)| matches!(fate, Fate::Delivered { .. }));
    // One is in transmission, and 4 wait: all others meet the probability of 1.
    assert_eq!(passed.count(), 5);
    let marked = fates.iter().filter(|(_, marked)| *marked).count();
    assert!(
        marked > 0 && link.counters(0).marked == marked as u64,
        "{marked}"
    );
}

/// A step at 20 packets, as `tc` writes DCTCP's: with 20 to 99 packets waiting every packet is
/// marked and none dropped. One is in transmission, so the 101st finds 99 waiting.
#[test]
fn red_marks_every_packet_at_probability_1() {
    let red = Red {
        min_packets: 19.9,
        mid_packets: 20.0,
        max_packets: 100.0,
        mid_probability: 1.0,
        average_weight: None,
        limit_packets: 1000,
        ecn: true,
    };
    let mut link = Link::new(link(Queue::Red(red)), 1);
    let fates: Vec<_> = (0..200).map(|_| link.offer_ecn_capable(0, 1500)).collect();
    let passed = |(fate, _): &&(Fate, bool)| matches!(fate, Fate::Delivered { .. });
    assert_eq!(fates.iter().filter(passed).count(), 101);
    assert_eq!(fates.iter().filter(|(_, marked)| *marked).count(), 80);
}

/// A bucket of 4500 bytes that fills by 1500 per 2 ms, half of the link's rate. At once pass three
/// packets; then one each at 2, 4 and 6 ms, however many are offered; after 6 ms without an offer,
/// at 13 ms, three again. What passes is transmitted at the link's rate.
#[test]
fn a_policer_passes_a_burst_and_then_its_rate() {
    let policer = Queue::Policer(Policer {
        bits_per_second: ONE_PACKET_PER_MS / 2.0,
        burst_bytes: 4500,
    });
    let mut link = Link::new(link(policer), 1);
    let mut passed = |ms: u64, offers: usize| {
        let fates = (0..offers).map(|_| link.offer(ms * MILLISECOND, 1500));
        fates
            .filter(|fate| match fate {
                Fate::Delivered { .. } => true,
                Fate::Dropped(cause) => {
                    assert_eq!(*cause, Cause::Overflow);
                    false
                }
            })
            .count()
    };
    let counts: Vec<usize> = (0..8).map(|ms| passed(ms, 4)).collect();
    assert_eq!(counts, [3, 0, 1, 0, 1, 0, 1, 0]);
    assert_eq!(passed(13, 4), 3);
}

fn queues() -> impl Strategy<Value = Queue> {
    let codel = (1..20u64, 1..50u64, 1..40u32, any::<bool>()).prop_map(
        |(target, interval, limit_packets, ecn)| Codel {
            target: target * MILLISECOND,
            interval: interval * MILLISECOND,
            limit_packets,
            ecn,
        },
    );
    let fq = (codel.clone(), 1..3000u32, 1..6u32).prop_map(|(codel, quantum_bytes, flows)| {
        Queue::FqCodel(FqCodel {
            codel,
            quantum_bytes,
            flows,
        })
    });
    let dual = (1..20u64, 1..20u64, 1..40u32, 0.0..=1.0).prop_map(
        |(target, tupdate, limit_packets, classic_share)| {
            Queue::DualPi2(DualPi2 {
                target: target * MILLISECOND,
                tupdate: tupdate * MILLISECOND,
                limit_packets,
                classic_share,
                ..DualPi2::default()
            })
        },
    );
    prop_oneof![codel.prop_map(Queue::Codel), fq, dual]
}

fn rates() -> impl Strategy<Value = Rate> {
    let trace = vec(0..5u32, 1..20).prop_map(|gaps| {
        let mut time_ms = 1;
        let mut line = |gap: u32| {
            time_ms += gap;
            format!("{time_ms}\n")
        };
        let text: String = gaps.into_iter().map(&mut line).collect();
        Rate::Trace(Trace::parse(&text).expect("a trace"))
    });
    let constant = (1e6..20e6).prop_map(|bits_per_second| Rate::Constant { bits_per_second });
    prop_oneof![constant, trace]
}

proptest! {
    /// Every packet is transmitted, dropped with a cause, or waits; packets of a flow stay in
    /// order; nothing is marked that may not be.
    #[test]
    fn every_packet_is_sent_or_dropped_or_waits(
        queue in queues(),
        rate in rates(),
        lossy in any::<bool>(),
        down_ms in (0..200u64, 1..50u64),
        offers in vec((0..3_000_000_000u64, 0..8u64, 40..=1500u32, any::<bool>()), 1..300),
        rest_ms in 0..300u64,
    ) {
        let (from, length) = down_ms;
        let config = LinkConfig {
            rate,
            loss: if lossy { Loss::Bernoulli { probability: 0.2 } } else { Loss::None },
            down: vec![(from * MILLISECOND, (from + length) * MILLISECOND)],
            ..link(queue)
        };
        let mut queued = QueuedLink::new(&config, 3).expect("a queued link");
        let mut now = 0;
        let timed: Vec<_> = offers.iter().map(|&(gap, flow, bytes, capable)| {
            now += gap + 1;
            if flow % 2 == 1 {
                return (now, LOW_DELAY + flow, bytes, true);
            }
            (now, flow, bytes, capable)
        }).collect();
        let end = now + rest_ms * MILLISECOND;
        let outcome = play(&mut queued, timed.iter().copied(), end);

        let mut seen: Vec<_> = outcome.sent.iter().map(|sent| sent.0).collect();
        seen.extend(outcome.dropped.iter().map(|drop| drop.0));
        let gone = seen.len();
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(gone, seen.len(), "a packet has two fates");
        let waiting = queued.queue().packets as usize;
        prop_assert_eq!(gone + waiting, timed.len());
        let counters = queued.counters(end);
        prop_assert_eq!(counters.arrived.packets, timed.len() as u64);
        prop_assert_eq!(counters.accepted.packets, outcome.sent.len() as u64);
        prop_assert_eq!(counters.lost(), outcome.dropped.len() as u64);
        prop_assert_eq!(counters.marked, outcome.marked.len() as u64);
        for flow in (0..8).chain(LOW_DELAY..LOW_DELAY + 8) {
            let mine = outcome.sent.iter().filter(|sent| sent.0.0 == flow);
            prop_assert!(mine.map(|sent| sent.0.1).is_sorted(), "flow {} is out of order", flow);
        }
        let capable = timed.iter().filter(|offer| offer.3).count();
        prop_assert!(outcome.marked.len() <= capable);
    }

    /// A link with real queues that never drops is a drop-tail link: same times of arrival.
    #[test]
    fn a_queue_without_drops_is_drop_tail(
        rate in rates(),
        offers in vec((0..3_000_000_000u64, 40..=1500u32), 1..200),
    ) {
        let patient = Codel { target: SECOND * 1000, limit_packets: u32::MAX, ..Codel::default() };
        let config = LinkConfig { rate: rate.clone(), ..link(Queue::Codel(patient)) };
        let mut queued = QueuedLink::new(&config, 1).expect("a queued link");
        let mut fifo = Link::new(LinkConfig { rate, ..LinkConfig::constant(1.0, 0) }, 1);
        let (mut now, mut expected, mut arrivals) = (0, Vec::new(), Vec::new());
        let mut start = |queued: &mut QueuedLink<()>, until: Time| {
            while let Some(at) = queued.next_start() && at <= until {
                arrivals.extend(queued.start(at).map(|departure| departure.at));
            }
        };
        for (gap, bytes) in offers {
            now += gap;
            start(&mut queued, now);
            queued.offer(now, Offer { packet: (), bytes, flow: 0, ecn_capable: false, low_delay: false });
            if let Fate::Delivered { at } = fifo.offer(now, bytes) {
                expected.push(at);
            }
        }
        start(&mut queued, Time::MAX);
        prop_assert_eq!(arrivals, expected);
    }
}
