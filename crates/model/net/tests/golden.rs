//! Tables of offers and fates, checked by hand.

use anabranch_net::{Backlog, Cause, Fate, Link, LinkConfig, Loss, MILLISECOND, Queue, Red, Time};

use Cause::{Down, Overflow};

/// 12 Mbps: 1500 bytes take exactly 1 ms.
const ONE_PACKET_PER_MS: f64 = 12e6;

/// Offers packets at times in ms and expects each to arrive at a time in ms, or to be dropped.
fn check(config: LinkConfig, table: &[(f64, u32, Result<f64, Cause>)]) {
    let mut link = Link::new(config, 1);
    for &(now_ms, bytes, expected) in table {
        let expected = match expected {
            Ok(at_ms) => Fate::Delivered { at: ms(at_ms) },
            Err(cause) => Fate::Dropped(cause),
        };
        assert_eq!(
            link.offer(ms(now_ms), bytes),
            expected,
            "{bytes} bytes at {now_ms} ms"
        );
    }
}

fn ms(time_ms: f64) -> Time {
    (time_ms * MILLISECOND as f64) as Time
}

fn drop_tail(packets: Option<u32>, bytes: Option<u64>) -> LinkConfig {
    let queue = Queue::DropTail { packets, bytes };
    LinkConfig {
        queue,
        ..LinkConfig::constant(ONE_PACKET_PER_MS, 10 * MILLISECOND)
    }
}

#[test]
fn packets_are_served_one_after_the_other() {
    check(
        drop_tail(None, None),
        &[
            (0.0, 1500, Ok(11.0)), // 1 ms of transmission, 10 ms of travel
            (0.0, 1500, Ok(12.0)), // starts at 1 ms
            (0.5, 750, Ok(12.5)),  // starts at 2 ms, takes half as long
            (2.5, 1500, Ok(13.5)), // the link is free just then
            (9.0, 1500, Ok(20.0)), // the link was idle
        ],
    );
}

#[test]
fn ten_mbps_and_1500_bytes_are_1_2_ms_to_the_picosecond() {
    let mut link = Link::new(LinkConfig::constant(10e6, 0), 1);
    for packet in 1..=1000 {
        assert_eq!(
            link.offer(0, 1500),
            Fate::Delivered {
                at: packet * 1_200_000_000
            }
        );
    }
}

#[test]
fn a_rate_that_does_not_divide_does_not_drift() {
    // 7 Mbps and 1500 bytes: 12 / 7 ms per packet, so packet 7 n is due at 12 n ms exactly, and
    // those between at that, rounded down to a picosecond.
    let mut link = Link::new(LinkConfig::constant(7e6, 0), 1);
    for packet in 1..=1_000_000 {
        let at = packet * 12 * MILLISECOND / 7;
        assert_eq!(link.offer(0, 1500), Fate::Delivered { at });
    }
}

#[test]
fn the_packet_in_service_does_not_wait() {
    check(
        drop_tail(Some(2), None),
        &[
            (0.0, 1500, Ok(11.0)),      // in service
            (0.0, 1500, Ok(12.0)),      // waits, first
            (0.0, 1500, Ok(13.0)),      // waits, second
            (0.0, 1500, Err(Overflow)), // two wait
            (0.9, 1500, Err(Overflow)), // still
            (1.0, 1500, Ok(14.0)),      // the second is in service
            (1.0, 1500, Err(Overflow)),
        ],
    );
}

#[test]
fn a_limit_in_bytes_counts_the_waiting_bytes() {
    check(
        drop_tail(None, Some(1800)),
        &[
            (0.0, 1500, Ok(11.0)),     // in service
            (0.0, 1500, Ok(12.0)),     // 1500 wait
            (0.0, 750, Err(Overflow)), // 2250 would
            (0.0, 300, Ok(12.2)),      // 1800 wait, just as many as may
            (0.0, 300, Err(Overflow)), // 2100 would
            (1.0, 1500, Ok(13.2)),     // 300 waited, 1800 do
        ],
    );
}

#[test]
fn a_link_without_a_queue_serves_what_need_not_wait() {
    check(
        drop_tail(Some(0), None),
        &[
            (0.0, 1500, Ok(11.0)),
            (0.5, 1500, Err(Overflow)),
            (1.0, 1500, Ok(12.0)),
        ],
    );
}

#[test]
fn the_backlog_is_what_waits() {
    let mut link = Link::new(drop_tail(None, None), 1);
    for bytes in [1500, 1500, 750] {
        link.offer(0, bytes);
    }
    let backlogs = [0.0, 0.9, 1.0, 1.9, 2.0].map(|time_ms| link.queue(ms(time_ms)));
    let two = Backlog {
        packets: 2,
        bytes: 2250,
    };
    let one = Backlog {
        packets: 1,
        bytes: 750,
    };
    assert_eq!(backlogs, [two, two, one, one, Backlog::default()]);
}

#[test]
fn what_is_not_transmitted_when_the_link_goes_down_is_lost() {
    let down = vec![(ms(3.0), ms(5.0)), (ms(5.5), ms(5.6))];
    check(
        LinkConfig {
            down,
            ..drop_tail(Some(1), None)
        },
        &[
            (1.0, 1500, Ok(12.0)),      // transmitted at 2 ms, still on its way at 3 ms
            (1.0, 1500, Err(Down)),     // would be transmitted just when the link goes down
            (1.0, 1350, Ok(12.9)),      // the lost one left no gap and took up no room
            (1.0, 1500, Err(Overflow)), // though others do
            (2.9, 1500, Err(Down)),     // caught in transmission
            (3.0, 1500, Err(Down)),     // arrives at a dead link
            (4.9, 150, Err(Down)),
            (5.0, 150, Ok(15.1)),   // alive again, and idle
            (5.0, 1500, Err(Down)), // would end at 6.1 ms, behind the second interval
            (5.6, 1500, Ok(16.6)),
        ],
    );
}

#[test]
fn counters_tell_packets_bytes_and_waits() {
    let down = vec![(ms(3.0), ms(4.0))];
    let mut link = Link::new(
        LinkConfig {
            down,
            ..drop_tail(Some(1), None)
        },
        1,
    );
    link.offer(0, 1500); // does not wait
    link.offer(0, 750); // waits for 1 ms
    link.offer(0, 600); // overflow
    link.offer(ms(1.4), 500); // waits for 0.1 ms
    link.offer(ms(3.5), 400); // down
    let counters = link.counters(ms(3.5));
    let tallies = [counters.arrived, counters.accepted]
        .into_iter()
        .chain([Overflow, Cause::Red, Cause::Random, Down].map(|cause| counters.dropped(cause)))
        .map(|tally| (tally.packets, tally.bytes));
    let expected = [(5, 3750), (3, 2750), (1, 600), (0, 0), (0, 0), (1, 400)];
    assert!(tallies.eq(expected), "{counters:?}");
    assert_eq!(counters.waited_ps, 1_100_000_000);
}

#[test]
fn red_scales_with_the_rate() {
    // OLIA draft, Sec. 3: 25, 50 and 100 packets at 10 Mbps.
    let table = [
        (10.0, [25.0, 50.0, 100.0], 100),
        (27.0, [67.5, 135.0, 270.0], 270),
        (30.0, [75.0, 150.0, 300.0], 300),
        (36.0, [90.0, 180.0, 360.0], 360),
    ];
    for (rate_mbps, thresholds, limit_packets) in table {
        let red = Red::scaled(rate_mbps);
        assert_eq!(
            [red.min_packets, red.mid_packets, red.max_packets],
            thresholds
        );
        assert_eq!(red.limit_packets, limit_packets);
    }
}

#[test]
fn red_is_linear_in_three_pieces() {
    let red = Red::scaled(10.0);
    // From 25 to 50: 0.1 / 25 = 0.004 per packet. From 50 to 100: 0.9 / 50 = 0.018 per packet.
    let table = [
        (0.0, 0.0),
        (25.0, 0.0),
        (30.0, 0.02),
        (50.0, 0.1),
        (60.0, 0.28),
        (99.0, 0.982),
        (100.0, 1.0),
        (200.0, 1.0),
    ];
    for (queue, expected) in table {
        let probability = red.drop_probability(queue);
        assert!(
            (probability - expected).abs() < 1e-12,
            "{probability} at {queue}"
        );
    }
}

/// RED that drops if and only if the average queue exceeds a threshold.
fn step_red(threshold: f64, weight: f64) -> LinkConfig {
    let red = Red {
        min_packets: threshold,
        mid_packets: threshold,
        max_packets: threshold,
        mid_probability: 1.0,
        average_weight: Some(weight),
        limit_packets: 4,
        ecn: false,
        uniform: false,
    };
    LinkConfig {
        queue: Queue::Red(red),
        ..LinkConfig::constant(ONE_PACKET_PER_MS, 0)
    }
}

#[test]
fn red_averages_over_arrivals() {
    // Weight 1/2: the average is the mean of what it was and the packets that wait.
    check(
        step_red(2.0, 0.5),
        &[
            (0.0, 1500, Ok(1.0)),         // 0 wait: 0
            (0.0, 1500, Ok(2.0)),         // 0 wait: 0
            (0.0, 1500, Ok(3.0)),         // 1 waits: 0.5
            (0.0, 1500, Ok(4.0)),         // 2 wait: 1.25
            (0.0, 1500, Err(Cause::Red)), // 3 wait: 2.125
            (1.0, 1500, Err(Cause::Red)), // 2 wait: 2.0625
            (2.0, 1500, Ok(5.0)),         // 1 waits: 1.53
        ],
    );
}

#[test]
fn reds_hard_limit_counts_what_waits_whatever_the_average() {
    // Weight 1/100: with up to 4 waiting the average stays below 0.2.
    let fates = [Ok(1.0), Ok(2.0), Ok(3.0), Ok(4.0), Ok(5.0), Err(Overflow)];
    check(step_red(2.0, 0.01), &fates.map(|fate| (0.0, 1500, fate)));
}

#[test]
fn reds_average_decays_while_the_link_is_idle() {
    // Weight 1/4, and a packet takes 1 ms: the average falls to 3/4 with each idle ms, and once
    // more with each arrival that sees an empty queue. Two packets wait until it has come to 2.
    let mut table = vec![
        (0.0, 1500, Ok(1.0)),
        (0.0, 1500, Ok(2.0)),
        (0.0, 1500, Ok(3.0)),
    ];
    table.extend([(0.0, 1500, Err(Cause::Red)); 60]);
    table.extend([
        (3.0, 1500, Err(Cause::Red)), // just idle: 2 * 3/4 = 1.5
        (4.0, 1500, Err(Cause::Red)), // idle for 1 ms: 1.5 * (3/4)^2 = 0.844
        (4.1, 1500, Err(Cause::Red)), // for 0.1 ms more: 0.844 * (3/4)^1.1 = 0.615
        (4.6, 1500, Ok(5.6)),         // for 0.5 ms more: 0.615 * (3/4)^1.5 = 0.399
    ]);
    check(step_red(0.5, 0.25), &table);
}

#[test]
fn the_generator_is_xoshiro256_plus_plus() {
    // x is a loss: the upper 53 bits of the next number, over 2^53, are below 1/2. The generator's
    // state is the first four numbers of SplitMix64 from the seed. Derived with Python's integers.
    let table = [
        (1, "..x.x...xx.xxxxx.x..x.xxx.x........xx..."),
        (2, "...xx.x.x......x.xxx....xxxxx...xx..x..x"),
    ];
    for (seed, expected) in table {
        let loss = Loss::Bernoulli { probability: 0.5 };
        let mut link = Link::new(
            LinkConfig {
                loss,
                ..drop_tail(None, None)
            },
            seed,
        );
        let fates: String = (0..40).map(|_| letter(link.offer(0, 1500))).collect();
        assert_eq!(fates, expected, "seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bits_on_every_machine() {
    // Pinned, not derived: bursts of 8 packets and pauses through everything that is random or
    // computed in floating point.
    let red = Red {
        average_weight: Some(0.1),
        limit_packets: 6,
        ecn: false,
        ..Red::scaled(0.4) // 1, 2 and 4 packets
    };
    let loss = Loss::GilbertElliott {
        good_to_bad: 0.1,
        bad_to_good: 0.3,
        loss_good: 0.0,
        loss_bad: 1.0,
    };
    let config = LinkConfig {
        queue: Queue::Red(red),
        loss,
        ..drop_tail(None, None)
    };
    let mut link = Link::new(config, 1);
    let burst = |start: u64| {
        (0..8)
            .map(|_| letter(link.offer(ms(start as f64 * 9.3), 1500)))
            .collect::<String>()
    };
    let fates: Vec<String> = (0..6).map(burst).collect();
    assert_eq!(
        fates,
        [
            ".......o", ".x.....o", "......r.", "....xrx.", "..xxxxxr", ".......r"
        ]
    );
}

fn letter(fate: Fate) -> char {
    match fate {
        Fate::Delivered { .. } => '.',
        Fate::Dropped(Overflow) => 'o',
        Fate::Dropped(Cause::Red) => 'r',
        Fate::Dropped(Cause::Random) => 'x',
        Fate::Dropped(Down) => 'd',
        Fate::Dropped(Cause::Aqm) => 'a',
    }
}
