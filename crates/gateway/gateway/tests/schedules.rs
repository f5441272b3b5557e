//! The limiter under schedules of its callers that shuttle chooses: the library's source file with
//! shuttle's mutex, each lock of which may let others run first.

// The file finds these names here instead of the library's and of the crate parking_lot.
extern crate self as parking_lot;
use anabranch_gateway::{carrier, config, party};

use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::thread;

#[allow(dead_code)]
#[path = "../src/traffic/limits.rs"]
mod limits;
#[allow(dead_code)]
#[path = "../src/traffic/rate.rs"]
mod rate;

use limits::{Limiter, Party, Purpose};

/// A client.
fn of_client(owner: u32) -> Party<u32> {
    Party { owner, part: 0 }
}

/// Mutex with the interface of parking_lot's.
#[derive(Debug)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A mutex that nobody holds.
    pub fn new(value: T) -> Mutex<T> {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    /// Waits until nobody holds the mutex.
    pub fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().expect("no holder panics")
    }
}

/// Runs a model in random schedules, and in those of few preemptions (PCT), which find what needs
/// an exact order.
fn explore(model: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(model.clone(), schedules());
    shuttle::check_pct(model, schedules(), 3);
}

fn of(connections: usize, each: usize) -> config::Limits {
    config::Limits {
        connections: Some(connections),
        connections_per_client: Some(each),
        ..Default::default()
    }
}

/// Four threads are two clients, each with two connections, one after the other.
#[test]
fn no_schedule_exceeds_the_limits_and_all_places_come_back() {
    explore(|| {
        let limiter = Limiter::<u32>::new(&of(3, 1));
        let admitted = std::sync::Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let threads: Vec<_> = [0, 0, 1, 1]
            .map(|client: u32| {
                let (limiter, admitted) = (limiter.clone(), admitted.clone());
                thread::spawn(move || {
                    for _ in 0..2 {
                        let Some(permit) = limiter.admit(Purpose::Connection, &of_client(client))
                        else {
                            continue;
                        };
                        let own = &admitted[client as usize];
                        assert_eq!(own.fetch_add(1, Ordering::SeqCst), 0);
                        assert!(limiter.active() <= 2);
                        own.fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
                    }
                })
            })
            .into();
        threads.into_iter().for_each(|it| it.join().expect("ran"));
        assert_eq!(limiter.active(), 0);
        let permits: Vec<_> = (0..4)
            .filter_map(|client| limiter.admit(Purpose::Connection, &of_client(client)))
            .collect();
        assert_eq!(permits.len(), 3);
    });
}

/// A reload while clients connect: afterwards the new limits count, the rate too.
#[test]
fn after_a_reload_nobody_is_admitted_by_the_old_limits() {
    explore(|| {
        let limiter = Limiter::<u32>::new(&of(3, 3));
        let threads = [1, 2].map(|client| {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.admit(Purpose::Connection, &of_client(client)))
        });
        let slower = config::Limits {
            client_mbps: Some(8.0),
            ..of(1, 1)
        };
        limiter.replace(&slower);
        let before = limiter.active();
        let permits = threads.map(|thread| thread.join().expect("ran"));
        assert!(limiter.active() <= before.max(1));
        for permit in permits.iter().flatten() {
            let rate = format!("{:?}", permit.flow);
            assert!(rate.contains("Some(1000000.0)"), "{rate}");
        }
    });
}

/// Schedules of each kind: as many as random inputs of proptest, of which `make test-all` has more.
fn schedules() -> usize {
    let cases = std::env::var("PROPTEST_CASES");
    cases.map_or(200, |cases| cases.parse().expect("a number"))
}
