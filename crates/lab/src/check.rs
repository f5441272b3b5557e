//! The self-check: are the links on this machine what they are said to be?

use std::net::UdpSocket;
use std::ops::RangeInclusive;
use std::time::Duration;
use std::{fs, thread};

use anabranch_net::{Backlog, Cause, Fate, Queue, Red, Time};
use anabranch_scenario::Scenario;
use serde::Serialize;

use crate::error::{Context, Error};
use crate::hosts::address;
use crate::hosts::host::Host;
use crate::lab::Lab;
use crate::network::emulator::Tap;

/// Two connections, 25 Mbps each. A queue of 100 packets is more than twice what is in flight
/// without it (42), so it is never empty once slow start is over.
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
/// Lengths of the queue that are judged together, packets.
const BIN: u32 = 10;

/// So many standard deviations from the mean lie 99.9 % of a binomial's draws.
const DEVIATIONS: f64 = 3.29;

/// One line of the check.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// What was measured, with its unit.
    pub what: String,
    /// The measurement.
    pub measured: f64,
    /// The smallest value that passes.
    pub least: f64,
    /// The largest value that passes.
    pub most: f64,
    /// Whether it lies between them.
    pub holds: bool,
}

impl Line {
    fn new(what: impl Into<String>, measured: f64, bounds: RangeInclusive<f64>) -> Line {
        Line {
            what: what.into(),
            measured,
            least: *bounds.start(),
            most: *bounds.end(),
            holds: bounds.contains(&measured),
        }
    }

    /// A number of `drops` whose mean and variance are known, as a share of `packets`.
    fn binomial(what: String, drops: f64, packets: f64, mean: f64, variance: f64) -> Line {
        let width = DEVIATIONS * variance.sqrt();
        let (least, most) = ((mean - width).max(0.0), mean + width);
        Line::new(what, drops / packets, least / packets..=most / packets)
    }
}

/// Checks rate and lateness, random loss, and RED, for about 15 s; `tell` hears what comes next.
///
/// # Errors
/// If the lab can't be built on this machine.
pub fn check(mut tell: impl FnMut(&str)) -> Result<Vec<Line>, Error> {
    tell("rate and lateness at 50 Mbps (8 s)");
    let mut lines = rate_and_lateness()?;
    tell("random loss (3 s)");
    lines.push(random_loss()?);
    tell("RED (4 s)");
    lines.extend(red()?);
    Ok(lines)
}

/// The rate is that of the payload that applications received, with the headers of its packets.
fn rate_and_lateness() -> Result<Vec<Line>, Error> {
    const PACKET_BYTES: f64 = 1500.0;
    const PAYLOAD_BYTES: f64 = 1448.0; // less IPv4 20, TCP 20, timestamps 12
    let outcome = build(RATE)?.run(())?;
    let goodput_mbps: f64 = outcome.record.flows.goodput_mbps.iter().sum();
    let rate_mbps = goodput_mbps * PACKET_BYTES / PAYLOAD_BYTES;
    let late = outcome.lateness;
    Ok(vec![
        Line::new(
            "rate of two links of 25 Mbps, Mbps",
            rate_mbps,
            RATE_MBPS * 0.99..=RATE_MBPS * 1.01,
        ),
        Line::new("lateness, median, us", late.median_us, 0.0..=50.0),
        Line::new("lateness, 99th percentile, us", late.p99_us, 0.0..=300.0),
    ])
}

/// What the sender sent and the receiver's kernel did not get.
fn random_loss() -> Result<Line, Error> {
    const BURSTS: usize = 2000;
    const PACKETS: usize = 10;
    let lab = build(LOSS)?;
    let blast = Blast {
        bursts: BURSTS,
        packets: PACKETS,
        payload_bytes: 172,
        pause: Duration::from_millis(1),
    };
    let (_, received) = lab.carry((), || blast.fire(&lab))?;
    let sent = (BURSTS * PACKETS) as f64;
    let mean = sent * LOSS_PROBABILITY;
    Ok(Line::binomial(
        "random loss with probability 0.02".to_owned(),
        sent - received as f64,
        sent,
        mean,
        mean * (1.0 - LOSS_PROBABILITY),
    ))
}

/// Bursts of 200 packets fill the queue to about 97 of 100, and it drains between them.
fn red() -> Result<Vec<Line>, Error> {
    let lab = build(RED)?;
    let blast = Blast {
        bursts: 30,
        packets: 200,
        payload_bytes: 1472,
        pause: Duration::from_millis(120),
    };
    let (forwarded, received) = lab.carry(Arrivals::default(), || blast.fire(&lab))?;
    let Queue::Red(red) = &lab.scenario().links[0].config.queue else {
        unreachable!("the scenario above has RED")
    };
    let arrivals = forwarded.tap.0;
    let passed = arrivals.iter().filter(|(_, dropped)| !dropped).count();
    let mut lines = vec![Line::new(
        "RED: packets received of those let through",
        received as f64 / passed as f64,
        1.0..=1.0,
    )];
    for from in (0..red.max_packets as u32).step_by(BIN as usize) {
        let here = arrivals
            .iter()
            .filter(|(waiting, _)| (from..from + BIN).contains(waiting));
        lines.extend(curve(red, from, here));
    }
    Ok(lines)
}

/// The share of drops among arrivals that met a queue of `from` packets or up to 9 more.
fn curve<'a>(red: &Red, from: u32, here: impl Iterator<Item = &'a (u32, bool)>) -> Option<Line> {
    let (mut packets, mut drops, mut mean, mut variance) = (0.0, 0.0, 0.0, 0.0);
    for &(waiting, dropped) in here {
        let probability = red.drop_probability(f64::from(waiting));
        packets += 1.0;
        drops += f64::from(u8::from(dropped));
        mean += probability;
        variance += probability * (1.0 - probability);
    }
    let what = format!("RED: drops at a queue of {from} to {}", from + BIN - 1);
    (packets > 0.0).then(|| Line::binomial(what, drops, packets, mean, variance))
}

/// How many packets each arrival met, and whether RED dropped it.
#[derive(Default)]
struct Arrivals(Vec<(u32, bool)>);

impl Tap for Arrivals {
    fn offered(&mut self, _: Time, _: usize, waiting: Backlog, _: &[u8], fate: Fate) {
        let dropped = fate == Fate::Dropped(Cause::Red);
        self.0.push((waiting.packets, dropped));
    }
}

/// UDP packets from the first user to the server.
struct Blast {
    bursts: usize,
    packets: usize,
    payload_bytes: usize,
    pause: Duration,
}

impl Blast {
    /// Sends them, and says how many packets the server's kernel received.
    fn fire(&self, lab: &Lab) -> Result<u64, Error> {
        let mut hosts = lab.hosts().map(|(_, host)| host);
        let sender = hosts.next().expect("there is a user");
        let server = hosts.last().expect("there is a server");
        let before = received(server)?;
        sender.within(|| {
            let socket = UdpSocket::bind((address::of_path(0, 0), 0)).context("a UDP socket")?;
            let payload = vec![0; self.payload_bytes];
            for _ in 0..self.bursts {
                for _ in 0..self.packets {
                    let sent = socket.send_to(&payload, address::LISTENER);
                    sent.context("sending UDP packets")?;
                }
                thread::sleep(self.pause);
            }
            Ok(())
        })?;
        thread::sleep(Duration::from_millis(300)); // more than queue and delay hold
        Ok(received(server)? - before)
    }
}

/// Packets that came in over the host's device.
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
