//! Tables that the recorder makes of samples and totals.

use anabranch_net::{Backlog, Counters, SECOND};
use anabranch_scenario::columns::{Column, TransferRow, Transfers};
use anabranch_scenario::recorder::{PathGauge, PathTotals, Recorder, Snapshot, UserGauge};
use anabranch_scenario::users::user_slots;
use anabranch_scenario::{Record, Scenario};

/// One user with two paths over one link, sampled every second with these windows from the start.
fn record(windows: &[[Option<f64>; 2]]) -> Record {
    let text = "algorithm = 'lia'\nmeasure.duration_s = 10\n\
        links.a = { rate_mbps = 10, delay_ms = 5 }\n\
        links.b = { rate_mbps = 10, delay_ms = 5 }\n\
        flows = [{ name = 'f', paths = [['a'], ['b']] }]\n";
    let scenario = match Scenario::parse(text.as_bytes(), "two.toml", &[]) {
        Ok(scenario) => scenario,
        Err(error) => panic!("{error}"),
    };
    let at = |second: usize| Snapshot {
        time: second as u64 * SECOND,
        users: vec![(0, 0)],
        paths: vec![PathTotals::default(); 2],
        links: vec![Counters::default(); 2],
    };
    let mut recorder = Recorder::new(at(0), user_slots(&scenario, 1));
    recorder.warm_up_ends(at(0));
    for (second, windows) in (1..).zip(windows) {
        let gauges = windows.map(|window| {
            let mut gauge = PathGauge::default();
            gauge.add_window(window);
            gauge
        });
        let backlogs = [Backlog::default(); 2];
        recorder.sample(at(second), &[UserGauge::default()], &gauges, &backlogs);
    }
    recorder.finish(at(10), &scenario)
}

/// The lab discards windows that no rule can have set. Counted as 0, they gave 10 and 4.
#[test]
fn the_mean_window_is_over_the_samples_that_are_valid() {
    let windows = [[Some(10.0), Some(12.0)], [None, None], [Some(20.0), None]];
    assert_eq!(record(&windows).paths.window_packets, [15.0, 12.0]);
}

#[test]
fn a_discarded_sample_has_no_window() {
    let samples = record(&[[Some(10.0), None]]).path_samples.window_packets;
    assert_eq!(samples[0], 10.0);
    assert!(samples[1].is_nan());
}

/// A user between two files has no connection: its window is 0 packets, not unknown.
#[test]
fn a_path_without_a_connection_has_a_window_of_0() {
    assert_eq!(PathGauge::default().window, Some(0.0));
}

/// A sum with an unknown part is unknown.
#[test]
fn one_invalid_window_discards_the_sample_of_its_path() {
    let mut gauge = PathGauge::default();
    for window in [Some(5.0), None, Some(7.0)] {
        gauge.add_window(window);
    }
    assert_eq!(gauge.window, None);
}

// The tables of a Result.

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
