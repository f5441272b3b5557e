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

/// The numbers of packets from a drop to the next, of a stream at 1.25 times the rate.
fn gaps(derandomize: bool) -> Vec<u32> {
    let pie = Pie {
        derandomize,
        ..Pie::default()
    };
    let mut pie = Link::new(link(Queue::Pie(pie)), 1);
    let fates = (0..100_000).map(|i| pie.offer(i * 800_000_000, 1500));
    let mut gaps = vec![0];
    for fate in fates.skip(25_000) {
        *gaps.last_mut().expect("a gap") += 1;
        if fate == Fate::Dropped(Cause::Aqm) {
            gaps.push(0);
        }
    }
    gaps[1..gaps.len() - 1].to_vec()
}

/// A fifth must be dropped. Of random drops some are adjacent and some far apart. Derandomized, the
/// next cannot be before the probability p has added up to 0.85, and then each has p: the mean
/// distance of 5 is 0.85/p + 1/p, so that p is 0.37, the least distance 3 (3 p > 0.85), and the
/// greatest 8.5/p = 23. p is regulated, so that it varies about this.
#[test]
fn derandomized_drops_are_neither_adjacent_nor_far_apart() {
    let mean = |gaps: &[u32]| f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
    let ends = |gaps: &[u32]| {
        (
            *gaps.iter().min().expect("one"),
            *gaps.iter().max().expect("one"),
        )
    };
    let (random, spaced) = (gaps(false), gaps(true));
    assert!((mean(&random) - 5.0).abs() < 0.1, "{}", mean(&random));
    assert!((mean(&spaced) - 5.0).abs() < 0.1, "{}", mean(&spaced));
    let (random, spaced) = (ends(&random), ends(&spaced));
    assert!(random.0 == 1 && random.1 > 30, "{random:?}");
    assert!((2..=3).contains(&spaced.0) && spaced.1 <= 26, "{spaced:?}");
}
