//! The program's quantities, derived by hand.

use anabranch_control::Algorithm;
use anabranch_scenario::{Profile, Tcp as Keys};

use super::*;
use crate::connection::program::{BURST_UNIT, LITTLE};
use crate::connection::subflow::Route;

const MS: Time = SECOND / 1000;
/// Linux' endpoints with a receive window that limits nothing.
fn tcp() -> Tcp {
    let mut tcp = Tcp::new(&Keys::of(Profile::Linux));
    tcp.receive_packets = 1 << 20;
    tcp
}

fn around<'a>(paths: &'a [Subflow], tcp: &'a Tcp, now: Time) -> Around<'a> {
    Around { paths, tcp, now }
}

/// A path with this RTT by its handshake, in slow start with this window.
fn path(tcp: &Tcp, rtt_s: f64, window: u32) -> Subflow {
    let route = Route {
        propagation_s: rtt_s,
        ..Route::default()
    };
    Subflow::new(route, tcp, window, 0)
}

/// A controller whose paths have these windows and thresholds.
fn controller(windows: &[(f64, f64)]) -> AnyController {
    let lia = Algorithm::parse("lia").expect("a rule");
    let mut controller = lia.controller(0, windows[0].0);
    for (r, &(_, threshold)) in windows.iter().enumerate() {
        controller.add_path();
        controller.set_ssthresh(r, threshold);
    }
    controller
}

fn at(window: u32, threshold: u64, is_own: bool) -> Arrival {
    Arrival {
        window,
        threshold,
        unsent: 0,
        is_own,
        recovering: false,
    }
}

/// 22 packets with an RTT of 200 ms. In slow start from 10: 10, then 12 of 20, half a round trip,
/// one, and 12 / 20 in eighths, 4: (4 + 8 + 4) / 8. In congestion avoidance with 8 over another
/// path: (4 + 8 * 22 / 8) / 8; over the own one with a quarter, 2: (4 + 8 * 22 / 2) / 8.
#[test]
fn data_arrives_half_a_round_trip_after_the_windows_it_takes() {
    let tcp = tcp();
    let path = path(&tcp, 0.2, 10);
    let program = Program::default();
    let ms = |at: Arrival| program.arrival_us(&path, &at) as f64 / 1e3;
    assert_eq!(ms(at(10, u64::MAX, true)), 200.0 * 16.0 / 8.0);
    assert_eq!(ms(at(8, 8, false)), 200.0 * 26.0 / 8.0);
    assert_eq!(ms(at(8, 8, true)), 200.0 * 36.0 / 8.0);
    let recovering = Arrival {
        unsent: 2,
        recovering: true,
        ..at(16, 8, true)
    };
    assert_eq!(ms(recovering), 200.0 * 38.0 / 8.0);
    // A held path that delivered 10 packets in 2.4 s needs 5.28 s for 22.
    let held = Program {
        held_since: Some(0),
        rate: Some((10, 2_400_000)),
        ..Program::default()
    };
    assert_eq!(held.arrival_us(&path, &at(10, u64::MAX, true)), 5_280_000);
}

/// 400 units, of which little is left: the mean of 0 and 400. Then 100 with much left; then 20
/// more with little: 120, and a mean of 160. The present burst counts if it is longer.
#[test]
fn a_burst_ends_where_little_is_left() {
    let mut program = Program::default();
    program.note_burst(400, LITTLE - 1, 1 << 20);
    assert_eq!(program.burst_bytes(400), 200 * BURST_UNIT);
    program.note_burst(500, LITTLE, 1 << 20);
    assert_eq!(program.burst_bytes(800), 400 * BURST_UNIT);
    program.note_burst(520, 0, 1 << 20);
    assert_eq!(program.burst_bytes(521), 160 * BURST_UNIT);
    // A quarter of a small buffer is little.
    program.note_burst(600, 5000, 20_000);
    assert_eq!(program.mean_burst, 160);
}

/// A scheduler whose paths have begun after the connection has written this much, bytes.
fn begun(
    tcp: &Tcp,
    paths: &[Subflow],
    controller: &mut AnyController,
    bytes: u64,
) -> LinuxScheduler {
    let mut scheduler = LinuxScheduler::new(true);
    scheduler.begin_programs(&around(&paths[..1], tcp, 0), controller, 0);
    scheduler.write_at_once(paths, bytes / tcp.payload());
    scheduler.begin_programs(&around(paths, tcp, 0), controller, 0);
    scheduler
}

/// The fast path sends 100 packets of 1448 bytes in 20 ms, 7.24 MB/s, and its next data arrives
/// after 20 (4 + 8 * 22 / 100) / 8 = 12.5 ms (in eighths: 5); the slow path's, in slow start with
/// 10, after 2 * 200 ms. So 387.5 ms are 2.8 MB: an eighth of a burst of 22.44 MB. The slow path is
/// held below, and not above, where half of the send buffer of 4 MB would be less: it is 6 MB.
#[test]
fn a_path_is_held_if_the_others_send_an_eighth_of_a_burst_before_its_data_arrives() {
    let mut tcp = tcp();
    tcp.keys.wmem_max_bytes = anabranch_scenario::Count::try_from(6e6).expect("a count");
    let paths = [path(&tcp, 0.02, 100), path(&tcp, 0.2, 10)];
    let held = |bytes: u64| {
        let mut controller = controller(&[(100.0, f64::INFINITY), (10.0, f64::INFINITY)]);
        begun(&tcp, &paths, &mut controller, bytes).programs[1].is_held()
    };
    assert!(held(22_400_000));
    assert!(!held(22_500_000));
    tcp.keys.wmem_max_bytes = anabranch_scenario::Count::try_from(4e6).expect("a count");
    let mut controller = controller(&[(100.0, f64::INFINITY), (10.0, f64::INFINITY)]);
    assert!(begun(&tcp, &paths, &mut controller, 1 << 30).programs[1].is_held());
}

/// As above, held at a burst of 22.4 MB. The threshold of release is 3/4 of it in slow start, a
/// burst of 29.9 MB, once the path has delivered data; without, 64 times 387.5 ms later, 24.8 s.
#[test]
fn a_held_path_is_released_late_or_after_it_has_delivered_data() {
    let mut tcp = tcp();
    tcp.keys.wmem_max_bytes = anabranch_scenario::Count::try_from(16e6).expect("a count");
    let paths = [path(&tcp, 0.02, 100), path(&tcp, 0.2, 10)];
    let held_after = |bytes: u64, rate: Option<(u64, u64)>, now: Time| {
        let mut controller = controller(&[(100.0, f64::INFINITY), (10.0, f64::INFINITY)]);
        let mut scheduler = begun(&tcp, &paths, &mut controller, 22_400_000);
        assert!(scheduler.programs[1].is_held());
        scheduler.programs[1].rate = rate;
        scheduler.write_at_once(&paths, bytes / tcp.payload());
        let before = (paths[1].window, false);
        scheduler.decide(&around(&paths, &tcp, now), &mut controller, 1, before);
        let program = &scheduler.programs[1];
        assert_eq!(program.unsent, 2);
        assert_eq!(program.pacing_rate > 0.0, !program.is_held());
        program.is_held()
    };
    let delivered = Some((10, 10_000));
    assert!(held_after(29_800_000, delivered, SECOND));
    assert!(!held_after(30_000_000, delivered, SECOND));
    assert!(held_after(30_000_000, None, 24_700 * MS));
    assert!(!held_after(30_000_000, None, 24_900 * MS));
}

/// A path without data is the first choice, and its rate is then that of its pacing, 0: it gets one
/// fragment after it is held, and no other.
#[test]
fn a_held_path_gets_one_more_fragment() {
    let tcp = tcp();
    let mut paths = [path(&tcp, 0.02, 100), path(&tcp, 0.2, 10)];
    let mut controller = controller(&[(100.0, f64::INFINITY), (10.0, f64::INFINITY)]);
    let mut scheduler = begun(&tcp, &paths, &mut controller, 1 << 30);
    assert!(scheduler.programs[1].is_held());
    scheduler.set_rate(1, 50.0);
    for _ in 0..100 {
        paths[0].sender.send_new();
    }
    let mut chosen = Vec::new();
    for _ in 0..3 {
        let r = scheduler
            .soonest(&paths, &controller, SECOND)
            .expect("a path");
        scheduler.average_rate(&paths, &tcp, r, 1e9);
        chosen.push(r);
    }
    assert_eq!(chosen, [1, 0, 0]);
}
