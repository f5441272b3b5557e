//! DualPI2 without endpoints: the packets arrive at times given here, and marks stop none.

use anabranch_net::{Cause, DualPi2, MILLISECOND, Queue, QueuedLink, SECOND, Time};

use crate::aqm::{LOW_DELAY, Outcome, link, play};

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
