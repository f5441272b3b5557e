//! Groups of coupled subflows. Semicoupled shows them best: its alpha, `I_r w_r`, is the subflow's
//! share of the coupled windows, so 1 for a subflow that is coupled to none.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use crate::common::network::{Host, Network, Sink, connect, send_for};
use crate::common::{SEND_TIME, can_load, lock_names, wait_until};
use anabranch_kernel::{Loaded, Subflow, connections, load};

/// A connection under Semicoupled that sends until it is dropped.
struct Sending<'a> {
    network: &'a Network,
    stop: Arc<AtomicBool>,
    _loaded: Loaded,
    _sink: Sink,
}

impl Sending<'_> {
    fn over(network: &Network) -> Sending<'_> {
        Sending::with("semicoupled", network)
    }

    fn with<'a>(specification: &str, network: &'a Network) -> Sending<'a> {
        let loaded = load(&specification.parse().unwrap()).unwrap();
        let sink = network.sink();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        network.spawn(Host::Client, move || {
            let mut stream = connect("semicoupled", true);
            while !stopped.load(Relaxed) {
                send_for(&mut stream, SEND_TIME / 10);
            }
        });
        Sending {
            network,
            stop,
            _loaded: loaded,
            _sink: sink,
        }
    }

    /// Subflows of the connection, in the order of the links.
    fn subflows(&self) -> Vec<Subflow> {
        let list = || connections().unwrap();
        let connections = self.network.inside(Host::Client, list);
        let mut subflows: Vec<Subflow> = connections
            .into_iter()
            .flat_map(|one| one.subflows)
            .collect();
        subflows.sort_by_key(|subflow| subflow.local);
        subflows
    }

    /// Waits until its subflows have satisfied the condition for several round trips: just after a
    /// loss, alpha is off.
    fn wait_until_stable(&self, what: &str, holds: impl Fn(&[Subflow]) -> bool) {
        wait_until(what, || self.is_stable(&holds));
    }

    fn is_stable(&self, holds: impl Fn(&[Subflow]) -> bool) -> bool {
        (0..6).all(|_| {
            thread::sleep(SEND_TIME / 30);
            holds(&self.subflows())
        })
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

fn is_alone(subflow: &Subflow) -> bool {
    // The window has changed since by the last increase or by a loss.
    subflow.alpha.unwrap() > 0.95
}

fn is_coupled(subflow: &Subflow) -> bool {
    // 0 before the first increase.
    subflow.alpha.unwrap() > 0.0 && !is_alone(subflow)
}

#[test]
fn siblings_share_one_increase() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(2, Some(50));
    Sending::over(&network).wait_until_stable("both are coupled", |of| {
        of.len() == 2 && of.iter().all(is_coupled)
    });
}

#[test]
fn without_coupling_each_subflow_is_alone() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(2, Some(50));
    let sending = Sending::with("semicoupled:coupling=never", &network);
    sending.wait_until_stable("both are alone", |of| {
        of.len() == 2 && of.iter().all(is_alone)
    });
}

#[test]
fn an_idle_backup_is_not_coupled() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(1, Some(50));
    network.add_link(1, Some(50));
    network.add_endpoint(1, "backup");
    Sending::over(&network).wait_until_stable("the first is alone", |of| {
        of.len() == 2 && of[1].backup && !of[0].backup && is_alone(&of[0])
    });
}

#[test]
fn a_sibling_with_another_algorithm_is_coupled() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(2, Some(50));
    let route = "route change 10.77.1.0/24 dev v1 src 10.77.1.1 congctl lock reno".split(' ');
    let mut ip = Command::new("ip");
    assert!(
        ip.args(["-n", &network.name(Host::Client)])
            .args(route)
            .status()
            .unwrap()
            .success()
    );
    Sending::over(&network).wait_until_stable("the first is coupled with Reno", |of| {
        of.len() == 2
            && of[0].algorithm == "semicoupled"
            && is_coupled(&of[0])
            && of[1].algorithm == "reno"
            && of[1].alpha.is_none()
    });
}

#[test]
fn coupling_follows_the_path_manager() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(2, Some(50));
    let sending = Sending::over(&network);
    sending.wait_until_stable("two couple", |of| of.len() == 2 && is_coupled(&of[0]));
    network.change_endpoint(1, "backup");
    sending.wait_until_stable("a backup is not coupled", |of| {
        of.len() == 2 && of[1].backup && is_alone(&of[0])
    });
    network.change_endpoint(1, "nobackup");
    sending.wait_until_stable("it is coupled again", |of| {
        of.len() == 2 && !of[1].backup && is_coupled(&of[0])
    });
    // Linux 6.18 resets some subflows that join again, with `buffers=linux` as well: the receiver
    // counts an invalid mapping (DSSNotMatching). No other joins before the endpoint is added anew.
    wait_until("a new one couples", || {
        network.remove_endpoint(1);
        sending.wait_until_stable("one is left", |of| of.len() == 1 && is_alone(&of[0]));
        network.add_endpoint(1, "");
        (0..50).any(|_| sending.is_stable(|of| of.len() == 2 && is_coupled(&of[0])))
    });
}
