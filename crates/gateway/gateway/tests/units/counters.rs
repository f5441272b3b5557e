//! The table of counters.

use anabranch_gateway::counters::Counters;

#[test]
fn the_table_has_every_counter_once_and_metrics_in_succession() {
    let counters = Counters::default();
    counters.refused_limit.add(3);
    let held = counters.active_connections.hold();
    let table = counters.table();
    let row = |name, label| {
        let mut rows = table
            .iter()
            .filter(|row| (row.name, row.label) == (name, label));
        let row = rows.next().expect("a row");
        assert_eq!(rows.next(), None);
        row.value
    };
    assert_eq!(row("refused", Some(("reason", "limit"))), 3);
    assert_eq!(row("connections_active", None), 1);
    drop(held);
    assert_eq!(counters.active_connections.value(), 0);
    // 8 bytes per counter: none is missing from the table.
    assert_eq!(table.len() * 8, size_of::<Counters>());
    let mut names: Vec<_> = table.iter().map(|row| row.name).collect();
    names.dedup();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
