//! PIE without endpoints.

use anabranch_net::{Cause, Fate, Link, MILLISECOND, Pie, Queue, SECOND};

use crate::aqm::link;

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
