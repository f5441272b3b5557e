//! The carrier `quic`: one QUIC connection with several paths, by the library noq.
//!
//! `near` has a UDP socket per configured path (`socket`), connects over the first one that
//! answers (`connect`) and opens the others. It watches all of them (`watchdog`) and tells
//! `far` what they are called and may carry (`control`, `peer`).

use std::fmt;
use std::sync::{Arc, Mutex};

use anabranch_quic::controller::SharedController;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use noq::{
    Connection, ConnectionError, Endpoint, PathEvent, RecvStream, SendDatagramError, SendStream,
    VarInt,
};
use tokio::time::MissedTickBehavior;

use super::{Closed, NotSent, PathState, Stream, printable};
use crate::config;
use crate::tls::Identity;
use crate::udp::Udp;

mod account;
mod allowance;
mod connect;
mod control;
mod credit;
mod listener;
mod paths;
mod peer;
mod probe;
mod reader;
mod settings;
mod share;
mod silence;
mod socket;
mod watchdog;
mod writer;

use account::Account;
use credit::Credit;
pub use listener::Listener;
use peer::Peer;
use reader::{Reader, Waiting};
use watchdog::Watchdog;
use writer::{Turns, Writer};

/// Connects to `far` over the first path that can, and opens the others.
pub async fn connect(
    udp: &Arc<dyn Udp>,
    near: &config::Near,
    identity: &Arc<Identity>,
) -> anyhow::Result<Tunnel> {
    let connected = connect::connect(udp, near, identity).await?;
    let connection = connected.connection;
    let controller = connected.controller;
    let credit = Credit::new(near.settings.limits.tunnel_buffer_bytes);
    let mut control = control::open(&connection).await?;
    let (watchdog, opens) = Watchdog::new(
        &connection,
        connected.sockets,
        controller.clone(),
        &near.paths,
        connected.first,
    );
    for message in &opens {
        control::write(&mut control, message).await?;
    }
    let watchdog = Arc::new(Mutex::new(watchdog));
    let paths = Paths::Near(watchdog.clone(), connected.endpoint);
    let (limits, kept) = (&near.settings.limits, credit.clone());
    let tunnel = Tunnel::new(connection.clone(), controller, kept, limits, paths).await?;
    tokio::spawn(watch(connection.clone(), watchdog, control));
    tokio::spawn(receive_credit(connection, credit));
    Ok(tunnel)
}

/// A connection with several paths. It is closed when the last clone is dropped.
#[derive(Clone)]
pub struct Tunnel(Arc<Inner>);

struct Inner {
    connection: Connection,
    controller: SharedController,
    account: Arc<Account>,
    credit: Arc<Credit>,
    turns: Arc<Turns>,
    waiting: Arc<Waiting>,
    paths: Paths,
}

/// The paths, as each end knows them.
enum Paths {
    /// The endpoint has no other connection.
    Near(
        Arc<Mutex<Watchdog>>,
        #[expect(dead_code, reason = "kept")] Endpoint,
    ),
    Far(Arc<Mutex<Peer>>),
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tunnel")
            .field(&self.0.connection.stable_id())
            .finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.connection.close(VarInt::from_u32(0), b"");
    }
}

impl Tunnel {
    async fn new(
        connection: Connection,
        controller: SharedController,
        credit: Arc<Credit>,
        limits: &config::Limits,
        paths: Paths,
    ) -> Result<Tunnel, ConnectionError> {
        // The peer accepts it first (`receive_credit`), the other one never.
        let given = Credit::open(&connection).await?;
        let turns = Turns::new(connection.open_uni().await?);
        tokio::spawn(credit.clone().run(connection.clone(), given));
        Ok(Tunnel(Arc::new(Inner {
            connection,
            controller,
            account: Arc::new(Account::new()),
            credit,
            turns: Arc::new(turns),
            waiting: Arc::new(Waiting::new(limits.tunnel_buffer_bytes)),
            paths,
        })))
    }

    fn stream(&self, send: SendStream, receive: RecvStream) -> Stream {
        Stream {
            reader: Box::new(Reader::new(
                receive,
                self.0.credit.clone(),
                self.0.waiting.clone(),
            )),
            writer: Box::new(Writer::new(
                send,
                self.0.credit.clone(),
                self.0.turns.clone(),
                self.0.account.clone(),
            )),
        }
    }

    /// A tunnel that `near` has opened.
    async fn accepted(
        connection: Connection,
        controller: SharedController,
        limits: &config::Limits,
    ) -> Result<Tunnel, ConnectionError> {
        let peer = Arc::new(Mutex::new(Peer::new(controller.clone())));
        let paths = Paths::Far(peer.clone());
        let credit = Credit::new(limits.tunnel_buffer_bytes);
        let kept = credit.clone();
        let tunnel = Tunnel::new(connection.clone(), controller, kept, limits, paths).await?;
        tokio::spawn(follow(connection.clone(), peer.clone()));
        tokio::spawn(listen(connection, peer, credit));
        Ok(tunnel)
    }

    /// Opens a stream.
    pub async fn open(&self) -> Result<Stream, Closed> {
        let (send, receive) = self.0.connection.open_bi().await.map_err(closed)?;
        Ok(self.stream(send, receive))
    }

    /// The next stream that the peer has opened.
    pub async fn accept(&self) -> Result<Stream, Closed> {
        let (send, receive) = self.0.connection.accept_bi().await.map_err(closed)?;
        Ok(self.stream(send, receive))
    }

    /// Sends a datagram, and discards the oldest ones if there is no room.
    pub fn send_datagram(&self, datagram: Bytes) -> Result<(), NotSent> {
        let connection = &self.0.connection;
        connection
            .send_datagram(datagram)
            .map_err(|error| match error {
                SendDatagramError::ConnectionLost(error) => NotSent::Closed(closed(error)),
                // The peer is another gateway, which takes datagrams.
                SendDatagramError::TooLarge
                | SendDatagramError::UnsupportedByPeer
                | SendDatagramError::Disabled => {
                    NotSent::TooLarge(connection.max_datagram_size().unwrap_or(0))
                }
            })
    }

    /// Datagrams that wait to be sent, bytes.
    pub fn datagrams_waiting_bytes(&self) -> usize {
        settings::DATAGRAM_SEND_BUFFER - self.0.connection.datagram_send_buffer_space()
    }

    /// Whether this is the same tunnel.
    pub fn is(&self, other: &Tunnel) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The next datagram from the peer.
    pub async fn receive_datagram(&self) -> Result<Bytes, Closed> {
        self.0.connection.read_datagram().await.map_err(closed)
    }

    /// Waits until the tunnel is closed.
    pub async fn closed(&self) -> Closed {
        closed(self.0.connection.closed().await)
    }

    /// Closes the tunnel.
    pub fn close(&self, reason: &str) {
        self.0
            .connection
            .close(VarInt::from_u32(0), reason.as_bytes());
    }

    /// Changes the limits of streams and buffers.
    pub fn set_limits(&self, limits: &config::Limits) {
        settings::set_limits(&self.0.connection, limits);
        self.0.credit.set_budget(limits.tunnel_buffer_bytes);
    }

    /// The paths: on `near` as configured, on `far` as they opened.
    pub fn paths(&self) -> Vec<PathState> {
        match &self.0.paths {
            Paths::Near(watchdog, _) => watchdog.lock().expect("no holder panics").states(),
            Paths::Far(peer) => {
                let peer = peer.lock().expect("no holder panics");
                peer.states(&self.0.connection)
            }
        }
    }

    /// Uses a path of `near` no more.
    pub fn turn_off(&self, path: &str) {
        if let Paths::Near(watchdog, _) = &self.0.paths {
            watchdog.lock().expect("no holder panics").turn_off(path);
        }
    }

    /// Data accepted and never sent, bytes: an estimate, see `account`.
    pub fn unsent_bytes(&self) -> u64 {
        self.0.account.unsent(&self.0.controller)
    }

    /// Data accepted, bytes.
    pub fn accepted_bytes(&self) -> u64 {
        self.0.account.accepted()
    }

    /// The weight of the rule, if it has one.
    pub fn kappa(&self) -> Option<f64> {
        self.0.controller.read(|controller, _| controller.weight())
    }

    /// Sets the weight of the rule.
    pub fn set_kappa(&self, kappa: f64) {
        self.0.controller.set_weight(kappa);
    }
}

fn closed(error: ConnectionError) -> Closed {
    Closed(describe(&error))
}

/// Why a connection failed, in one line.
fn describe(error: &ConnectionError) -> String {
    match error {
        ConnectionError::ApplicationClosed(close) if !close.reason.is_empty() => {
            format!("by the peer: {}", printable(&close.reason))
        }
        ConnectionError::LocallyClosed => "by this gateway".into(),
        ConnectionError::TimedOut => {
            format!(
                "nothing from the peer over any path for {:?}",
                settings::GIVE_UP
            )
        }
        ConnectionError::Reset => "the peer has no such tunnel any more: it was restarted".into(),
        error => printable(error.to_string().as_bytes()),
    }
}

/// Watches the paths of `near` while the tunnel lives.
async fn watch(
    connection: Connection,
    watchdog: Arc<Mutex<Watchdog>>,
    mut control: noq::SendStream,
) {
    let mut events = connection.path_events();
    let mut ticks = tokio::time::interval(allowance::PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while connection.close_reason().is_none() {
        ticks.tick().await;
        let opens = {
            let mut watchdog = watchdog.lock().expect("no holder panics");
            while let Some(Some(event)) = events.next().now_or_never() {
                if let Ok(PathEvent::Abandoned { id, .. }) = event {
                    watchdog.abandoned(&connection, id);
                }
            }
            watchdog.step(&connection)
        };
        for message in &opens {
            if control::write(&mut control, message).await.is_err() {
                return; // closed
            }
        }
    }
}

/// Follows the paths of `far` while the tunnel lives.
async fn follow(connection: Connection, peer: Arc<Mutex<Peer>>) {
    let mut events = connection.path_events();
    let mut ticks = tokio::time::interval(allowance::PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while connection.close_reason().is_none() {
        ticks.tick().await;
        let mut peer = peer.lock().expect("no holder panics");
        while let Some(Some(event)) = events.next().now_or_never() {
            match event {
                Ok(PathEvent::Abandoned { id, .. }) => peer.abandoned(&connection, id),
                Ok(PathEvent::RemoteStatus { id, status, .. }) => {
                    peer.set_remote_status(id, status);
                }
                _ => {}
            }
        }
        peer.step(&connection);
    }
}

/// Receives the peer's limits of streams until the connection is closed.
async fn receive_credit(connection: Connection, credit: Arc<Credit>) {
    if let Ok(limits) = connection.accept_uni().await {
        // An end is one of the connection, or of a peer that grants nothing more.
        let _ = credit.receive(limits).await;
    }
}

/// Listens to what `near` says about its paths and streams.
async fn listen(connection: Connection, peer: Arc<Mutex<Peer>>, credit: Arc<Credit>) {
    let Err(error) = listen_until_closed(&connection, &peer, credit).await else {
        return;
    };
    // Without effect if the connection is closed already.
    let reason = format!("invalid message about a path: {error}");
    connection.close(VarInt::from_u32(2), reason.as_bytes());
}

async fn listen_until_closed(
    connection: &Connection,
    peer: &Mutex<Peer>,
    credit: Arc<Credit>,
) -> anyhow::Result<()> {
    let mut reader = control::Reader::new(connection.accept_uni().await?);
    tokio::spawn(receive_credit(connection.clone(), credit));
    while let Some(message) = reader.read().await? {
        peer.lock().expect("no holder panics").announced(message)?;
    }
    Ok(())
}
