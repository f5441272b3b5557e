//! A network, its users, and what happens to their links and paths.

use anabranch_quic::{Operation, Simulation};
use anabranch_scenario::{Record, Scenario, Virtual};

/// Packets that a link's queue holds, and the longest delay that reorders datagrams, s.
const QUEUE_PACKETS: f64 = 20.0;
const REORDERING_S: f64 = 0.02;

/// How long after the last operation data without limit ends, and then the run, s.
const AFTER_S: f64 = 15.0;
const LAST_FILES_S: f64 = 200.0;

/// A link: rate in Mbps, delay in ms, loss probability.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub rate_mbps: f64,
    pub delay_ms: f64,
    pub loss: f64,
}

impl Link {
    /// The longest time that a packet of 1500 bytes takes: the queue, itself and the delay.
    fn longest_s(&self) -> f64 {
        (QUEUE_PACKETS + 1.0) * 1500.0 * 8e-6 / self.rate_mbps + self.delay_ms * 1e-3 + REORDERING_S
    }
}

/// Event on a link or on a path of a user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    Dies(usize),
    Returns(usize),
    Path(usize, usize, Operation),
}

/// A network, its users' paths as lists of links, and what happens when.
#[derive(Clone, Debug)]
pub struct Case {
    pub links: Vec<Link>,
    /// User 0 has data without limit, the others a file.
    pub users: Vec<Vec<Vec<usize>>>,
    pub bytes: u32,
    pub events: Vec<(f64, Event)>,
    pub algorithm: &'static str,
    pub seed: u64,
}

impl Case {
    /// When the last event happens, s.
    fn last_s(&self) -> f64 {
        self.events.last().map_or(0.0, |(time_s, _)| *time_s)
    }

    fn toml(&self) -> String {
        let end_s = self.last_s() + AFTER_S;
        let mut text = format!(
            "algorithm = '{}'\nmeasure = {{ duration_s = {}, sample_ms = 100 }}\n",
            self.algorithm,
            end_s + LAST_FILES_S
        );
        for (index, link) in self.links.iter().enumerate() {
            text += &format!(
                "[links.L{index}]\nrate_mbps = {}\ndelay_ms = {}\ndown = [{}]\n\
                 loss.bernoulli = {{ probability = {} }}\n\
                 queue.drop_tail = {{ packets = {QUEUE_PACKETS} }}\n",
                link.rate_mbps,
                link.delay_ms,
                self.outages(index).join(", "),
                link.loss,
            );
        }
        for (user, paths) in self.users.iter().enumerate() {
            let workload = match user {
                0 => format!("stop_s = {end_s}"),
                _ => format!("workload.file = {{ bytes = {} }}", self.bytes),
            };
            text += &format!(
                "[[flows]]\nname = 'U{user}'\npaths = {:?}\n{workload}\n",
                names(paths)
            );
        }
        text
    }

    /// When a link is down.
    fn outages(&self, link: usize) -> Vec<String> {
        let mut outages = Vec::new();
        let mut from_s = 0.0;
        for (time_s, event) in &self.events {
            if *event == Event::Dies(link) {
                from_s = *time_s;
            } else if *event == Event::Returns(link) {
                outages.push(format!("{{ from_s = {from_s}, to_s = {time_s} }}"));
            }
        }
        outages
    }

    pub fn run(&self) -> Record {
        let text = self.toml();
        let scenario = Scenario::parse(text.as_bytes(), "a random scenario", &[]);
        let scenario = scenario.unwrap_or_else(|error| panic!("{error}\n{text}"));
        let mut simulation = Simulation::new(&scenario, self.seed).expect("it is supported");
        simulation.reorder(0.02, REORDERING_S);
        for (time_s, event) in &self.events {
            if let Event::Path(user, path, operation) = *event {
                simulation.operate_at(*time_s, user, path, operation);
            }
        }
        simulation.finish()
    }

    /// The longest round trip of user 0, s: forward over any path, back over path 0 or its own.
    pub fn round_trip_s(&self) -> f64 {
        let forward = |path: &Vec<usize>| {
            path.iter()
                .map(|link| self.links[*link].longest_s())
                .sum::<f64>()
        };
        let back = |path: &Vec<usize>| {
            path.iter()
                .map(|link| self.links[*link].delay_ms * 1e-3)
                .sum::<f64>()
                + REORDERING_S
        };
        let longest =
            |of: &dyn Fn(&Vec<usize>) -> f64| self.users[0].iter().map(of).fold(0.0, f64::max);
        longest(&forward) + longest(&back)
    }

    /// When something happens that may stop user 0: one of its paths dies, is closed or rebound, or
    /// its only path that works returns.
    fn stops(&self) -> Vec<f64> {
        let paths = &self.users[0];
        let mut down = vec![false; self.links.len()];
        let mut closed = vec![false; paths.len()];
        let mut worked = true;
        let mut stops = vec![0.0];
        for (time_s, event) in &self.events {
            let mut may_stop = false;
            match *event {
                Event::Dies(link) => {
                    down[link] = true;
                    may_stop = paths.iter().any(|path| path.contains(&link));
                }
                Event::Returns(link) => down[link] = false,
                Event::Path(0, path, operation) => {
                    closed[path] = match operation {
                        Operation::Open => false,
                        Operation::Close => true,
                        Operation::Rebind => closed[path],
                    };
                    may_stop = operation != Operation::Open;
                }
                Event::Path(..) => {}
            }
            let mut open = paths.iter().zip(&closed).filter(|(_, closed)| !**closed);
            let works = open.any(|(path, _)| path.iter().all(|link| !down[*link]));
            if may_stop || !worked {
                stops.push(*time_s);
            }
            worked = works;
        }
        stops
    }

    /// The stalls of user 0: how long each lasted before and after the last event in it that may
    /// have stopped the user, s. A sample without data counts in full.
    pub fn stalls(&self, record: &Record) -> Vec<(f64, f64)> {
        let stops = self.stops();
        let samples = &record.flow_samples;
        let end_s = self.last_s() + AFTER_S;
        let mut stalls = Vec::new();
        let mut from_s = None;
        for row in 0..samples.len() {
            if samples.flow[row] != 0 || samples.time_s[row] > end_s {
                continue;
            }
            let time_s = samples.time_s[row];
            if samples.goodput_mbps[row] == 0.0 {
                from_s.get_or_insert(time_s - 0.1);
            } else if let Some(from_s) = from_s.take() {
                stalls.push((from_s, time_s - 0.1));
            }
        }
        stalls.extend(from_s.map(|from_s| (from_s, end_s)));
        let since = |(from_s, to_s): (f64, f64)| {
            let inside = stops.iter().copied().filter(|stop_s| *stop_s < to_s);
            let last_s = inside.fold(from_s, f64::max);
            (last_s - from_s, to_s - last_s)
        };
        stalls.into_iter().map(since).collect()
    }
}

/// Paths as lists of names of links.
fn names(paths: &[Vec<usize>]) -> Vec<Vec<String>> {
    let names = |path: &Vec<usize>| path.iter().map(|link| format!("L{link}")).collect();
    paths.iter().map(names).collect()
}
