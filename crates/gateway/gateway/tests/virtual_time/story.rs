//! Tells a story and finds its faults.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_net::Time;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::ends::{Ledger, Record, Seen};
use super::gateways::Gateways;
use super::host::path_address;
use super::internet::Internet;
use super::plan::{BUFFER, Connection, Event, Plan, Side, Which};

/// Time in which near has a tunnel again: it notices that far is gone after a second of silence,
/// and a handshake is repeated after up to 4 s and a pause of 1 s.
const RECOVERY: Duration = Duration::from_secs(8);

/// Time in which everything ends: a stall of 12 s, 500 kB at 2 Mbit/s per connection, pauses of 300
/// ms per 500 bytes.
const PATIENCE: Duration = Duration::from_secs(600);

/// A time in which connections that are not open may be refused.
#[derive(Clone, Copy, Debug)]
struct Loss {
    from: Duration,
    to: Duration,
    /// Connections that were opened before this time, and are open when the interval begins, may be
    /// reset.
    resets: Option<Duration>,
}

struct Story {
    internet: Arc<Internet>,
    gateways: Gateways,
    losses: Vec<Loss>,
}

/// Tells the story of a seed, and returns its faults.
pub async fn tell(seed: u64) -> Vec<String> {
    let mut plan = Plan::new(seed);
    // At last one that nothing disturbs.
    let last_event = plan.events.last().map_or(Duration::ZERO, |it| it.0);
    plan.connections.push(Connection {
        start: last_event + Duration::from_secs(120),
        answers: true,
        sides: [(); 2].map(|()| Side {
            bytes: 50_000,
            chunk: 50_000,
            pause: Duration::ZERO,
            resets_after: None,
            stalls: None,
        }),
    });
    let links = plan.links.iter().cloned().enumerate();
    let links = links.map(|(i, link)| (path_address(i), link)).collect();
    let internet = Internet::new(links, seed);
    let ledger = Ledger::new(&internet, plan.connections.clone());
    tokio::spawn(ledger.clone().serve());
    for (i, connection) in plan.connections.iter().enumerate() {
        println!("{i}: {connection:?}");
    }
    println!("{:?}", plan.links);
    let tasks = Handle::current().metrics().num_alive_tasks();
    let mut story = Story {
        gateways: Gateways::start(&internet).await,
        internet: internet.clone(),
        losses: outages(&plan),
    };
    let mut clients = JoinSet::new();
    for i in 0..plan.connections.len() {
        clients.spawn(ledger.clone().client(i));
    }
    for (at, event) in &plan.events {
        sleep_until(Instant::now() - internet.time() + *at).await;
        story.happens(event).await;
    }
    let mut faults = Vec::new();
    let all = async {
        while let Some(client) = clients.join_next().await {
            client.expect("a client does not panic");
        }
    };
    if timeout(PATIENCE, all).await.is_err() {
        faults.push(format!("clients are stuck after {PATIENCE:?}"));
    }
    story.ends().await;
    let alive = Handle::current().metrics().num_alive_tasks();
    if alive > tasks {
        faults.push(format!("{} tasks are left", alive - tasks));
    }
    for (i, record) in ledger.records().iter().enumerate() {
        println!("connection {i}: {record:?}");
        let found = faults_of(record, &plan, i, &story.losses);
        faults.extend(
            found
                .into_iter()
                .map(|fault| format!("connection {i}: {fault}")),
        );
    }
    println!("trace {:x}", internet.trace());
    faults
}

/// Times in which all links are down: near may refuse connections that begin then.
fn outages(plan: &Plan) -> Vec<Loss> {
    let mut losses = vec![Loss {
        from: Duration::ZERO,
        to: RECOVERY,
        resets: None,
    }];
    let time = |time: Time| Duration::from_nanos(time / 1000);
    for first in &plan.links[0].down {
        for second in &plan.links[1].down {
            let (from, to) = (first.0.max(second.0), first.1.min(second.1));
            if from < to {
                losses.push(Loss {
                    from: time(from).saturating_sub(Duration::from_secs(1)),
                    to: time(to) + RECOVERY,
                    resets: None,
                });
            }
        }
    }
    losses
}

impl Story {
    fn note(&mut self, what: &str) {
        let line = format!("{:?}: {what}", self.internet.time());
        self.internet.note(&line);
        println!("{line}");
    }

    fn loses(&mut self, from: Duration, resets: bool) {
        let now = self.internet.time();
        self.losses.push(Loss {
            from,
            to: now + RECOVERY,
            resets: resets.then_some(now),
        });
    }

    async fn happens(&mut self, event: &Event) {
        self.note(&format!("{event:?}"));
        let from = self.internet.time();
        match event {
            Event::Kill(which, pause) => {
                self.gateways.kill(*which).await;
                sleep(*pause).await;
                self.gateways.restart(*which).await;
                self.loses(from, true);
            }
            Event::Drain(which, patience, pause) => {
                let in_time = self.gateways.drain(*which, *patience).await;
                self.note(if in_time { "in time" } else { "too late" });
                sleep(*pause).await;
                self.gateways.restart(*which).await;
                self.loses(from, !in_time);
            }
            Event::Reload(which, limits) => self.gateways.reload(*which, limits).await,
            Event::Remove(pause) => {
                self.gateways.accept_near(false).await;
                sleep(*pause).await;
                self.gateways.accept_near(true).await;
                self.loses(from, true);
            }
        }
        self.note("done");
    }

    /// Ends both gateways, and waits until the library has forgotten their connections.
    async fn ends(&mut self) {
        self.gateways.end(Which::Near).await;
        self.gateways.end(Which::Far).await;
        sleep(Duration::from_secs(60)).await;
        self.note("the end");
    }
}

/// Faults of a connection.
fn faults_of(record: &Record, plan: &Plan, i: usize, losses: &[Loss]) -> Vec<String> {
    let connection = &plan.connections[i];
    let mut faults = Vec::new();
    for (side, account) in record.sides.iter().enumerate() {
        let peer = &record.sides[1 - side];
        if let Some(at) = account.wrong_at {
            faults.push(format!("side {side} read a wrong byte at {at}"));
        }
        if account.read > peer.written {
            faults.push(format!("side {side} read more than was written"));
        }
        let is_whole = peer.ended && account.read == peer.written;
        if account.seen == Some(Seen::End) && !is_whole {
            faults.push(format!("side {side} saw an end that is not true"));
        }
        // Before its server knows it, a connection has no record there.
        if account.seen.is_none() && (side == 0 || record.opened.is_some()) {
            faults.push(format!("side {side} has seen neither end nor reset"));
        }
    }
    let is_complete = record.sides.iter().all(|it| it.seen == Some(Seen::End));
    let [client, server] = &record.sides;
    if connection.answers && client.seen == Some(Seen::End) && client.ended && !is_complete {
        faults.push("the client has an answer to what the server does not have".into());
    }
    let is_reset = client.has_reset || server.has_reset;
    let has_cause = may_be_lost(record, connection, losses) || may_be_stalled(plan, connection);
    if !is_complete && !is_reset && !has_cause {
        faults.push("lost without a cause".into());
    }
    faults
}

/// Whether a gateway may have reset it because its buffer was short (`limits.tunnel_buffer_bytes`).
fn may_be_stalled(plan: &Plan, connection: &Connection) -> bool {
    let is_short = |event: &Event| matches!(event, Event::Reload(_, BUFFER));
    let stalls = connection.sides.iter().any(|side| side.stalls.is_some());
    stalls && plan.events.iter().any(|(_, event)| is_short(event))
}

fn may_be_lost(record: &Record, plan: &Connection, losses: &[Loss]) -> bool {
    let closed = record.closed.iter().flatten().max();
    let closed = closed.copied().unwrap_or(Duration::MAX);
    losses
        .iter()
        .any(|loss| match (record.opened, loss.resets) {
            (Some(opened), Some(back)) => opened <= back && closed >= loss.from,
            (Some(_), None) => false,
            (None, _) => plan.start <= loss.to && closed >= loss.from,
        })
}

/// Number of times that a path has opened and ended.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    opened: u64,
    ended: u64,
    /// Whether it has ended before it opened.
    is_wrong: bool,
}

/// Paths by their names and numbers, which both ends give them.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<Mutex<BTreeMap<String, Count>>>);

impl Lines {
    /// Faults at the end.
    pub fn faults(&self) -> Vec<String> {
        let counts = self.0.lock().expect("no panic");
        if counts.is_empty() {
            return vec!["no path has opened".into()];
        }
        let wrong = counts.iter();
        let wrong = wrong.filter(|(_, count)| count.is_wrong || count.opened != count.ended);
        let faults = wrong.map(|(path, count)| format!("lines of {path}: {count:?}"));
        faults.collect()
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let mut counts = self.0.lock().expect("no panic");
        if line.message.starts_with("path opened") {
            counts.entry(line.path).or_default().opened += 1;
        } else if ["path closed", "path dead"]
            .iter()
            .any(|end| line.message.starts_with(end))
        {
            let count = counts.entry(line.path).or_default();
            count.ended += 1;
            count.is_wrong |= count.ended > count.opened;
        }
    }
}

/// A line of the log.
#[derive(Default)]
struct Line {
    message: String,
    path: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "path" | "id" => self.path += &format!(" {value:?}"),
            _ => {}
        }
    }
}
