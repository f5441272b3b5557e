//! Controllers of paths under schedules that shuttle chooses. Every method of a controller takes
//! the lock of the state that they share once, so it is enough that others may run between calls.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anabranch_control::Algorithm;
use anabranch_quic::controller::{Clock, PathController, SharedController};
use noq_proto::congestion::{Controller, ControllerFactory};
use shuttle::rand::Rng;
use shuttle::thread;

/// State that a path's controller could change.
fn state(shared: &SharedController) -> String {
    let all = shared.read(|controller, paths| {
        let windows = (0..paths.len()).map(|r| controller.window(r));
        format!("{paths:?} {:?}", windows.collect::<Vec<_>>())
    });
    format!("{all} {:?}", shared.carried())
}

fn index(path: &dyn Controller) -> usize {
    let path = path.clone_box().into_any().downcast::<PathController>();
    path.expect("the factory's").index()
}

/// Everything that the library reports about a packet's fate.
fn report(path: &mut dyn Controller, now: Instant) {
    path.on_packet_sent(now, 1200, 1);
    path.on_packet_lost(1200, 1, now);
    path.on_congestion_event(now, now, false, false, 1200, 1);
    path.on_congestion_event(now, now, true, false, 1200, 1);
    path.on_spurious_congestion_event();
    path.on_end_acks(now, 7, false, None);
}

/// A path opens, and ends as the library or the carrier ends it; meanwhile the others run.
fn live(shared: &SharedController, used: &Mutex<BTreeSet<usize>>) {
    let used = || used.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    let mut path = Arc::new(shared.clone()).build(now, 1200);
    let r = index(&*path);
    assert!(used().insert(r), "index {r} is given twice");
    thread::yield_now();
    path.on_packet_sent(now, 1200, 0);
    assert_eq!(shared.read(|_, paths| paths[r].in_flight_bytes), 1200);
    let mut copy = path.clone_box();
    thread::yield_now();
    if shuttle::rand::thread_rng().gen_bool(0.5) {
        used().remove(&r);
        shared.abandon(r);
    } else {
        drop(path);
        path = copy.clone_box();
        thread::yield_now();
        // A copy is the same path.
        assert_eq!(shared.read(|_, paths| paths[r].in_flight_bytes), 1200);
        used().remove(&r);
        shared.abandon(r);
    }
    thread::yield_now();
    for late in [&mut path, &mut copy] {
        let before = state(shared);
        report(&mut **late, now);
        assert_eq!(state(shared), before, "an abandoned path's controller");
        thread::yield_now();
    }
    let before = state(shared);
    drop((path, copy));
    assert_eq!(state(shared), before, "an abandoned path's controller");
}

#[test]
fn no_index_is_given_twice_and_an_abandoned_path_changes_nothing() {
    let model = || {
        let rule = Algorithm::parse("olia").expect("in the table");
        let controller = rule.controller(0, 1.0);
        let shared = SharedController::new(Clock::running(Instant::now), controller, f64::INFINITY);
        let used = Arc::new(Mutex::new(BTreeSet::new()));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (shared, used) = (shared.clone(), used.clone());
                thread::spawn(move || (0..2).for_each(|_| live(&shared, &used)))
            })
            .collect();
        threads.into_iter().for_each(|it| it.join().expect("ran"));
        // Three paths at a time, and indexes are used again.
        assert!(shared.read(|_, paths| paths.len()) <= 3);
        assert_eq!(shared.carried().1, 0);
    };
    shuttle::check_random(model, schedules());
    shuttle::check_pct(model, schedules(), 3);
}

/// The library drops the controller of a path that nobody has abandoned.
#[test]
fn a_path_whose_last_controller_is_dropped_is_deregistered_once() {
    let model = || {
        let rule = Algorithm::parse("olia").expect("in the table");
        let shared = SharedController::new(
            Clock::running(Instant::now),
            rule.controller(0, 1.0),
            f64::INFINITY,
        );
        let path = Arc::new(shared.clone()).build(Instant::now(), 1200);
        let threads = [path.clone_box(), path].map(|copy| thread::spawn(move || drop(copy)));
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                let path = Arc::new(shared.clone()).build(Instant::now(), 1200);
                let r = index(&*path);
                thread::yield_now();
                (r, path)
            })
        };
        let (r, other) = other.join().expect("ran");
        threads.into_iter().for_each(|it| it.join().expect("ran"));
        let third = Arc::new(shared.clone()).build(Instant::now(), 1200);
        assert_ne!(index(&*third), r, "the other still uses its index");
        assert_eq!(index(&*third), 1 - r);
        drop((third, other));
    };
    shuttle::check_random(model, schedules());
    shuttle::check_pct(model, schedules(), 3);
}

/// Schedules of each kind: as many as random inputs of proptest, of which `make test-all` has more.
fn schedules() -> usize {
    let cases = std::env::var("PROPTEST_CASES");
    cases.map_or(200, |cases| cases.parse().expect("a number"))
}
