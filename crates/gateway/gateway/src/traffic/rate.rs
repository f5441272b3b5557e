//! Rate that several flows share: each has the same part while it wants more (start-time fair
//! queueing, Goyal, Vin and Cheng 1996). A flow that has asked and leaves owes nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Time by which the flows may together be ahead of the rate.
const BURST: Duration = Duration::from_millis(100);

/// Time that a turn takes at the rate, unless it has [`LEAST`] bytes.
const TURN: Duration = Duration::from_millis(1);

/// Bytes of a turn, at least.
const LEAST: usize = 1500;

/// Rate of a client: a token bucket, kept as the time at which it is full.
#[derive(Debug)]
pub struct Rate(Mutex<Schedule>);

#[derive(Debug)]
struct Schedule {
    bytes_per_s: Option<f64>,
    full_at: Instant,
    /// Start of the turn that was granted last, in bytes that each flow has had.
    at: u64,
    /// Turns that wait, by their start and in the order in which they came.
    waiting: BTreeMap<(u64, u64), Arc<Notify>>,
    next: u64,
    flows: HashMap<u64, Asked>,
}

/// Turns that a flow has asked for.
#[derive(Debug, Default)]
struct Asked {
    /// End of its last turn.
    end: u64,
    /// Number of its turns that wait.
    turns: usize,
}

/// A flow in a rate. Clones are the same flow.
#[derive(Clone, Debug)]
pub struct Flow {
    rate: Arc<Rate>,
    number: u64,
}

impl Flow {
    /// Flow with this number.
    pub fn new(rate: Arc<Rate>, number: u64) -> Flow {
        Flow { rate, number }
    }

    /// Waits until the rate allows these bytes.
    pub async fn take(&self, bytes: usize) {
        let mut left = bytes;
        while left > 0 {
            let Some(mut turn) = Turn::begin(self, left) else {
                return;
            };
            left -= turn.bytes;
            turn.granted().await;
        }
    }
}

fn bytes_per_s(mbps: Option<f64>) -> Option<f64> {
    mbps.map(|mbps| mbps * 1e6 / 8.0)
}

impl Rate {
    /// A rate in Mbit/s; `None` is unlimited.
    pub fn new(mbps: Option<f64>) -> Rate {
        Rate(Mutex::new(Schedule {
            bytes_per_s: bytes_per_s(mbps),
            full_at: Instant::now(),
            at: 0,
            waiting: BTreeMap::new(),
            next: 0,
            flows: HashMap::new(),
        }))
    }

    /// Changes the rate, also for those that wait.
    pub fn set(&self, mbps: Option<f64>) {
        let mut schedule = self.0.lock();
        schedule.bytes_per_s = bytes_per_s(mbps);
        schedule.waiting.values().for_each(|it| it.notify_one());
    }
}

/// A turn of a flow, which it gives up when this is dropped before it is granted.
struct Turn<'a> {
    flow: &'a Flow,
    bytes: usize,
    key: (u64, u64),
    news: Arc<Notify>,
    waits: bool,
}

impl<'a> Turn<'a> {
    /// Asks for a turn of at most these bytes; `None` if the rate is unlimited.
    fn begin(flow: &'a Flow, bytes: usize) -> Option<Turn<'a>> {
        let mut schedule = flow.rate.0.lock();
        let most = schedule.bytes_per_s? * TURN.as_secs_f64();
        let bytes = bytes.min(LEAST.max(most as usize));
        let at = schedule.at;
        let asked = schedule.flows.entry(flow.number).or_default();
        let start = asked.end.max(at);
        asked.end = start + bytes as u64;
        asked.turns += 1;
        schedule.next += 1;
        let key = (start, schedule.next);
        let news = Arc::new(Notify::new());
        schedule.waiting.insert(key, news.clone());
        Some(Turn {
            flow,
            bytes,
            key,
            news,
            waits: true,
        })
    }

    async fn granted(&mut self) {
        while let Some(until) = self.grant() {
            match until {
                Some(until) => {
                    tokio::select! {
                        () = sleep_until(until) => {}
                        () = self.news.notified() => {}
                    }
                }
                None => self.news.notified().await,
            }
        }
    }

    /// Grants the turn if it is due; otherwise returns when it may be, if no other comes before.
    fn grant(&mut self) -> Option<Option<Instant>> {
        let mut schedule = self.flow.rate.0.lock();
        if let Some(bytes_per_s) = schedule.bytes_per_s {
            if schedule.waiting.keys().next() != Some(&self.key) {
                return Some(None);
            }
            let (now, due) = (Instant::now(), schedule.full_at - BURST);
            if now < due {
                return Some(Some(due));
            }
            let takes = Duration::from_secs_f64(self.bytes as f64 / bytes_per_s);
            schedule.full_at = schedule.full_at.max(now) + takes;
        }
        schedule.at = schedule.at.max(self.key.0);
        self.waits = false;
        schedule.remove(self.key, self.flow.number, true);
        None
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.waits {
            let mut schedule = self.flow.rate.0.lock();
            schedule.remove(self.key, self.flow.number, false);
        }
    }
}

impl Schedule {
    fn remove(&mut self, key: (u64, u64), flow: u64, granted: bool) {
        self.waiting.remove(&key);
        if let Some(first) = self.waiting.values().next() {
            first.notify_one();
        }
        if let Some(asked) = self.flows.get_mut(&flow) {
            asked.turns -= 1;
            if !granted && asked.turns == 0 {
                self.flows.remove(&flow);
            }
        }
        if self.flows.len() > 2 * self.waiting.len() + 64 {
            let at = self.at;
            self.flows.retain(|_, it| it.turns > 0 || it.end > at);
        }
    }
}
