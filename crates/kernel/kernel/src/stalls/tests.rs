use super::*;

/// A path that has its window in flight.
fn path(k: u8, rate_mbps: f64, rtt_ms: u32) -> Path {
    let window = (rate_mbps * 1e6 / 8.0 * f64::from(rtt_ms) * 1e-3 / 1250.0) as u32;
    Path {
        token: Some(7),
        id: k,
        local: format!("10.77.{k}.1:4000").parse().unwrap(),
        remote: format!("10.77.{k}.2:5001").parse().unwrap(),
        usable: true,
        srtt_us: rtt_ms * 1000,
        min_rtt_us: rtt_ms * 1000,
        window,
        in_flight: window,
        mss: 1250,
        unsent: 0,
        send_window: 3_000_000,
        receiver_rtt_us: 0,
        max_pacing_rate: u64::MAX,
        bytes_acked: 1,
        bytes_received: 0,
        send_buffer: 1 << 20,
    }
}

fn idle(path: Path) -> Path {
    Path {
        in_flight: 0,
        ..path
    }
}

fn moment(outstanding: u64, queued: u32, paths: &[Path]) -> Moment {
    let whole = Whole {
        token: 7,
        outstanding,
        send_buffer: 4 << 20,
        queued,
    };
    Moment {
        whole,
        paths: paths.to_vec(),
    }
}

const LARGEST: Option<u64> = Some(4 << 20);

fn ids(moments: &[Moment]) -> Vec<&'static str> {
    let causes = causes_of(moments, LARGEST);
    causes.iter().map(|cause| cause.id).collect()
}

/// 100 + 100 Mbps at 20 and 200 ms: 200 Mbps x 0.2 s = 40 Mbit = 5 MB, twice that is 10 MB.
#[test]
fn the_slow_path_and_the_buffer_that_is_too_small_are_named_with_the_size_that_is_enough() {
    let mut paths = [idle(path(0, 100.0, 20)), path(1, 100.0, 200)];
    paths[1].send_window = 2_000_000;
    paths[0].send_window = 2_000_000;
    let moments: Vec<Moment> = (0..8).map(|_| moment(2_900_000, 0, &paths)).collect();
    let causes = causes_of(&moments, LARGEST);
    let [slow, window] = &causes[..] else {
        panic!("{causes:?}")
    };
    assert_eq!(slow.id, "slow-path-blocks");
    assert_eq!(
        slow.sentence,
        "held up by 10.77.1.1:4000 -> 10.77.1.2:5001 with an RTT of 200 ms; 10.77.0.1:4000 -> \
         10.77.0.2:5001 with 20 ms is idle meanwhile (in 8 of 8 samples)"
    );
    let remedy = "ip mptcp endpoint change id 1 backup, or larger buffers";
    assert_eq!(slow.remedy, remedy);
    assert_eq!(window.id, "receive-buffer");
    assert_eq!(
        window.sentence,
        "the receive window of 2.0 MB is full and 10.77.0.1:4000 -> 10.77.0.2:5001 idle in 8 of 8 \
         samples: 10.0 MB would be enough for 200 Mbps over 200 ms"
    );
    assert!(window.remedy.contains("tcp_rmem=\"4096 131072 10000000\""));
}

#[test]
fn a_full_send_buffer_of_the_largest_size_is_named_and_a_smaller_one_is_not() {
    let full = 3 << 20; // of 4 MiB: more than two thirds
    let fast = idle(path(0, 100.0, 20));
    let mut slow = path(1, 100.0, 200);
    let moments = |slow| {
        [
            moment(1000, full, &[fast, slow]),
            moment(1000, full, &[fast, slow]),
        ]
    };
    assert_eq!(ids(&moments(slow)), ["slow-path-blocks"]);
    slow.send_buffer = 4 << 20;
    assert_eq!(ids(&moments(slow)), ["slow-path-blocks", "send-buffer"]);
    // A program that does not write more is not held up.
    let app_limited = [
        moment(1000, 1 << 20, &[fast, slow]),
        moment(1000, 1 << 20, &[fast, slow]),
    ];
    assert!(ids(&app_limited).is_empty());
}

#[test]
fn a_window_that_is_large_enough_is_not_called_too_small() {
    // 60 + 8 Mbps over 90 ms: 2 x 68 Mbps x 0.09 s = 1.5 MB, of a buffer of 6 MB.
    let paths = [idle(path(0, 60.0, 16)), path(1, 8.0, 90)];
    let moments = [moment(2_900_000, 0, &paths), moment(2_900_000, 0, &paths)];
    assert_eq!(ids(&moments), ["slow-path-blocks"]);
}

/// 100 Mbps beside 0.05 Mbps: 22 packets of 1250 B that wait are 27 500 B, or 4.4 s, which with an
/// RTT of 0.4 s are 4.8 s: 2 x 100.05 Mbps x 4.8 s = 120 MB.
#[test]
fn data_that_waits_at_the_slow_path_is_part_of_its_delay() {
    let mut slow = path(1, 0.05, 400);
    assert_eq!(slow.window, 2, "0.05 Mbps x 0.4 s = 2.5 kB");
    slow.unsent = 22 * 1250;
    let paths = [idle(path(0, 100.0, 10)), slow];
    let moments = [moment(2_900_000, 0, &paths), moment(2_900_000, 0, &paths)];
    let causes = causes_of(&moments, LARGEST);
    assert!(
        causes[1].sentence.contains(": 120.1 MB would be enough"),
        "{causes:?}"
    );
}

#[test]
fn what_is_not_known_is_not_said() {
    let (fast, slow) = (path(0, 100.0, 20), path(1, 100.0, 200));
    let full = 2_900_000;
    for (why, paths, outstanding) in [
        ("both send", [fast, slow], full),
        ("the window has room", [idle(fast), slow], 1_000_000),
        ("nothing is in flight", [idle(fast), idle(slow)], full),
        (
            "a backup is idle by choice",
            [
                Path {
                    usable: false,
                    ..idle(fast)
                },
                slow,
            ],
            full,
        ),
        (
            "unsent data waits",
            [
                Path {
                    unsent: 1250,
                    ..idle(fast)
                },
                slow,
            ],
            full,
        ),
    ] {
        let moments = [
            moment(outstanding, 0, &paths),
            moment(outstanding, 0, &paths),
        ];
        assert_eq!(ids(&moments), [""; 0], "{why}");
    }
    let once = [
        moment(full, 0, &[idle(fast), slow]),
        moment(full, 0, &[fast, slow]),
    ];
    assert_eq!(
        ids(&once),
        [""; 0],
        "one sample may be a moment between two ACKs"
    );
}

#[test]
fn a_path_without_a_pacing_rate_is_held_back_and_holds_nobody_up() {
    let mut slow = path(1, 100.0, 200);
    slow.max_pacing_rate = 0;
    let moments = [
        moment(2_900_000, 0, &[path(0, 100.0, 20), slow]),
        moment(2_900_000, 0, &[path(0, 100.0, 20), slow]),
        moment(2_900_000, 0, &[path(0, 100.0, 20), path(1, 100.0, 200)]),
    ];
    let causes = causes_of(&moments, LARGEST);
    let [held] = &causes[..] else {
        panic!("{causes:?}")
    };
    assert_eq!(
        (held.id, &*held.sentence),
        (
            "held-back",
            "10.77.1.1:4000 -> 10.77.1.2:5001 is held back: its data would be late (in 2 of 3 \
             samples)"
        )
    );
}

/// The sender's rates count by window and RTT; the receiver's by what arrived in 0.35 s.
#[test]
fn the_demand_is_that_of_the_connection_with_the_largest_product() {
    let sample = |paths: [Path; 2], outstanding| Sample {
        wholes: vec![moment(outstanding, 0, &[]).whole],
        paths: paths.to_vec(),
    };
    let sending = sample([path(0, 100.0, 20), path(1, 100.0, 200)], 1000);
    let demand = demand_of(&vec![sending; SAMPLES]);
    assert_eq!((demand.connections, demand.buffer), (1, 10_000_000));

    let receiver = |bytes| Path {
        bytes_received: bytes,
        receiver_rtt_us: 200_000,
        ..path(1, 0.0, 1)
    };
    // 3.5 MB in 0.35 s are 10 MB/s: 2 x 10 MB/s x 0.2 s = 4 MB.
    let mut receiving = vec![sample([path(0, 0.0, 20), receiver(0)], 0); SAMPLES];
    receiving[SAMPLES - 1] = sample([path(0, 0.0, 20), receiver(3_500_000)], 0);
    let demand = demand_of(&receiving);
    assert!(
        (3_999_999..=4_000_001).contains(&demand.buffer),
        "{demand:?}"
    );
    assert_eq!((demand.sent, demand.received), (2, 3_500_000));
    assert_eq!(demand_of(&[]), Demand::default());
}
