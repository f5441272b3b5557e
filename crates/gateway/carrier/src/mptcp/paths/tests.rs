use super::*;

fn subflow(local: [u8; 4], port: u16, segments_sent: u32) -> Subflow {
    Subflow {
        local: Some((local, port).into()),
        remote: Some(([10, 0, 9, 9], 443).into()),
        open: true,
        rtt_us: 20_000,
        bytes_sent: u64::from(segments_sent) * 1000,
        segments_sent,
        ..Subflow::default()
    }
}

#[test]
fn counters_of_a_path_include_its_earlier_subflows() {
    let mut row = Row::new("a".to_owned(), None);
    row.update([vec![subflow([10, 0, 0, 1], 1, 5)], vec![]], true);
    row.update([vec![subflow([10, 0, 0, 1], 1, 7)], vec![]], true);
    assert_eq!((row.state().sent_packets, row.state().deaths), (7, 0));
    row.update([vec![], vec![]], true);
    assert_eq!((row.condition, row.state().deaths), (Condition::Dead, 1));
    row.update([vec![subflow([10, 0, 0, 1], 2, 1)], vec![]], true);
    assert_eq!(row.condition, Condition::Up);
    // 7 + 1 segments of 1000 bytes and 40 of headers.
    assert_eq!(
        (row.state().sent_packets, row.state().sent_bytes),
        (8, 8 * 1040)
    );
}

#[test]
fn a_path_without_acknowledgements_is_dead() {
    let mut row = Row::new("a".to_owned(), None);
    let healthy = subflow([10, 0, 0, 1], 1, 5);
    row.update([vec![healthy], vec![]], true);
    row.update(
        [
            vec![Subflow {
                backoff: 2,
                ..healthy
            }],
            vec![],
        ],
        true,
    );
    assert_eq!((row.condition, row.deaths), (Condition::Dead, 1));
    row.update(
        [
            vec![Subflow {
                backoff: 3,
                ..healthy
            }],
            vec![],
        ],
        true,
    );
    assert_eq!(row.deaths, 1);
    row.update([vec![healthy], vec![]], true);
    assert_eq!(row.condition, Condition::Up);
}

#[test]
fn a_subflow_that_is_not_bound_yet_is_no_path() {
    let mut paths = Paths::far();
    let bound = subflow([10, 0, 9, 9], 443, 1);
    let local = subflow([0, 0, 0, 0], 0, 0);
    let remote = Subflow {
        remote: Some(([0, 0, 0, 0], 0).into()),
        ..bound
    };
    paths.take(
        [local, bound, remote]
            .map(|it| (Lane::Bulk, it))
            .into_iter(),
    );
    let states = paths.states();
    let names: Vec<&str> = states.iter().map(|state| &*state.name).collect();
    assert_eq!(names, ["10.0.9.9"]);
}

#[test]
fn each_line_of_a_path_that_opens_is_followed_by_one_of_its_end() {
    let mut row = Row::new("a".to_owned(), None);
    let healthy = subflow([10, 0, 0, 1], 1, 5);
    let dead = Subflow {
        backoff: 2,
        ..healthy
    };
    let mut lines = Vec::new();
    for seen in [healthy, healthy, dead, dead, healthy, dead] {
        lines.extend(row.update([vec![seen], vec![]], true));
    }
    let end = "path dead: nothing returns over it";
    assert_eq!(lines, ["path opened", end, "path works again", end]);
    // Plain TCP has another path.
    row.update([vec![healthy], vec![]], true);
    let off = row.update([vec![], vec![]], false);
    assert_eq!(off, Some("path closed: it is off"));
}

#[test]
fn far_learns_paths_in_the_order_in_which_they_open() {
    let mut paths = Paths::far();
    let from = |last: u8| Subflow {
        remote: Some(([10, 0, 0, last], 1).into()),
        ..subflow([10, 0, 9, 9], 443, 1)
    };
    assert_eq!([5, 3, 5].map(|last| paths.index(&from(last))), [0, 1, 0]);
    for last in 6..=99 {
        paths.index(&from(last));
    }
    assert_eq!(paths.rows.len(), MOST);
}
