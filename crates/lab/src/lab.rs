//! A scenario brought up with real hosts, and run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{panic, process, thread};

use anabranch_net::Time;
use anabranch_scenario::recorder::{PathTotals, Recorder, Snapshot, UserGauge};
use anabranch_scenario::time::from_seconds;
use anabranch_scenario::users::{UserSlot, user_slots};
use anabranch_scenario::{Record, Scenario, Scheduler, Tcp, Workload};

use crate::address::{MOST_PATHS, MOST_USERS};
use crate::agents::{Agents, Played};
use crate::algorithms;
use crate::clock::Clock;
use crate::error::Error;
use crate::forwarder::{Devices, Forwarded, forward};
use crate::host::Host;
use crate::lateness::Summary;
use crate::leftovers;
use crate::network::{Network, Tap};
use crate::setup;

/// The hosts of a scenario and the devices between them. When it is dropped, or the process ends,
/// all of it is gone.
#[derive(Debug)]
pub struct Lab {
    scenario: Scenario,
    seed: u64,
    algorithms: Vec<String>,
    seats: Vec<UserSlot>,
    users: Vec<Host>,
    server: Host,
    devices: Devices,
}

/// From now on a thread that panics takes the process with it, and so every lab.
pub fn end_at_a_panic() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        tell(info);
        process::exit(101);
    }));
}

/// What a run in real time gives.
#[derive(Debug)]
pub struct Outcome<T> {
    /// The tables.
    pub record: Record,
    /// The kernel's name of each flow's algorithm.
    pub algorithms: Vec<String>,
    /// How late packets were delivered.
    pub lateness: Summary,
    /// What a reader of the result must know, a line each.
    pub warnings: Vec<String>,
    /// What saw the packets.
    pub tap: T,
}

impl Lab {
    /// Brings up every host. `chosen` is what flows without an algorithm of their own run, a name
    /// that the kernel has; `None`: what the scenario says.
    ///
    /// # Errors
    /// If the scenario asks for what the kernel can't do, or this machine lacks something.
    pub fn build(scenario: &Scenario, seed: u64, chosen: Option<&str>) -> Result<Lab, Error> {
        check_machine(scenario)?;
        leftovers::end_orphans()?;
        check(scenario)?;
        let algorithms = algorithms::of_flows(scenario, chosen)?;
        let seats = user_slots(scenario, seed);
        let (server, server_device) = setup::server(scenario)?;
        let mut users = Vec::with_capacity(seats.len());
        let mut devices = Devices {
            paths: Vec::new(),
            server: server_device,
        };
        for (user, seat) in seats.iter().enumerate() {
            let flow = &scenario.flows[seat.flow as usize];
            let algorithm = &algorithms[seat.flow as usize];
            let client = setup::client(scenario, flow, user, algorithm)?;
            users.push(client.host);
            devices.paths.extend(client.devices);
        }
        Ok(Lab {
            scenario: scenario.clone(),
            seed,
            algorithms,
            seats,
            users,
            server,
            devices,
        })
    }

    /// The hosts by name: `FLOW.USER` for each user, and `server`.
    pub fn hosts(&self) -> impl Iterator<Item = (String, &Host)> {
        let named = self.seats.iter().map(|seat| {
            let flow = &self.scenario.flows[seat.flow as usize].name;
            format!("{flow}.{}", seat.number)
        });
        let server = ("server".to_owned(), &self.server);
        named.zip(&self.users).chain([server])
    }

    /// What was built.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Runs the scenario in real time.
    ///
    /// # Errors
    /// If a connection breaks or the kernel refuses something.
    pub fn run<T: Tap + Send>(self, tap: T) -> Result<Outcome<T>, Error> {
        let marks = Marks::of(&self.scenario);
        let network = Network::new(&self.scenario, &self.seats, self.seed, tap);
        let clock = Clock::start();
        let (idle, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        let agents = Agents::new(
            &self.scenario,
            &self.users,
            &self.server,
            &self.algorithms,
            self.seats.clone(),
            clock,
        )?;
        let (forwarded, played) = thread::scope(|scope| {
            // Whichever fails ends the other.
            let forwarder = scope.spawn(|| {
                let forwarded = forward(network, &self.devices, clock, &marks.times, &idle, &stop);
                if forwarded.is_err() {
                    stop.store(true, Ordering::Relaxed);
                }
                forwarded
            });
            let players = scope.spawn(|| {
                let played = agents.play(&marks.times, &idle, &stop);
                if played.is_err() {
                    stop.store(true, Ordering::Relaxed);
                }
                played
            });
            (forwarder.join(), players.join())
        });
        let (forwarded, played) = match (forwarded, played) {
            (Ok(forwarded), Ok(played)) => (forwarded?, played?),
            (Err(panic), _) | (_, Err(panic)) => panic::resume_unwind(panic),
        };
        Ok(self.outcome(&marks, forwarded, played))
    }

    /// Carries packets, from time 0 of the links, for as long as `act` takes.
    ///
    /// # Errors
    /// If a device fails, and what `act` gives.
    pub fn carry<T: Tap + Send, R>(
        &self,
        tap: T,
        act: impl FnOnce() -> Result<R, Error>,
    ) -> Result<(Forwarded<T>, R), Error> {
        let network = Network::new(&self.scenario, &self.seats, self.seed, tap);
        let clock = Clock::start();
        let (idle, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let forwarder =
                scope.spawn(|| forward(network, &self.devices, clock, &[Time::MAX], &idle, &stop));
            let result = act();
            stop.store(true, Ordering::Relaxed);
            match forwarder.join() {
                Ok(forwarded) => Ok((forwarded?, result?)),
                Err(panic) => panic::resume_unwind(panic),
            }
        })
    }

    fn outcome<T>(&self, marks: &Marks, forwarded: Forwarded<T>, played: Played) -> Outcome<T> {
        let warnings = self.warnings(&forwarded, &played);
        let lateness = forwarded.lateness.summary();
        Outcome {
            algorithms: self.algorithms.clone(),
            lateness,
            warnings,
            tap: forwarded.tap,
            record: self.record(marks, forwarded.counted, played),
        }
    }

    fn record(
        &self,
        marks: &Marks,
        counted: Vec<crate::forwarder::Counted>,
        played: Played,
    ) -> Record {
        let start = Snapshot {
            time: 0,
            users: vec![(0, 0); self.seats.len()],
            paths: vec![PathTotals::default(); self.devices.paths.len()],
            links: vec![Default::default(); self.scenario.links.len()],
        };
        let mut recorder = Recorder::new(start, self.seats.clone());
        for transfer in &played.transfers {
            let (started_at, bytes) = (transfer.started_at, transfer.bytes);
            recorder.transfer(transfer.user, started_at, bytes, transfer.done_at);
        }
        let user_gauges = vec![UserGauge::default(); self.seats.len()];
        let mut end = Snapshot::default();
        let both = counted.into_iter().zip(played.counted);
        for (index, ((links, backlogs), hosts)) in both.enumerate() {
            let paths = links.paths.iter().zip(&hosts.paths);
            let snapshot = Snapshot {
                users: hosts.users,
                paths: paths.map(|(links, hosts)| *links + *hosts).collect(),
                ..links
            };
            if index == marks.warm_up {
                recorder.warm_up_ends(snapshot.clone());
            }
            if marks.is_sample(index) {
                recorder.sample(snapshot.clone(), &user_gauges, &hosts.gauges, &backlogs);
            }
            end = snapshot;
        }
        recorder.finish(end, &self.scenario)
    }

    fn warnings<T>(&self, forwarded: &Forwarded<T>, played: &Played) -> Vec<String> {
        let mut warnings = without_effect(&self.scenario.tcp);
        let late = forwarded.lateness.summary();
        if late.p99_us > LATE_US {
            warnings.push(format!(
                "packets were delivered late, by {:.0} us at the 99th percentile: the machine is \
                 too busy or the scenario too fast for real time",
                late.p99_us
            ));
        }
        if forwarded.refused > 0 {
            let refused = forwarded.refused;
            warnings.push(format!("{refused} packets were refused by a host"));
        }
        let names: Vec<String> = self.hosts().map(|(name, _)| name).collect();
        for &user in &played.fell_back {
            let name = &names[user];
            warnings.push(format!(
                "{name} fell back to plain TCP: it had one path only"
            ));
        }
        if played.left_out > 0 {
            warnings.push(format!(
                "{} looks at windows beyond 2^24 packets are left out: the kernel passed a program \
                 over (docs/kernel.md)",
                played.left_out
            ));
        }
        warnings
    }
}

/// A 99th percentile of lateness that a result must not hide, us.
const LATE_US: f64 = 1000.0;

/// The moments at which counters are taken: the end of the warm-up, each sample, the end.
struct Marks {
    times: Vec<Time>,
    /// The index of the end of the warm-up; every other but the last is a sample.
    warm_up: usize,
    /// Whether the end is a sample too.
    ends_in_sample: bool,
}

impl Marks {
    fn of(scenario: &Scenario) -> Marks {
        let measure = &scenario.measure;
        let end = from_seconds(measure.duration_s.get());
        let every = from_seconds(measure.sample_ms.get() * 1e-3).max(1);
        let warm_up_at = from_seconds(measure.warmup_s.get());
        let mut times: Vec<Time> = (1..).map(|n| n * every).take_while(|&t| t <= end).collect();
        let ends_in_sample = times.last() == Some(&end);
        if !ends_in_sample {
            times.push(end);
        }
        let warm_up = times.partition_point(|&time| time < warm_up_at);
        times.insert(warm_up, warm_up_at);
        Marks {
            times,
            warm_up,
            ends_in_sample,
        }
    }

    fn is_sample(&self, index: usize) -> bool {
        index != self.warm_up && (index + 1 < self.times.len() || self.ends_in_sample)
    }
}

/// Refuses what this machine can't do.
fn check_machine(scenario: &Scenario) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::new(
            "the kernel backend makes network namespaces and TUN devices: run it as root",
        ));
    }
    let multipath = scenario.flows.iter().any(|flow| flow.paths.len() > 1);
    if multipath && !setup::multipath_is_there() {
        return Err(Error::new(
            "this kernel has no Multipath TCP: it needs Linux 6.7 or later with CONFIG_MPTCP",
        ));
    }
    Ok(())
}

/// Refuses what the kernel can't do.
fn check(scenario: &Scenario) -> Result<(), Error> {
    let refuse = |key: String, what: &str| {
        let text = format!("{key}: {what} is not available on kernel; run it with --on sim");
        Err(Error::new(text))
    };
    if scenario.tcp.scheduler == Scheduler::RoundRobin {
        return refuse("tcp.scheduler".to_owned(), "round-robin");
    }
    let users: u64 = scenario
        .flows
        .iter()
        .map(|flow| u64::from(flow.count.get()))
        .sum();
    if users > MOST_USERS as u64 {
        return refuse("flows".to_owned(), &format!("more than {MOST_USERS} users"));
    }
    if scenario.tcp.packet_bytes.get() < LEAST_MTU {
        let what = format!("less than {LEAST_MTU} bytes");
        return refuse("tcp.packet_bytes".to_owned(), &what);
    }
    for flow in &scenario.flows {
        if matches!(flow.workload, Workload::Gateway { .. }) {
            return refuse(format!("flows.{}.workload", flow.name), "a gateway");
        }
        if flow.paths.len() > MOST_PATHS {
            let what = format!("more than {MOST_PATHS} paths");
            return refuse(format!("flows.{}.paths", flow.name), &what);
        }
    }
    Ok(())
}

/// The keys that say something else than they do by default, and that nothing here follows.
fn without_effect(tcp: &Tcp) -> Vec<String> {
    let usual = Tcp::default();
    let keys = [
        ("header_bytes", tcp.header_bytes != usual.header_bytes),
        (
            "min_ssthresh_packets",
            tcp.min_ssthresh_packets != usual.min_ssthresh_packets,
        ),
    ];
    let set = keys.into_iter().filter(|(_, differs)| *differs);
    set.map(|(key, _)| format!("tcp.{key} has no effect on kernel (docs/lab.md)"))
        .collect()
}

/// The smallest packets that every IPv4 host can receive, bytes (RFC 791).
const LEAST_MTU: u32 = 576;
