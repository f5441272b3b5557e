//! Builds the hosts of a scenario and runs it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{panic, process, thread};

use anabranch_control::MAX_WINDOW;
use anabranch_net::Time;
use anabranch_scenario::recorder::{PathTotals, Recorder, Snapshot, UserGauge};
use anabranch_scenario::users::{UserSlot, user_slots};
use anabranch_scenario::{Record, Scenario, Tcp, refusal};

use crate::agents::{AgentReport, Agents};
use crate::error::Error;
use crate::hosts;
use crate::hosts::{Host, MAX_PATHS, MAX_USERS};
use crate::network::clock::{Clock, SampleTimes};
use crate::network::emulator::{Emulator, ReturnWay, Tap};
use crate::network::forwarder::{Devices, ForwarderReport, LatenessSummary, LinkCounters, forward};

/// The hosts of a scenario and their devices. The kernel removes them when this is dropped or the
/// process ends.
///
/// ```no_run
/// use anabranch_lab::Lab;
/// use anabranch_scenario::Scenario;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let scenario = Scenario::load("examples/two_links.toml".as_ref(), &[])?;
/// let lab = Lab::build(&scenario, 1, Some("cubic"))?; // needs root
/// let outcome = lab.run(())?;
/// println!("{:?} Mbps", outcome.record.flows.goodput_mbps);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Lab {
    scenario: Scenario,
    seed: u64,
    algorithms: Vec<String>,
    slots: Vec<UserSlot>,
    users: Vec<Host>,
    server: Host,
    devices: Devices,
}

/// Makes a panic of any thread end the process, with exit code 101, and so every lab.
pub fn exit_on_panic() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        print(info);
        process::exit(101);
    }));
}

/// The result of a run in real time.
#[derive(Debug)]
pub struct Outcome<T> {
    /// The tables.
    pub record: Record,
    /// The kernel's name of each flow's algorithm.
    pub algorithms: Vec<String>,
    /// Lateness of the packets delivered.
    pub lateness: LatenessSummary,
    /// Anything that limits the validity of the result, one line each.
    pub warnings: Vec<String>,
    /// The observer of the packets.
    pub tap: T,
}

impl Lab {
    /// Builds every host. Flows without an algorithm of their own run `chosen`, the kernel's name
    /// of an algorithm; with `None` the scenario decides.
    ///
    /// # Errors
    /// If the kernel backend does not support the scenario, or this machine lacks something.
    pub fn build(scenario: &Scenario, seed: u64, chosen: Option<&str>) -> Result<Lab, Error> {
        check_machine(scenario)?;
        check_scenario(scenario)?;
        let algorithms = hosts::of_flows(scenario, chosen)?;
        let slots = user_slots(scenario, seed);
        let (server, server_device) = hosts::server(scenario)?;
        let mut users = Vec::with_capacity(slots.len());
        let mut devices = Devices {
            paths: Vec::new(),
            server: server_device,
        };
        for (user, slot) in slots.iter().enumerate() {
            let flow = &scenario.flows[slot.flow as usize];
            let algorithm = &algorithms[slot.flow as usize];
            let client = hosts::client(scenario, flow, user, algorithm)?;
            users.push(client.host);
            devices.paths.extend(client.devices);
        }
        Ok(Lab {
            scenario: scenario.clone(),
            seed,
            algorithms,
            slots,
            users,
            server,
            devices,
        })
    }

    /// The hosts by name: `FLOW.USER` for each user, then `server`.
    pub fn hosts(&self) -> impl Iterator<Item = (String, &Host)> {
        let named = self.slots.iter().map(|slot| {
            let flow = &self.scenario.flows[slot.flow as usize].name;
            format!("{flow}.{}", slot.number)
        });
        let server = ("server".to_owned(), &self.server);
        named.zip(&self.users).chain([server])
    }

    /// The scenario that the lab was built from.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Runs the scenario in real time.
    ///
    /// # Errors
    /// If a connection fails or the kernel rejects a command.
    pub fn run<T: Tap + Send>(self, tap: T) -> Result<Outcome<T>, Error> {
        let samples = SampleTimes::of(&self.scenario);
        let emulator = self.emulator(ReturnWay::Delay, tap);
        let clock = Clock::start();
        let (idle, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        let agents = Agents::new(
            &self.scenario,
            &self.users,
            &self.server,
            &self.algorithms,
            self.slots.clone(),
            clock,
        )?;
        let (forwarder, agents) = thread::scope(|scope| {
            // If one fails it stops the other.
            let forwarder = scope.spawn(|| {
                let (devices, times) = (&self.devices, &samples.times);
                let report = forward(emulator, devices, clock, times, &idle, &stop);
                if report.is_err() {
                    stop.store(true, Ordering::Relaxed);
                }
                report
            });
            let agents = scope.spawn(|| {
                let report = agents.run(&samples.times, &idle, &stop);
                if report.is_err() {
                    stop.store(true, Ordering::Relaxed);
                }
                report
            });
            (forwarder.join(), agents.join())
        });
        let (forwarder, agents) = match (forwarder, agents) {
            (Ok(forwarder), Ok(agents)) => (forwarder?, agents?),
            (Err(panic), _) | (_, Err(panic)) => panic::resume_unwind(panic),
        };
        Ok(self.outcome(&samples, forwarder, agents))
    }

    /// Forwards packets while `act` runs; the links start at time 0.
    ///
    /// # Errors
    /// If a device fails, and errors of `act`.
    pub fn forward_while<T: Tap + Send, R>(
        &self,
        return_way: ReturnWay,
        tap: T,
        act: impl FnOnce() -> Result<R, Error>,
    ) -> Result<(ForwarderReport<T>, R), Error> {
        let emulator = self.emulator(return_way, tap);
        let clock = Clock::start();
        let (idle, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let devices = &self.devices;
            let forwarder =
                scope.spawn(|| forward(emulator, devices, clock, &[Time::MAX], &idle, &stop));
            let result = act();
            stop.store(true, Ordering::Relaxed);
            match forwarder.join() {
                Ok(report) => Ok((report?, result?)),
                Err(panic) => panic::resume_unwind(panic),
            }
        })
    }

    fn emulator<T: Tap>(&self, return_way: ReturnWay, tap: T) -> Emulator<T> {
        Emulator::new(&self.scenario, &self.slots, return_way, self.seed, tap)
    }

    fn outcome<T>(
        &self,
        samples: &SampleTimes,
        forwarder: ForwarderReport<T>,
        agents: AgentReport,
    ) -> Outcome<T> {
        let warnings = self.warnings(&forwarder, &agents);
        Outcome {
            algorithms: self.algorithms.clone(),
            lateness: forwarder.lateness.summary(),
            warnings,
            tap: forwarder.tap,
            record: self.record(samples, forwarder.counters, agents),
        }
    }

    fn record(
        &self,
        samples: &SampleTimes,
        links: Vec<LinkCounters>,
        agents: AgentReport,
    ) -> Record {
        let start = Snapshot {
            time: 0,
            users: vec![(0, 0); self.slots.len()],
            paths: vec![PathTotals::default(); self.devices.paths.len()],
            links: vec![Default::default(); self.scenario.links.len()],
        };
        let mut recorder = Recorder::new(start, self.slots.clone());
        for transfer in &agents.transfers {
            let (started_at, bytes) = (transfer.started_at, transfer.bytes);
            recorder.transfer(transfer.user, started_at, bytes, transfer.done_at);
        }
        let user_gauges = vec![UserGauge::default(); self.slots.len()];
        let mut end = Snapshot::default();
        let both = links.into_iter().zip(agents.counters);
        for (index, ((links, backlogs), hosts)) in both.enumerate() {
            let paths = links.paths.iter().zip(&hosts.paths);
            let snapshot = Snapshot {
                users: hosts.users,
                paths: paths.map(|(links, hosts)| *links + *hosts).collect(),
                ..links
            };
            if index == samples.warm_up {
                recorder.warm_up_ends(snapshot.clone());
            }
            if samples.is_sample(index) {
                recorder.sample(snapshot.clone(), &user_gauges, &hosts.gauges, &backlogs);
            }
            end = snapshot;
        }
        recorder.finish(end, &self.scenario)
    }

    fn warnings<T>(&self, forwarder: &ForwarderReport<T>, agents: &AgentReport) -> Vec<String> {
        let mut warnings = ignored_keys(&self.scenario.tcp);
        let late = forwarder.lateness.summary();
        if late.too_late {
            warnings.push(format!(
                "packets were delivered late, by {:.0} us at the 99th percentile: the machine is \
                 too busy, or the scenario too fast, for real time",
                late.p99_us
            ));
        }
        if forwarder.rejected > 0 {
            let rejected = forwarder.rejected;
            warnings.push(format!(
                "{rejected} packets were rejected by a host's device"
            ));
        }
        let names: Vec<String> = self.hosts().map(|(name, _)| name).collect();
        for &user in &agents.fell_back {
            let name = &names[user];
            warnings.push(format!(
                "{name} fell back to plain TCP and used one path only"
            ));
        }
        if agents.discarded_windows > 0 {
            warnings.push(format!(
                "{} samples of windows above {MAX_WINDOW} packets were discarded: the kernel \
                 skipped a BPF program (docs/reference/kernel.md)",
                agents.discarded_windows
            ));
        }
        warnings
    }
}

// Limits of this machine and of the kernel backend: errors, and warnings for ignored keys.

/// The smallest packet size that every IPv4 host must accept, bytes (RFC 791).
const MIN_MTU: u32 = 576;

/// Checks that this process may create hosts, and that the kernel has Multipath TCP if the scenario
/// needs it.
///
/// # Errors
/// If not.
pub fn check_machine(scenario: &Scenario) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::new(
            "the kernel backend creates network namespaces and TUN devices: run it as root",
        ));
    }
    let multipath = scenario.flows.iter().any(|flow| flow.paths.len() > 1);
    if multipath && !hosts::mptcp_available() {
        return Err(Error::new(
            "this kernel has no Multipath TCP: Linux 6.7 or later with CONFIG_MPTCP is required",
        ));
    }
    Ok(())
}

/// Checks that the kernel backend supports everything in the scenario.
///
/// # Errors
/// If not, with the key of the scenario.
pub fn check_scenario(scenario: &Scenario) -> Result<(), Error> {
    let mut flows = scenario.flows.iter();
    let users: u64 = flows.clone().map(|flow| u64::from(flow.count.get())).sum();
    let users = (users > MAX_USERS as u64)
        .then(|| ("flows".to_owned(), format!("more than {MAX_USERS} users")));
    let small = (scenario.tcp.packet_bytes.get() < MIN_MTU).then(|| {
        (
            "tcp.packet_bytes".to_owned(),
            format!("less than {MIN_MTU} bytes"),
        )
    });
    let many = flows.find(|flow| flow.paths.len() > MAX_PATHS);
    let many = many.map(|flow| {
        (
            format!("flows.{}.paths", flow.name),
            format!("more than {MAX_PATHS} paths"),
        )
    });
    let limit = users.or(small).or(many);
    let limit = limit.map(|(key, name)| refusal(&key, &name, "kernel", &["sim"]));
    scenario
        .refusal("kernel")
        .or(limit)
        .map_or(Ok(()), |text| Err(Error::new(text)))
}

/// A warning for each key that the kernel backend ignores and that does not have its default value.
pub fn ignored_keys(tcp: &Tcp) -> Vec<String> {
    let default = Tcp::default();
    let keys = [
        ("header_bytes", tcp.header_bytes != default.header_bytes),
        (
            "min_ssthresh_packets",
            tcp.min_ssthresh_packets != default.min_ssthresh_packets,
        ),
    ];
    let ignored = keys.into_iter().filter(|(_, differs)| *differs);
    ignored
        .map(|(key, _)| format!("tcp.{key} has no effect on kernel (docs/reference/lab.md)"))
        .collect()
}
