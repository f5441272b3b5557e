//! `coupling=shared`: only subflows with a common bottleneck are coupled. Semicoupled's alpha is 1
//! for a subflow that is coupled to none (coupling.rs).

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::network::{Host, Network, connect, send_for};
use crate::common::{SEND_TIME, can_load, lock_names, objects, wait_until, wait_until_freed};
use anabranch_kernel::{Grouper, Groups, Loaded, connections, load};

const ALGORITHM: &str = "semicoupled:coupling=shared";

/// The detector waits for 3 s.
const DECIDED: Duration = Duration::from_secs(5);

/// A connection with two subflows that sends, and other traffic on link 0, until it is dropped.
struct Sending<'a> {
    network: &'a Network,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Sending<'_> {
    fn over(network: &Network) -> Sending<'_> {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, also_stopped) = (stop.clone(), stop.clone());
        let user = network.spawn(Host::Client, move || {
            let mut stream = connect("semicoupled", true);
            while !stopped.load(Relaxed) {
                send_for(&mut stream, SEND_TIME / 10);
            }
        });
        let other = network.spawn(Host::Client, move || fill_and_pause(&also_stopped));
        Sending {
            network,
            stop,
            threads: vec![user, other],
        }
    }

    /// Whether the second subflow is coupled to none: its alpha is 1.
    fn is_alone(&self) -> Option<bool> {
        let listed = self.network.inside(Host::Client, || connections().unwrap());
        let mut subflows: Vec<_> = listed.into_iter().flat_map(|one| one.subflows).collect();
        subflows.sort_by_key(|subflow| subflow.remote);
        Some(subflows.get(1)?.alpha? > 0.95)
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let result = thread.join();
            if !thread::panicking() {
                result.unwrap();
            }
        }
    }
}

/// Sends 16 Mbps over link 0, of 20 Mbps, for 300 ms, and nothing for 300 ms, so that its queue
/// varies other than that of link 1.
fn fill_and_pause(stopped: &AtomicBool) {
    let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
    while !stopped.load(Relaxed) {
        for _ in 0..30 {
            for _ in 0..20 {
                // Nobody listens.
                let _ = socket.send_to(&[0; 1000], "10.77.0.2:9");
            }
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(300));
    }
}

/// Decides until the subflows have been in these groups, and coupled accordingly, six times in
/// succession: just after a loss, alpha is off.
fn decide_until(grouper: &mut Grouper, sending: &Sending, numbers: [u32; 2]) {
    let mut last: Option<Groups> = None;
    let (start, mut settled) = (Instant::now(), 0);
    wait_until(&format!("the groups {numbers:?}"), || {
        last = grouper.update().unwrap().pop().or(last.take());
        let decided = last.as_ref().is_some_and(|last| last.numbers == numbers);
        let coupled = sending.is_alone() == Some(numbers[0] != numbers[1]);
        settled = if decided && coupled { settled + 1 } else { 0 };
        start.elapsed() > DECIDED && settled >= 6
    });
}

fn loaded() -> (Loaded, Grouper) {
    let loaded = load(&ALGORITHM.parse().unwrap()).unwrap();
    let grouper = loaded.grouper().unwrap().expect("it has groups");
    (loaded, grouper)
}

#[test]
fn a_program_has_the_maps_by_which_its_loader_decides() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let (_loaded, mut grouper) = loaded();
    assert!(
        grouper.update().unwrap().is_empty(),
        "there is no connection"
    );
}

/// Each link has a queue of its own.
#[test]
#[ignore = "slow, and a busy machine delays both links alike; run by make test-all"]
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
    // Groups stay valid for two seconds more.
    drop((loaded, grouper));
    wait_until("it is coupled", || sending.is_alone() == Some(false));
    drop(sending);
    drop((sink, network));
    wait_until_freed(&before);
}

/// Both addresses of the server are behind one queue.
#[test]
#[ignore = "slow, and a busy machine delays both links alike; run by make test-all"]
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
