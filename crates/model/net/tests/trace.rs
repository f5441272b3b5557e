//! Traces: reading them and following them.

use anabranch_net::{Cause, Fate, Link, LinkConfig, MILLISECOND, Queue, Rate, Time, Trace};

fn follow(text: &str) -> LinkConfig {
    let trace = Trace::parse(text).expect("the trace is well formed");
    LinkConfig {
        rate: Rate::Trace(trace),
        ..LinkConfig::constant(1.0, 0)
    }
}

/// Offers packets at times in tenths of a ms and expects each to arrive at a time in ms.
fn check(config: LinkConfig, table: &[(u64, u32, Result<u64, Cause>)]) {
    let mut link = Link::new(config, 1);
    for &(now, bytes, expected) in table {
        let expected = match expected {
            Ok(at_ms) => Fate::Delivered {
                at: at_ms * MILLISECOND,
            },
            Err(cause) => Fate::Dropped(cause),
        };
        let fate = link.offer(now * MILLISECOND / 10, bytes);
        assert_eq!(fate, expected, "{bytes} bytes at {now} tenths of a ms");
    }
}

#[test]
fn packets_leave_at_the_opportunities() {
    // 1 3 3 6, and then 7 9 9 12, 13 15 15 18, 19 21 21 24, 25 27 27 30, ...
    check(
        follow("1\n3\n3\n6\n"),
        &[
            (0, 1500, Ok(1)),
            (0, 1000, Ok(3)),    // leaves 500 of the first 3
            (0, 1000, Ok(3)),    // 500 there, 500 of the second 3
            (5, 1000, Ok(3)),    // the rest of the second 3
            (20, 100, Ok(6)),    // both are used up; leaves 1400 of the 6
            (35, 1500, Ok(7)),   // 1400 there, 100 of the 7
            (70, 1500, Ok(9)),   // too late for the rest of the 7
            (200, 1500, Ok(21)), // the link was idle: what passed is gone
            (200, 4000, Ok(25)), // 1500 of the second 21, 1500 of the 24, 1000 of the 25
            (240, 500, Ok(25)),  // the rest of the 25
            (240, 100, Ok(27)),
        ],
    );
}

#[test]
fn opportunities_at_zero_repeat_at_the_period() {
    // 0 4, and then 4 8, 8 12, ...: two at each multiple of 4. The one at 0 is over at once.
    let table = [
        (0, Ok(4)),
        (0, Ok(4)),
        (0, Ok(8)),
        (0, Ok(8)),
        (0, Ok(12)),
        (120, Ok(16)),
    ];
    check(follow("0\n4\n"), &table.map(|(now, at)| (now, 1500, at)));
}

#[test]
fn every_packet_waits_for_its_opportunity() {
    let queue = Queue::DropTail {
        packets: Some(1),
        bytes: None,
    };
    check(
        LinkConfig {
            queue,
            ..follow("2\n")
        },
        &[
            (0, 2000, Ok(4)),                 // waits until the 2, and continues at the 4
            (10, 1500, Err(Cause::Overflow)), // one waits
            (20, 1000, Ok(4)),                // the first is in service
            (30, 1500, Err(Cause::Overflow)), // the second waits until the 4
            (40, 1500, Ok(6)),
        ],
    );
}

#[test]
fn opportunities_while_the_link_is_down_are_lost() {
    let down = vec![(4 * MILLISECOND, 6 * MILLISECOND)];
    check(
        LinkConfig {
            down,
            ..follow("1\n")
        },
        &[
            (0, 3000, Ok(2)),
            (15, 1500, Ok(3)),
            (15, 1500, Err(Cause::Down)), // at the 4 the link is down
            (25, 1500, Err(Cause::Down)),
            (35, 1500, Err(Cause::Down)),
            (50, 1500, Err(Cause::Down)),
            (60, 1500, Ok(7)),
        ],
    );
}

#[test]
fn the_mean_rate_is_that_of_a_period() {
    // 4 opportunities of 12000 bits in 6 ms.
    let trace = Trace::parse("1\n3\n3\n6\n").expect("the trace is well formed");
    assert_eq!(trace.period(), 6 * MILLISECOND);
    assert_eq!(trace.mean_mbps(), 8.0);
    assert_eq!(Rate::Trace(trace).mean_mbps(), 8.0);
}

#[test]
fn lines_may_end_in_any_way() {
    let unix = Trace::parse("1\n3\n");
    assert!(unix.is_ok());
    assert_eq!(Trace::parse("1\r\n3\r\n"), unix);
    assert_eq!(Trace::parse(" 1\n3 "), unix);
}

#[test]
fn errors_name_the_line_and_the_remedy() {
    let not_a_time = "expected a timestamp in ms, an integer from 0 to 4294967295, found";
    let table = [
        (
            "",
            "line 1: the trace is empty; write one timestamp in ms per line".to_owned(),
        ),
        (
            "1\n-2\n",
            format!(
                "line 2: {not_a_time} \"-2\"; write one per line, or let `anabranch trace convert` read the file"
            ),
        ),
        (
            "1\n2.5\n",
            format!(
                "line 2: {not_a_time} \"2.5\"; write one per line, or let `anabranch trace convert` read the file"
            ),
        ),
        (
            "1 2\n",
            format!(
                "line 1: {not_a_time} \"1 2\"; write one per line, or let `anabranch trace convert` read the file"
            ),
        ),
        (
            "1\n\n2\n",
            format!(
                "line 2: {not_a_time} \"\"; write one per line, or let `anabranch trace convert` read the file"
            ),
        ),
        (
            "4294967296",
            format!(
                "line 1: {not_a_time} \"4294967296\"; write one per line, or let `anabranch trace convert` read the file"
            ),
        ),
        (
            "1\n5\n4\n",
            "line 3: expected a timestamp of at least 5 ms, that of the line before, found 4; \
             sort the lines"
                .to_owned(),
        ),
        (
            "0\n0\n",
            "line 2: the last timestamp is the period of the trace and must be above 0 ms; \
             add a later one"
                .to_owned(),
        ),
    ];
    for (text, expected) in table {
        let error = Trace::parse(text).expect_err(text);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_backlogged_link_uses_every_opportunity() {
    let times_ms = [0, 0, 2, 2, 2, 7, 11, 11];
    let text: String = times_ms.map(|time| format!("{time}\n")).concat();
    let mut link = Link::new(follow(&text), 1);
    let due = (0..100)
        .flat_map(|round| times_ms.map(|time| round * 11 + time))
        .skip(2);
    for at_ms in due {
        let expected: Time = at_ms * MILLISECOND;
        assert_eq!(link.offer(0, 1500), Fate::Delivered { at: expected });
    }
}

/// 1 3 3 6, then 7 9 9 12: four opportunities of 12 kbit in a period of 6 ms are 8 Mbit/s.
#[test]
fn the_rate_of_a_window_counts_the_opportunities_after_its_begin_and_up_to_its_end() {
    let trace = Trace::parse("1\n3\n3\n6\n").unwrap();
    let mbps = |from: Time, to: Time| trace.mbps_between(from * MILLISECOND, to * MILLISECOND);
    assert_eq!(mbps(0, 6), trace.mean_mbps());
    assert_eq!(mbps(0, 3), 12.0); // 1 3 3: 36 kbit in 3 ms
    assert_eq!(mbps(3, 5), 0.0);
    assert_eq!(mbps(5, 9), 12.0); // 6 7 9 9: 48 kbit in 4 ms
    assert_eq!(mbps(6, 6 + 600), 8.0);
}

/// The last opportunity of a period and a first one at 0 ms of the next are at the same time.
#[test]
fn an_opportunity_at_0_comes_again_with_the_last_one() {
    let trace = Trace::parse("0\n2\n").unwrap();
    let mbps = |from: Time, to: Time| trace.mbps_between(from * MILLISECOND, to * MILLISECOND);
    assert_eq!(mbps(1, 2), 24.0); // 2, and 0 of the second period
    assert_eq!(mbps(2, 4), 12.0);
    assert_eq!(mbps(0, 2), 18.0); // 0 at the start, 2 and 0: 36 kbit in 2 ms
}
