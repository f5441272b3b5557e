//! CoDel, FQ-CoDel and others without endpoints: the packets arrive at times given here.

use anabranch_net::{
    Cause, Codel, Departure, DualPi2, Fate, FqCodel, Link, LinkConfig, Loss, MILLISECOND, Offer,
    Pie, Policer, Queue, QueuedLink, Rate, Red, SECOND, Time, Trace,
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
        uniform: false,
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
        uniform: false,
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

// PIE without endpoints.

/// A stream at 1.25 times the rate: a fifth must be dropped, and the integral part of the
/// controller leaves no error of the delay but in the mean: it stays at the target of 15 ms.
#[test]
fn pie_finds_the_drop_probability_that_holds_its_target() {
    let mut pie = Link::new(link(Queue::Pie(Pie::default())), 1);
    let (mut dropped, mut waited, mut measured) = (0, 0, 0);
    for i in 0..100_000 {
        let now = i * 800_000_000;
        let fate = pie.offer(now, 1500);
        if now < 20 * SECOND {
            continue;
        }
        measured += 1;
        match fate {
            Fate::Delivered { at } => waited += at - now - MILLISECOND,
            Fate::Dropped(cause) => {
                assert_eq!(cause, Cause::Aqm);
                dropped += 1;
            }
        }
    }
    let share = f64::from(dropped) / f64::from(measured);
    assert!((share - 0.2).abs() < 0.002, "{share}");
    let mean_ms = waited as f64 / f64::from(measured - dropped) / MILLISECOND as f64;
    assert!((mean_ms - 15.0).abs() < 0.75, "{mean_ms} ms");
}

/// Marks do not shorten the queue, so the probability grows beyond 0.1, and then packets are
/// dropped (RFC 8033, section 5.1).
#[test]
fn pie_marks_up_to_a_probability_of_a_tenth_and_drops_above() {
    let mut pie = Link::new(link(Queue::Pie(Pie::default())), 1);
    let (mut marked, mut first_drop) = (0, None);
    for i in 0..10_000 {
        let (fate, mark) = pie.offer_ecn_capable(i * 800_000_000, 1500);
        marked += u32::from(mark && first_drop.is_none());
        if fate == Fate::Dropped(Cause::Aqm) {
            first_drop.get_or_insert(i);
        }
    }
    assert!(marked > 0, "nothing was marked before the first drop");
    assert!(first_drop.is_some(), "nothing was dropped");
    assert!(pie.counters(8 * SECOND).marked >= u64::from(marked));
}

/// The numbers of packets from a drop to the next at a drop probability of 0.01 and a trifle. Ten
/// packets per ms arrive, of which one leaves, so that a million wait at the only update, at 100 s,
/// for 900 s: (alpha (900 s - 15 ms)) / 2048 (RFC 8033, section 4.2, for a probability of 0).
fn gaps(derandomize: bool) -> Vec<u32> {
    let pie = Pie {
        derandomize,
        tupdate: 100 * SECOND,
        alpha: 0.01 * 2048.0 / 899.9,
        beta: 0.0,
        max_burst: 0,
        limit_packets: u32::MAX,
        ..Pie::default()
    };
    let mut pie = Link::new(link(Queue::Pie(pie)), 1);
    let fates = (1..2_000_000).map(|i| pie.offer(i * MILLISECOND / 10, 1500));
    let mut gaps = vec![0];
    for fate in fates {
        *gaps.last_mut().expect("a gap") += 1;
        if fate == Fate::Dropped(Cause::Aqm) {
            gaps.push(0);
        }
    }
    gaps[1..gaps.len() - 1].to_vec()
}

/// The next drop cannot be before the probability has added up to 0.85, after 85 packets. Then each
/// packet has the probability, 100 in the mean, and after 850 packets it is certain. Of independent
/// drops some are adjacent, and the mean is 100.
#[test]
fn derandomized_drops_are_neither_adjacent_nor_far_apart() {
    let mean = |gaps: &[u32]| f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
    let ends = |gaps: &[u32]| gaps.iter().min().copied().zip(gaps.iter().max().copied());
    let (random, spaced) = (gaps(false), gaps(true));
    // The standard deviation of a distance is 100, of the mean of 5000 it is 1.4.
    assert!((mean(&random) - 100.0).abs() < 5.0, "{}", mean(&random));
    assert!((mean(&spaced) - 185.0).abs() < 7.0, "{}", mean(&spaced));
    assert_eq!(ends(&random).map(|(least, _)| least), Some(1));
    let (least, most) = ends(&spaced).expect("drops");
    assert!(least >= 85 && most <= 850, "{least} to {most}");
}

// DualPI2 without endpoints: the packets arrive at times given here, and marks stop none.

const CLASSIC: u64 = 0;

/// A packet each: time, flow, bytes, whether ECN-capable.
type Packet = (Time, u64, u32, bool);

fn through(dualpi2: DualPi2, packets: Vec<Packet>, end: Time) -> Outcome {
    let mut queued = QueuedLink::new(&link(Queue::DualPi2(dualpi2)), 1).expect("a queued link");
    play(&mut queued, packets, end)
}

/// Full packets of a flow every `gap` from the start to the `end`.
fn stream(flow: u64, gap: Time, capable: bool, end: Time) -> impl Iterator<Item = Packet> {
    (0..end / gap).map(move |i| (i * gap, flow, 1500, capable))
}

fn together(streams: impl IntoIterator<Item = Packet>) -> Vec<Packet> {
    let mut packets: Vec<_> = streams.into_iter().collect();
    packets.sort_by_key(|packet| packet.0);
    packets
}

/// The share of a flow's packets, from 20 s on, that were dropped, and their mean wait, ms.
fn dropped_and_wait(outcome: &Outcome, flow: u64) -> (f64, f64) {
    let mine = |packet: &(u64, Time)| packet.0 == flow && packet.1 > 20 * SECOND;
    let sent = outcome.sent.iter().filter(|sent| mine(&sent.0));
    let dropped = outcome.dropped.iter().filter(|drop| mine(&drop.0)).count() as f64;
    let waits: Vec<Time> = sent.map(|(packet, start)| start - packet.1).collect();
    let mean = waits.iter().sum::<Time>() as f64 / waits.len() as f64;
    (
        dropped / (waits.len() as f64 + dropped),
        mean / MILLISECOND as f64,
    )
}

/// Six packets at once leave at 0 to 5 ms. The step of 1 ms asks to mark from the second on, but
/// not the last two, behind which at most one waits. Of these the first brings the accumulated
/// likelihood to 1, and a mark needs more.
#[test]
fn packets_of_low_delay_are_marked_above_the_step() {
    let burst = vec![(0, LOW_DELAY, 1500, true); 6];
    let outcome = through(DualPi2::default(), burst, 10 * MILLISECOND);
    assert_eq!(outcome.marked, [2, 3].map(|ms| ms * MILLISECOND));
    let classic = vec![(0, CLASSIC, 1500, true); 6];
    let outcome = through(DualPi2::default(), classic, 10 * MILLISECOND);
    assert_eq!(outcome.marked, []);
}

/// A stream that is not ECN-capable at 1.25 times the rate: a fifth must be dropped, and the
/// integral part of the controller holds the mean delay at the target of 15 ms. Drops are evenly
/// spaced: every fifth packet.
#[test]
fn the_classic_queue_finds_the_drop_probability_that_holds_its_target() {
    let end = 60 * SECOND;
    let packets = together(stream(CLASSIC, 800_000_000, false, end));
    let outcome = through(DualPi2::default(), packets, end);
    let (share, wait_ms) = dropped_and_wait(&outcome, CLASSIC);
    assert!((share - 0.2).abs() < 0.002, "{share}");
    assert!((wait_ms - 15.0).abs() < 0.5, "{wait_ms} ms");
    assert!(outcome.dropped.iter().all(|drop| drop.1 == Cause::Aqm));
}

/// A thin flow of low delay takes a tenth of the link, and the classic one offers all of it: a
/// tenth of its packets must be dropped. With p'^2 = 0.1 the coupling marks 2 p' = 0.632 of the
/// thin flow, which waits for the transmission in progress, 1 ms, and at most one more: its weight
/// is nine times the other's.
#[test]
fn marks_of_low_delay_are_coupled_to_the_square_root_of_classic_drops() {
    let end = 60 * SECOND;
    let thin = stream(LOW_DELAY, 10 * MILLISECOND, true, end)
        .map(|it| (it.0 + 300_000_000, it.1, it.2, it.3));
    let packets = together(stream(CLASSIC, MILLISECOND, false, end).chain(thin));
    let outcome = through(DualPi2::default(), packets, end);
    let (share, _) = dropped_and_wait(&outcome, CLASSIC);
    assert!((share - 0.1).abs() < 0.002, "{share}");
    let marked = outcome
        .marked
        .iter()
        .filter(|time| **time > 20 * SECOND)
        .count();
    let marked = marked as f64 / (40.0 * 100.0);
    assert!((marked - 2.0 * share.sqrt()).abs() < 0.02, "{marked}");
    let low = outcome.sent.iter().filter(|sent| sent.0.0 == LOW_DELAY);
    let longest = low
        .map(|(packet, start)| start - packet.1)
        .max()
        .expect("packets");
    assert!(longest <= 2 * MILLISECOND, "{longest} ps");
}

/// Both queues are full at once. The queue of low delay is 0.8 packets ahead, and a packet of it
/// takes 0.1 of that: nine, until the classic one has credit, which a packet of it spends.
#[test]
fn the_classic_queue_gets_a_tenth_of_the_link() {
    let both = [LOW_DELAY, CLASSIC]
        .map(|flow| vec![(0, flow, 1500, true); 100])
        .concat();
    let outcome = through(DualPi2::default(), both, 40 * MILLISECOND - 1);
    let classic = outcome.sent.iter().filter(|sent| sent.0.0 == CLASSIC);
    let times: Vec<Time> = classic.map(|sent| sent.1 / MILLISECOND).collect();
    assert_eq!(times, [9, 19, 29, 39]);
}

/// Flows that do not react to marks, at 1.5 times the rate: from a base probability of 1/k = 1/2
/// on, where all are marked, packets are dropped, by its square, whichever queue they are in. A
/// third must be dropped; the delay is that of the classic target.
#[test]
fn in_overload_packets_are_dropped_although_they_are_ecn_capable() {
    let end = 60 * SECOND;
    for flow in [CLASSIC, LOW_DELAY] {
        let packets = together(stream(flow, 2 * MILLISECOND / 3, true, end));
        let outcome = through(DualPi2::default(), packets, end);
        let (share, wait_ms) = dropped_and_wait(&outcome, flow);
        assert!((share - 1.0 / 3.0).abs() < 0.003, "flow {flow}: {share}");
        assert!((wait_ms - 15.0).abs() < 0.5, "flow {flow}: {wait_ms} ms");
        assert!(!outcome.marked.is_empty());
    }
}

/// Both queues together hold 10 packets.
#[test]
fn what_exceeds_the_limit_is_dropped() {
    let limited = DualPi2 {
        limit_packets: 10,
        ..DualPi2::default()
    };
    let burst = [LOW_DELAY, CLASSIC]
        .map(|flow| vec![(0, flow, 1500, true); 8])
        .concat();
    let outcome = through(limited, burst, 0);
    assert_eq!(outcome.dropped.len(), 16 - 10);
    assert!(outcome.dropped.iter().all(|drop| drop.1 == Cause::Overflow));
}
