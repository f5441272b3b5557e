//! A network in memory and in virtual time: datagrams pass emulated links, connections of TCP have
//! no delay.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

use anabranch_net::{Dice, Fate, Link, LinkConfig, Time};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

use super::tcp::Tcp;

/// Bytes of the headers of UDP and IPv4.
const HEADERS: u32 = 28;

/// Most datagrams that a socket keeps for its reader.
const MAILBOX: usize = 4096;

/// The first port that the network chooses.
const FIRST_PORT: u16 = 20_000;

/// Fault of a direction of a link, beside its rate, delay and losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// All datagrams are lost.
    Loses,
    /// All datagrams are delivered this much later.
    Late(Duration),
    /// This share of datagrams is delivered up to this much later, so that others overtake them.
    Reorders(f64, Duration),
}

/// The network.
pub struct Internet {
    start: Instant,
    state: Mutex<State>,
    /// Notification that a datagram arrives earlier than the others.
    earlier: Notify,
}

/// A datagram with its origin.
pub type Datagram = (SocketAddr, Vec<u8>);

/// A datagram on its way: its time of arrival, number and destination.
type Flying = Reverse<(Time, u64, SocketAddr, Datagram)>;

struct State {
    /// Links to and from each address of near.
    links: BTreeMap<IpAddr, [Link; 2]>,
    faults: BTreeMap<IpAddr, [Option<Fault>; 2]>,
    dice: Dice,
    flying: BinaryHeap<Flying>,
    mailboxes: BTreeMap<SocketAddr, Mailbox>,
    listeners: BTreeMap<SocketAddr, mpsc::UnboundedSender<Tcp>>,
    next_port: u16,
    offered: u64,
    /// Hash of all events, for comparison with another run.
    trace: DefaultHasher,
}

#[derive(Default)]
struct Mailbox {
    datagrams: VecDeque<Datagram>,
    reader: Option<Waker>,
}

impl fmt::Debug for Internet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Internet")
    }
}

impl Internet {
    /// A network where each of these addresses of near has a link in both directions.
    pub fn new(links: Vec<(IpAddr, LinkConfig)>, seed: u64) -> Arc<Internet> {
        let pair = |(i, (address, config)): (usize, (IpAddr, LinkConfig))| {
            let link = |k| Link::new(config.clone(), seed ^ (2 * i as u64 + k));
            (address, [link(0), link(1)])
        };
        let internet = Arc::new(Internet {
            start: Instant::now(),
            state: Mutex::new(State {
                links: links.into_iter().enumerate().map(pair).collect(),
                faults: BTreeMap::new(),
                dice: Dice::new(seed),
                flying: BinaryHeap::new(),
                mailboxes: BTreeMap::new(),
                listeners: BTreeMap::new(),
                next_port: FIRST_PORT,
                offered: 0,
                trace: DefaultHasher::new(),
            }),
            earlier: Notify::new(),
        });
        tokio::spawn(internet.clone().deliver());
        internet
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Time since the start.
    pub fn time(&self) -> Duration {
        self.start.elapsed()
    }

    /// Records a present event.
    pub fn note(&self, what: impl Hash) {
        (self.time(), what).hash(&mut self.state().trace);
    }

    /// A number that two runs share if the same events happened at the same times.
    pub fn trace(&self) -> u64 {
        self.state().trace.finish()
    }

    /// Sets the faults of the link of near's address, for datagrams that near sends and receives.
    pub fn disturb(&self, address: IpAddr, faults: [Option<Fault>; 2]) {
        self.state().faults.insert(address, faults);
    }

    /// An address with a port that no other socket has had.
    pub fn port_of(&self, address: IpAddr) -> SocketAddr {
        let mut state = self.state();
        state.next_port += 1;
        SocketAddr::new(address, state.next_port)
    }

    /// Opens a socket of UDP. Returns whether the address was free.
    pub fn open(&self, address: SocketAddr) -> bool {
        let mut state = self.state();
        let is_free = !state.mailboxes.contains_key(&address);
        state.mailboxes.entry(address).or_default();
        is_free
    }

    /// Closes a socket of UDP.
    pub fn close(&self, address: SocketAddr) {
        self.state().mailboxes.remove(&address);
    }

    /// Sends a datagram over the link of near's address.
    pub fn send(&self, from: SocketAddr, to: SocketAddr, payload: &[u8]) {
        let now = self.time().as_nanos() as Time * 1000;
        let mut state = self.state();
        let state = &mut *state;
        (now, from, to, payload.len()).hash(&mut state.trace);
        let (address, direction) = match state.links.contains_key(&from.ip()) {
            true => (from.ip(), 0),
            false => (to.ip(), 1),
        };
        let link = &mut state.links.get_mut(&address).expect("a link of near")[direction];
        let fate = link.offer(now, payload.len() as u32 + HEADERS);
        let fault = state.faults.get(&address).and_then(|it| it[direction]);
        let later = match fault {
            None => Duration::ZERO,
            Some(Fault::Loses) => return,
            Some(Fault::Late(by)) => by,
            Some(Fault::Reorders(share, by)) if state.dice.uniform() < share => {
                by.mul_f64(state.dice.uniform())
            }
            Some(Fault::Reorders(..)) => Duration::ZERO,
        };
        if let Fate::Delivered { at } = fate {
            let at = at + later.as_nanos() as Time * 1000;
            let is_earlier = state.flying.peek().is_none_or(|Reverse(next)| at < next.0);
            let datagram = (from, payload.to_vec());
            state
                .flying
                .push(Reverse((at, state.offered, to, datagram)));
            state.offered += 1;
            if is_earlier {
                self.earlier.notify_one();
            }
        }
    }

    /// The next datagram for a socket. Without one, `waker` is called once there is one.
    pub fn receive(&self, at: SocketAddr, waker: &Waker) -> Option<Datagram> {
        let mut state = self.state();
        let mailbox = state.mailboxes.get_mut(&at)?;
        let datagram = mailbox.datagrams.pop_front();
        if datagram.is_none() {
            mailbox.reader = Some(waker.clone());
        }
        datagram
    }

    /// Delivers datagrams.
    async fn deliver(self: Arc<Internet>) {
        loop {
            let next = self.state().flying.peek().map(|Reverse(next)| next.0);
            let arrival = async {
                match next {
                    Some(at) => {
                        sleep_until(self.start + Duration::from_nanos(at.div_ceil(1000))).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = arrival => self.arrive(),
                () = self.earlier.notified() => {}
            }
        }
    }

    fn arrive(&self) {
        let now = self.time().as_nanos() as Time * 1000;
        let mut state = self.state();
        while state
            .flying
            .peek()
            .is_some_and(|Reverse(next)| next.0 <= now)
        {
            let Some(Reverse((_, _, to, datagram))) = state.flying.pop() else {
                return;
            };
            if let Some(mailbox) = state.mailboxes.get_mut(&to)
                && mailbox.datagrams.len() < MAILBOX
            {
                mailbox.datagrams.push_back(datagram);
                if let Some(reader) = mailbox.reader.take() {
                    reader.wake();
                }
            }
        }
    }

    /// Listens for connections; `None` if the address is taken.
    pub fn listen(&self, address: SocketAddr) -> Option<mpsc::UnboundedReceiver<Tcp>> {
        let mut state = self.state();
        let taken = state.listeners.get(&address);
        if taken.is_some_and(|listener| !listener.is_closed()) {
            return None;
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        state.listeners.insert(address, sender);
        Some(receiver)
    }

    /// Connects to a listener, if there is one.
    pub fn connect(&self, from: IpAddr, to: SocketAddr) -> Option<Tcp> {
        let from = self.port_of(from);
        let state = self.state();
        let listener = state.listeners.get(&to)?;
        let [client, server] = Tcp::pair(from, to);
        listener.send(server).ok()?;
        Some(client)
    }
}
