//! The self-check: whether the emulated links on this machine behave as configured.

use std::net::UdpSocket;
use std::ops::RangeInclusive;
use std::time::Duration;
use std::{fs, thread};

use anabranch_net::{Backlog, Cause, Fate, Queue, Red, Time};
use anabranch_scenario::Scenario;
use serde::Serialize;

use crate::error::{Context, Error};
use crate::hosts;
use crate::hosts::Host;
use crate::lab::Lab;
use crate::network::emulator::{ReturnWay, Tap};
use crate::network::packet::Packet;

/// Two connections, 25 Mbps each. The queue of 100 packets is more than twice the bandwidth-delay
/// product (42), so it is never empty after slow start.
const RATE: &str = r#"
algorithm = "reno"
measure = { duration_s = 8, warmup_s = 3 }
links.a = { rate_mbps = 25, delay_ms = 10, queue.drop_tail = { packets = 100 } }
links.b = { rate_mbps = 25, delay_ms = 10, queue.drop_tail = { packets = 100 } }
flows = [{ name = "a", paths = [["a"]] }, { name = "b", paths = [["b"]] }]
"#;
const RATE_MBPS: f64 = 50.0;

const LOSS: &str = r#"
algorithm = "reno"
measure.duration_s = 1
links.a = { rate_mbps = 100, delay_ms = 5, queue.drop_tail = { packets = 10000 }, loss.bernoulli.probability = 0.02 }
flows = [{ name = "a", paths = [["a"]] }]
"#;
const LOSS_PROBABILITY: f64 = 0.02;

const RED: &str = r#"
algorithm = "reno"
measure.duration_s = 1
links.a = { rate_mbps = 10, delay_ms = 5, queue.red = {} }
flows = [{ name = "a", paths = [["a"]] }]
"#;
/// Width of a bin of queue lengths, packets.
const BIN: u32 = 10;

/// 99.9 % of the values of a binomial distribution are within this many standard deviations.
const DEVIATIONS: f64 = 3.29;

/// One measurement of the check.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// Measured quantity, with its unit.
    pub what: String,
    /// The measured value.
    pub measured: f64,
    /// The smallest value that passes.
    pub least: f64,
    /// The largest value that passes.
    pub most: f64,
    /// Whether the value is between the bounds.
    pub holds: bool,
}

impl Measurement {
    fn new(what: impl Into<String>, measured: f64, bounds: RangeInclusive<f64>) -> Measurement {
        Measurement {
            what: what.into(),
            measured,
            least: *bounds.start(),
            most: *bounds.end(),
            holds: bounds.contains(&measured),
        }
    }

    /// A number of `drops` with known mean and variance, as a fraction of `packets`.
    fn binomial(what: String, drops: f64, packets: f64, mean: f64, variance: f64) -> Measurement {
        let width = DEVIATIONS * variance.sqrt();
        let (least, most) = ((mean - width).max(0.0), mean + width);
        Measurement::new(what, drops / packets, least / packets..=most / packets)
    }
}

/// Checks rate and lateness, random loss, and RED, for about 15 s. `on_progress` gets the name of
/// each part when it starts.
///
/// # Errors
/// If the lab can't be built on this machine.
pub fn check(mut on_progress: impl FnMut(&str)) -> Result<Vec<Measurement>, Error> {
    on_progress("rate and lateness at 50 Mbps (8 s)");
    let mut measurements = rate_and_lateness()?;
    on_progress("random loss (3 s)");
    measurements.push(random_loss()?);
    on_progress("RED (4 s)");
    measurements.extend(red()?);
    Ok(measurements)
}

/// Measures the rate of the received payload plus the headers of its packets, and the lateness.
fn rate_and_lateness() -> Result<Vec<Measurement>, Error> {
    const PACKET_BYTES: f64 = 1500.0;
    const PAYLOAD_BYTES: f64 = 1448.0; // without IPv4 20, TCP 20, timestamps 12
    let outcome = build(RATE)?.run(())?;
    let goodput_mbps: f64 = outcome.record.flows.goodput_mbps.iter().sum();
    let rate_mbps = goodput_mbps * PACKET_BYTES / PAYLOAD_BYTES;
    let late = outcome.lateness;
    Ok(vec![
        Measurement::new(
            "rate of two links of 25 Mbps, Mbps",
            rate_mbps,
            RATE_MBPS * 0.99..=RATE_MBPS * 1.01,
        ),
        Measurement::new("lateness, median, us", late.median_us, 0.0..=50.0),
        Measurement::new("lateness, 99th percentile, us", late.p99_us, 0.0..=300.0),
    ])
}

/// The fraction of packets sent that did not reach the server's kernel.
fn random_loss() -> Result<Measurement, Error> {
    const BURSTS: usize = 2000;
    const PACKETS: usize = 10;
    let lab = build(LOSS)?;
    let load = UdpLoad {
        bursts: BURSTS,
        packets: PACKETS,
        payload_bytes: 172,
        pause: Duration::from_millis(1),
    };
    let (_, received) = lab.forward_while(ReturnWay::Delay, (), || load.send(&lab))?;
    let sent = (BURSTS * PACKETS) as f64;
    let mean = sent * LOSS_PROBABILITY;
    Ok(Measurement::binomial(
        "random loss with probability 0.02".to_owned(),
        sent - received as f64,
        sent,
        mean,
        mean * (1.0 - LOSS_PROBABILITY),
    ))
}

/// Bursts of 200 packets fill the queue to about 97 of 100 packets; it drains between them.
fn red() -> Result<Vec<Measurement>, Error> {
    let lab = build(RED)?;
    let load = UdpLoad {
        bursts: 30,
        packets: 200,
        payload_bytes: 1472,
        pause: Duration::from_millis(120),
    };
    let (report, received) =
        lab.forward_while(ReturnWay::Delay, Arrivals::default(), || load.send(&lab))?;
    let Queue::Red(red) = &lab.scenario().links[0].config.queue else {
        unreachable!("the scenario above has RED")
    };
    let arrivals = report.tap.0;
    let passed = arrivals.iter().filter(|(_, dropped)| !dropped).count();
    let mut measurements = vec![Measurement::new(
        "RED: packets received of those let through",
        received as f64 / passed as f64,
        1.0..=1.0,
    )];
    for from in (0..red.max_packets as u32).step_by(BIN as usize) {
        let in_bin = arrivals
            .iter()
            .filter(|(waiting, _)| (from..from + BIN).contains(waiting));
        measurements.extend(drop_rate(red, from, in_bin));
    }
    Ok(measurements)
}

/// The fraction of drops among arrivals at a queue of `from` to `from + BIN - 1` packets.
fn drop_rate<'a>(
    red: &Red,
    from: u32,
    arrivals: impl Iterator<Item = &'a (u32, bool)>,
) -> Option<Measurement> {
    let (mut packets, mut drops, mut mean, mut variance) = (0.0, 0.0, 0.0, 0.0);
    for &(waiting, dropped) in arrivals {
        let probability = red.drop_probability(f64::from(waiting));
        packets += 1.0;
        drops += f64::from(u8::from(dropped));
        mean += probability;
        variance += probability * (1.0 - probability);
    }
    let what = format!("RED: drops at a queue of {from} to {}", from + BIN - 1);
    (packets > 0.0).then(|| Measurement::binomial(what, drops, packets, mean, variance))
}

/// The queue length at each arrival, packets, and whether RED dropped the packet.
#[derive(Default)]
struct Arrivals(Vec<(u32, bool)>);

impl Tap for Arrivals {
    fn offered(&mut self, _: Time, _: usize, waiting: Backlog, _: &Packet, fate: Fate) {
        let dropped = fate == Fate::Dropped(Cause::Red);
        self.0.push((waiting.packets, dropped));
    }
}

/// UDP packets from the first user to the server.
struct UdpLoad {
    bursts: usize,
    packets: usize,
    payload_bytes: usize,
    pause: Duration,
}

impl UdpLoad {
    /// Sends them, and returns how many packets the server's kernel received.
    fn send(&self, lab: &Lab) -> Result<u64, Error> {
        let mut hosts = lab.hosts().map(|(_, host)| host);
        let sender = hosts.next().expect("the scenario has a user");
        let server = hosts.last().expect("every lab has a server");
        let before = received(server)?;
        sender.within(|| {
            let socket = UdpSocket::bind((hosts::of_path(0, 0), 0)).context("a UDP socket")?;
            let payload = vec![0; self.payload_bytes];
            for _ in 0..self.bursts {
                for _ in 0..self.packets {
                    let sent = socket.send_to(&payload, hosts::LISTENER);
                    sent.context("sending UDP packets")?;
                }
                thread::sleep(self.pause);
            }
            Ok(())
        })?;
        thread::sleep(Duration::from_millis(300)); // more than queueing and propagation delay
        Ok(received(server)? - before)
    }
}

/// The number of packets received over the host's device.
fn received(server: &Host) -> Result<u64, Error> {
    let table =
        server.within(|| fs::read_to_string("/proc/thread-self/net/dev").context("net/dev"))?;
    let packets = table.lines().find_map(|line| {
        let counts = line.trim().strip_prefix("paths:")?;
        counts.split_whitespace().nth(1)?.parse().ok()
    });
    packets.ok_or_else(|| Error::new("the server's device has no counters"))
}

fn build(text: &str) -> Result<Lab, Error> {
    let scenario = Scenario::parse(text.as_bytes(), "check", &[])
        .map_err(|error| Error::new(error.to_string()))?;
    Lab::build(&scenario, 1, None)
}
