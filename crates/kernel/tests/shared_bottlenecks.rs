//! `coupling=shared`: only subflows with a common bottleneck are coupled. Semicoupled's alpha is 1
//! for a subflow that is coupled to none (coupling.rs).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use crate::common::network::{Host, Network, connect, send_for};
use crate::common::{SEND_TIME, can_load, lock_names, objects, wait_until, wait_until_freed};
use anabranch_kernel::{Grouper, Groups, Loaded, connections, load};

const ALGORITHM: &str = "semicoupled:coupling=shared";

/// A connection with two subflows that sends until it is dropped.
struct Sending<'a> {
    network: &'a Network,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Sending<'_> {
    fn over(network: &Network) -> Sending<'_> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = network.spawn(Host::Client, move || {
            let mut stream = connect("semicoupled", true);
            while !stopped.load(Relaxed) {
                send_for(&mut stream, SEND_TIME / 10);
            }
        });
        Sending {
            network,
            stop,
            thread: Some(thread),
        }
    }

    /// Whether either subflow is coupled to none: its alpha is 1, and with a sibling that has a
    /// packet of 20 or more it is at most 0.95.
    fn are_alone(&self) -> Vec<bool> {
        let listed = self.network.inside(Host::Client, || connections().unwrap());
        let subflows = listed.into_iter().flat_map(|one| one.subflows);
        subflows.map(|one| one.alpha.unwrap() > 0.95).collect()
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let result = self.thread.take().map(thread::JoinHandle::join);
        if !thread::panicking() {
            result.map(Result::unwrap);
        }
    }
}

/// Decides until the subflows have been in these groups, and coupled accordingly, for 30 decisions.
fn decide_until(grouper: &mut Grouper, sending: &Sending, numbers: [u32; 2]) {
    let mut last: Option<Groups> = None;
    let mut settled = 0;
    let alone = numbers[0] != numbers[1];
    wait_until(&format!("the groups {numbers:?}"), || {
        last = grouper.update().unwrap().pop().or(last.take());
        let decided = last.as_ref().is_some_and(|last| last.numbers == numbers);
        let coupled = sending.are_alone() == [alone; 2];
        settled = if decided && coupled { settled + 1 } else { 0 };
        settled == 30
    });
}

fn loaded() -> (Loaded, Grouper) {
    let loaded = load(&ALGORITHM.parse().unwrap()).unwrap();
    let grouper = loaded.grouper().unwrap().expect("it has groups");
    (loaded, grouper)
}

/// Each link has a queue of its own.
#[test]
fn subflows_over_two_links_are_separated_until_nobody_decides() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let before = objects();
    let (loaded, mut grouper) = loaded();
    let network = Network::new(2, Some(20));
    let sink = network.sink();
    let sending = Sending::over(&network);
    decide_until(&mut grouper, &sending, [1, 2]);
    // Its groups are valid for two seconds more.
    drop((loaded, grouper));
    wait_until("all are coupled", || sending.are_alone() == [false; 2]);
    drop(sending);
    drop((sink, network));
    wait_until_freed(&before);
}

/// Both addresses of the server are behind one queue.
#[test]
fn subflows_over_one_link_stay_coupled() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let (_loaded, mut grouper) = loaded();
    let network = Network::new(1, Some(20));
    network.add_address(0, 1);
    let _sink = network.sink();
    let sending = Sending::over(&network);
    decide_until(&mut grouper, &sending, [1, 1]);
}
