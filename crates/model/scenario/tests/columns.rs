//! The tables of a Result.

use anabranch_scenario::Record;
use anabranch_scenario::columns::{Column, TransferRow, Transfers};

#[test]
fn a_row_becomes_an_entry_of_each_column() {
    let mut transfers = Transfers::default();
    assert!(transfers.is_empty());
    transfers.push(TransferRow {
        flow: 1,
        user: 2,
        start_s: 3.5,
        bytes: 4,
        duration_s: 5.5,
    });
    transfers.push(TransferRow {
        flow: 6,
        user: 7,
        start_s: 8.5,
        bytes: 9,
        duration_s: 10.5,
    });
    assert_eq!(transfers.len(), 2);
    let expected = [
        ("flow", Column::U32(vec![1, 6])),
        ("user", Column::U32(vec![2, 7])),
        ("start_s", Column::F64(vec![3.5, 8.5])),
        ("bytes", Column::U64(vec![4, 9])),
        ("duration_s", Column::F64(vec![5.5, 10.5])),
    ];
    assert_eq!(transfers.columns(), expected);
}

/// The names that Python, the docs and the Parquet files rely on.
#[test]
fn the_columns_of_every_table() {
    let tables: Vec<String> = Record::default()
        .tables()
        .into_iter()
        .map(|(table, columns)| {
            let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
            format!("{table}: {}", names.join(" "))
        })
        .collect();
    let expected = [
        "flows: flow user start_s stop_s goodput_mbps delivered_bytes sent_packets lost_packets \
         marked_packets retransmitted_packets timeouts spurious_timeouts transfers_done",
        "paths: flow user path goodput_mbps delivered_bytes sent_packets lost_overflow lost_red \
         lost_random lost_down lost_aqm loss_probability loss_events marked_packets mark_events \
         retransmitted_packets timeouts spurious_timeouts window_packets rtt_ms one_way_delay_ms",
        "links: link rate_mbps throughput_mbps utilization arrived_packets dropped_overflow \
         dropped_red dropped_random dropped_down dropped_aqm marked_packets loss_probability queue_packets queue_ms",
        "transfers: flow user start_s bytes duration_s",
        "flow_samples: time_s flow user delivered_bytes goodput_mbps kappa buffer_packets",
        "path_samples: time_s flow user path window_packets rtt_ms one_way_delay_ms \
         in_flight_packets goodput_mbps lost_packets group",
        "link_samples: time_s link queue_packets queue_bytes throughput_mbps dropped_packets",
    ];
    assert_eq!(tables, expected);
}
