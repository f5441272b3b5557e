//! The carrier `quic`: one QUIC connection with several paths.
//!
//! `near` has a UDP socket per configured path, connects over the first one that answers
//! (`connect`) and opens the others (`near`). It watches all of them (`paths`) and tells `far` what
//! they are called and may carry (`control`, `far`). `library` alone knows the QUIC library.

use std::fmt;
use std::sync::Arc;

use anyhow::anyhow;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::config::{self, Carrier};
use crate::shares::{DatagramRoom, Kind, Shares};
use crate::supervisor::Supervisor;
use crate::tls::Identity;
use crate::{Carried, Closed, Lines, NotSent, PathState, Stream, Tunnel};

mod account;
mod connect;
mod control;
mod credit;
#[doc(hidden)]
pub mod fuzzing;
mod library;
mod limits;
mod listener;
mod paths;
mod probe;
mod reader;
mod turns;
mod writer;

use account::Account;
use connect::Connected;
pub(crate) use connect::answers;
use credit::Credit;
pub use library::udp;
use library::{Client, Connection, Receiving, Sending};
pub use listener::Listener;
use paths::{Followed, Paths};
use reader::{Reader, Waiting};
use turns::Turns;
use udp::Udp;
use writer::Writer;

/// Code of a connection that is closed because the peer violates the protocol.
const INVALID: u32 = 2;

/// Connects to `far` over the first path that answers, and opens the others.
pub async fn connect(
    udp: &Arc<dyn Udp>,
    near: &config::Near,
    identity: &Arc<Identity>,
) -> anyhow::Result<Tunnel> {
    let connected = connect::connect(udp, near, identity).await?;
    let opened = Inner::near(connected, &near.settings.limits).await;
    opened.map(Tunnel::new).map_err(|closed| anyhow!(closed.0))
}

/// A connection with several paths.
struct Inner {
    connection: Connection,
    account: Arc<Account>,
    shares: Arc<Shares>,
    credit: Arc<Credit>,
    turns: Arc<Turns<Sending>>,
    waiting: Arc<Waiting>,
    ends: Ends,
    tasks: Supervisor,
}

/// Paths, as each end knows them.
enum Ends {
    Near(
        Arc<Mutex<Paths>>,
        #[expect(dead_code, reason = "kept")] Client,
    ),
    Far(Arc<Mutex<Followed>>),
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tunnel").field(&self.connection).finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.connection.close(0, "");
    }
}

impl Inner {
    /// The end that has connected. Opens the other paths.
    async fn near(connected: Connected, limits: &config::Limits) -> Result<Inner, Closed> {
        let connection = connected.connection;
        let mut control = connection.open_one_way(true).await?;
        let (paths, opens) = paths::paths(&connection, &connected.sockets, connected.first);
        let paths = Arc::new(Mutex::new(paths));
        let ends = Ends::Near(paths.clone(), connected.endpoint);
        // Fails if the connection is closed, and then the next one does, too.
        let _ = control::write(&mut control, &opens).await;
        let inner = Inner::new(connection.clone(), limits, ends).await?;
        let tasks = &inner.tasks;
        tasks.spawn(watch(connection.clone(), paths, control));
        tasks.spawn(receive_credit(connection, inner.credit.clone()));
        Ok(inner)
    }

    /// The end that has accepted.
    async fn far(
        connection: Connection,
        limits: &config::Limits,
        lines: Arc<Mutex<Lines>>,
    ) -> Result<Inner, Closed> {
        let followed = Followed::new(connection.clone(), lines);
        let followed = Arc::new(Mutex::new(followed));
        let ends = Ends::Far(followed.clone());
        let inner = Inner::new(connection.clone(), limits, ends).await?;
        let (tasks, credit) = (&inner.tasks, inner.credit.clone());
        tasks.spawn(follow(connection.clone(), followed.clone()));
        tasks.spawn(listen(connection, followed, credit));
        Ok(inner)
    }

    async fn new(
        connection: Connection,
        limits: &config::Limits,
        ends: Ends,
    ) -> Result<Inner, Closed> {
        // The peer accepts it first (`receive_credit`), the other one never.
        let given = connection.open_one_way(true).await?;
        let turns = Turns::new(connection.open_one_way(false).await?);
        let closing = connection.clone();
        let tasks = Supervisor::new(move |reason| closing.close(0, reason));
        let credit = Credit::new(limits.tunnel_buffer_bytes);
        tasks.spawn(credit.clone().run(connection.clone(), given));
        Ok(Inner {
            connection,
            account: Arc::new(Account::new()),
            shares: Arc::default(),
            credit,
            turns: Arc::new(turns),
            waiting: Arc::new(Waiting::new(limits.tunnel_buffer_bytes)),
            ends,
            tasks,
        })
    }

    fn stream(&self, (send, receive): (Sending, Receiving)) -> Stream {
        let credit = || self.credit.clone();
        let reader = Reader::new(receive.into_pieces(), credit(), self.waiting.clone());
        let counts = (self.account.clone(), self.shares.clone());
        let writer = Writer::new(send, credit(), self.turns.clone(), counts);
        Stream {
            reader: Box::new(reader),
            writer: Box::new(writer),
        }
    }
}

impl Carried for Inner {
    fn carrier(&self) -> Carrier {
        Carrier::Quic
    }

    fn open(&self) -> BoxFuture<'_, Result<Stream, Closed>> {
        Box::pin(async { Ok(self.stream(self.connection.open().await?)) })
    }

    fn accept(&self) -> BoxFuture<'_, Result<Stream, Closed>> {
        Box::pin(async { Ok(self.stream(self.connection.accept().await?)) })
    }

    fn send_datagram(&self, client: u64, datagram: Bytes) -> Result<(), NotSent> {
        let bytes = datagram.len();
        self.connection.send_datagram(datagram)?;
        self.shares.add(client, Kind::Datagrams, bytes);
        Ok(())
    }

    fn datagram_room(&self, client: u64, bytes: usize) -> DatagramRoom {
        if bytes > self.connection.largest_datagram() {
            return DatagramRoom::TooLarge;
        }
        let waiting = self.connection.datagrams_waiting_bytes();
        let something_waits = !self.connection.controller().is_app_limited();
        self.shares.room(client, waiting, something_waits)
    }

    fn receive_datagram(&self) -> BoxFuture<'_, Result<Bytes, Closed>> {
        Box::pin(self.connection.receive_datagram())
    }

    fn closed(&self) -> BoxFuture<'_, Closed> {
        Box::pin(self.connection.closed())
    }

    fn close(&self, reason: &str) {
        self.connection.close(0, reason);
    }

    fn set_limits(&self, limits: &config::Limits) {
        self.connection.set_limits(limits);
        self.credit.set_budget(limits.tunnel_buffer_bytes);
    }

    fn paths(&self) -> Vec<PathState> {
        match &self.ends {
            Ends::Near(paths, _) => paths.lock().states(),
            Ends::Far(followed) => followed.lock().paths.states(),
        }
    }

    fn works(&self) -> bool {
        match &self.ends {
            Ends::Near(paths, _) => paths.lock().any_works(),
            Ends::Far(followed) => followed.lock().paths.any_works(),
        }
    }

    fn turn_off(&self, path: &str) {
        if let Ends::Near(paths, _) = &self.ends {
            paths.lock().turn_off(path);
        }
    }

    /// An estimate, see `account`.
    fn unsent_bytes(&self) -> u64 {
        self.account.unsent(self.connection.controller())
    }

    fn accepted_bytes(&self) -> u64 {
        self.account.accepted()
    }

    fn kappa(&self) -> Option<f64> {
        let controller = self.connection.controller();
        controller.read(|controller, _| controller.weight())
    }

    fn set_kappa(&self, kappa: f64) {
        self.connection.controller().set_weight(kappa);
    }
}

/// Watches the paths of `near` while the tunnel lives.
async fn watch(connection: Connection, paths: Arc<Mutex<Paths>>, mut control: Sending) {
    let mut events = connection.events();
    let mut ticks = ticks();
    while !connection.is_closed() {
        ticks.tick().await;
        let opens = paths::step(&mut paths.lock(), events.take());
        for message in &opens {
            if control::write(&mut control, message).await.is_err() {
                return; // closed
            }
        }
    }
}

/// Follows the paths of `far` while the tunnel lives.
async fn follow(connection: Connection, followed: Arc<Mutex<Followed>>) {
    let mut events = connection.events();
    let mut ticks = ticks();
    while !connection.is_closed() {
        ticks.tick().await;
        followed.lock().step(events.take());
    }
}

fn ticks() -> Interval {
    let mut ticks = interval(paths::PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Receives the peer's limits of streams until the connection is closed.
async fn receive_credit(connection: Connection, credit: Arc<Credit>) {
    if let Ok(limits) = connection.accept_one_way().await {
        // The connection has ended, or the peer grants nothing more.
        let _ = credit.receive(limits).await;
    }
}

/// Receives `near`'s messages about its paths and streams.
async fn listen(connection: Connection, followed: Arc<Mutex<Followed>>, credit: Arc<Credit>) {
    // `near` opens the stream of its paths first.
    let Ok(control) = connection.accept_one_way().await else {
        return;
    };
    let announcements = async {
        if let Err(error) = read_announcements(control, &followed).await {
            let reason = format!("invalid message about a path: {error}");
            connection.close(INVALID, &reason);
        }
    };
    tokio::join!(announcements, receive_credit(connection.clone(), credit));
}

async fn read_announcements(control: Receiving, followed: &Mutex<Followed>) -> anyhow::Result<()> {
    let mut reader = control::Reader::new(control);
    while let Some(message) = reader.read().await? {
        followed.lock().announced(message)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::config::{Far, Near, Path, Settings};
    use crate::keys::KeyPair;
    use crate::supervisor::PANICKED;

    #[tokio::test]
    async fn a_task_that_panics_closes_the_tunnel_with_a_reason_at_both_ends() {
        let key = || KeyPair::generate().expect("random numbers");
        let (near_key, far_key) = (key(), key());
        let near_identity = Identity::new(&near_key, vec![far_key.public().clone()]);
        let far_identity = Identity::new(&far_key, vec![near_key.public().clone()]);
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let settings = Settings::new(Carrier::Quic, "olia");
        let far = Far {
            listen: loopback,
            settings: settings.clone(),
        };
        let listener = Listener::bind(&far, &far_identity).await.expect("free");
        let near = Near {
            far: listener.local_addr().expect("bound").into(),
            paths: vec![Path {
                address: Some(loopback.ip()),
                ..Path::new("only")
            }],
            settings,
        };
        let kernel: Arc<dyn Udp> = Arc::new(udp::Kernel);
        let connecting = connect::connect(&kernel, &near, &near_identity);
        let (connected, accepted) = tokio::join!(connecting, listener.accept());
        let connected = connected.expect("connected");
        let inner = Inner::near(connected, &near.settings.limits).await;
        let inner = inner.expect("established");
        let (far, _) = accepted.expect("accepted");
        inner.tasks.spawn(async { panic!("a broken task") });
        let reasons = [
            "by this gateway".to_owned(),
            format!("by the peer: {PANICKED}"),
        ];
        for (tunnel, reason) in [&inner as &dyn Carried, &*far].into_iter().zip(reasons) {
            let closed = timeout(Duration::from_secs(10), tunnel.closed()).await;
            assert_eq!(closed.expect("closed in time").0, reason);
        }
    }
}
