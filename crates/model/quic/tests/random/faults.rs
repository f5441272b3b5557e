//! Faults of the library when paths are closed, opened and rebound: found by the random sequences,
//! and avoided where this is possible.

use anabranch_quic::Operation;

use super::case::{Case, Event, Link};

/// Two links of 4 Mbps and 20 ms without losses; user 1 has a path over each.
fn two_links(events: Vec<(f64, Event)>) -> Case {
    let link = Link {
        rate_mbps: 4.0,
        delay_ms: 20.0,
        loss: 0.0,
    };
    Case {
        links: vec![link; 2],
        users: vec![vec![vec![0], vec![1]]; 2],
        bytes: 4_000_000,
        events,
        algorithm: "lia",
        seed: 1,
    }
}

fn files_arrived(case: &Case) -> usize {
    case.run().transfers.len()
}

/// The library counts a path of which the receiver has seen nothing as open. Path 0 is over a dead
/// link and tried again and again; were path 1 closed then, the receiver would close the
/// connection, because it knows no other.
#[test]
fn the_last_path_that_the_receiver_knows_is_not_closed() {
    let close = Event::Path(1, 1, Operation::Close);
    let case = two_links(vec![
        (1.0, Event::Dies(0)),
        (3.2, close),
        (8.0, Event::Returns(0)),
    ]);
    assert_eq!(files_arrived(&case), 1);
}

/// Each path is closed for 1 s while the other works, ten times.
#[test]
fn paths_that_are_closed_in_turn_are_opened_again() {
    let mut events = Vec::new();
    for round in 0..20 {
        let (time_s, path) = (2.0 * f64::from(round) + 1.0, round as usize % 2);
        events.push((time_s, Event::Path(0, path, Operation::Close)));
        events.push((time_s + 1.0, Event::Path(0, path, Operation::Open)));
    }
    let mut case = two_links(events);
    case.algorithm = "reno";
    let record = case.run();
    let longest_s = case
        .stalls(&record)
        .into_iter()
        .map(|(_, after_s)| after_s)
        .fold(0.0, f64::max);
    assert!(longest_s < 0.3, "{longest_s} s");
    // User 1's file is over by then. Reordering keeps windows small: not all 4 Mbps are used.
    let samples = &record.path_samples;
    for path in 0..2 {
        let rows = (0..samples.len()).filter(|r| samples.flow[*r] == 0 && samples.path[*r] == path);
        let last = rows.filter(|r| (50.0..55.0).contains(&samples.time_s[*r]));
        let rates: Vec<f64> = last.map(|r| samples.goodput_mbps[r]).collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        assert!(mean > 1.0, "path {path}: {mean} Mbps at the end");
    }
}

/// The library's receiver sends no acknowledgements to a new address before the path is validated,
/// the sender cannot answer the challenge while its window is full, and after three PTOs validation
/// has failed for good. When this fails the library has been mended: say so in
/// docs/reference/quic.md, and rebind every path in the random sequences.
#[test]
fn a_path_that_is_rebound_while_its_link_is_down_never_recovers_alone() {
    let rebind = Event::Path(1, 0, Operation::Rebind);
    let mut case = two_links(vec![
        (1.0, Event::Dies(0)),
        (2.0, rebind),
        (4.0, Event::Returns(0)),
    ]);
    case.users[1].truncate(1);
    assert_eq!(files_arrived(&case), 0);
    case.users[1].push(vec![1]);
    assert_eq!(files_arrived(&case), 1, "another path helps");
    case.users[1].truncate(1);
    case.events = vec![(2.0, rebind)];
    assert_eq!(files_arrived(&case), 1, "so does a link that works");
}
