//! Handshakes with clients that have not proved a key yet, for both carriers.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::bail;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::admission::{Closing, Known, Lines, PLACES, Places};
use crate::keys::PublicKey;

/// Number of taken places, or of connections that are closing after a failed handshake, from which
/// on clients must validate their addresses (RFC 9000, section 8.1).
const CROWD: usize = PLACES / 4;

/// Handshakes of a listener.
#[derive(Debug)]
pub(super) struct Handshakes {
    state: Mutex<State>,
    failed: AtomicU64,
}

#[derive(Debug)]
struct State {
    hellos: Places<DropGuard>,
    keys: Places<DropGuard>,
    known: Known,
    closing: Closing,
    lines: Lines,
    /// Lines about the paths of each peer.
    of_peers: HashMap<PublicKey, Arc<Mutex<crate::Lines>>>,
}

/// Stage of a handshake at `far`. Each stage has its own places.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// `far` waits for a whole ClientHello.
    Hello,
    /// `far` waits for the proof of a key, and for the first messages of the tunnel.
    Key,
}

/// A place, taken until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    handshakes: Arc<Handshakes>,
    stage: Stage,
    number: u64,
    lost: CancellationToken,
}

impl Handshakes {
    /// A listener's handshakes, none yet.
    pub fn new() -> Arc<Handshakes> {
        let state = State {
            hellos: Places::new(),
            keys: Places::new(),
            known: Known::default(),
            closing: Closing::default(),
            lines: Lines::default(),
            of_peers: HashMap::new(),
        };
        Arc::new(Handshakes {
            state: Mutex::new(state),
            failed: AtomicU64::new(0),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Whether clients must validate their addresses.
    pub fn is_crowded(&self) -> bool {
        let mut state = self.state();
        state.keys.taken().max(state.closing.count(Instant::now())) >= CROWD
    }

    /// Whether a handshake over QUIC from this address may begin.
    pub fn has_room(&self, address: IpAddr) -> bool {
        let mut state = self.state();
        let is_known = state.known.has(address);
        state.closing.has_room(address, is_known, Instant::now())
    }

    /// Takes a place, perhaps from another handshake.
    pub fn enter(self: &Arc<Handshakes>, stage: Stage, address: IpAddr) -> Place {
        let lost = CancellationToken::new();
        let mut state = self.state();
        let is_known = state.known.has(address);
        let places = state.places(stage);
        let (number, loser) = places.enter(address, is_known, lost.clone().drop_guard());
        drop((state, loser));
        Place {
            handshakes: self.clone(),
            stage,
            number,
            lost,
        }
    }

    /// Records that a client has proved this key.
    pub fn proved(&self, key: &PublicKey, address: IpAddr) {
        self.state().known.proved(key, address);
    }

    /// Forgets the addresses of keys that are not accepted any more.
    pub fn forget(&self, accepts: impl Fn(&PublicKey) -> bool) {
        let mut state = self.state();
        state.known.retain(&accepts);
        state.of_peers.retain(|key, _| accepts(key));
    }

    /// Lines in the log about the paths of a peer.
    pub fn lines_of(&self, key: &PublicKey) -> Arc<Mutex<crate::Lines>> {
        let mut state = self.state();
        let lines = state.of_peers.entry(key.clone());
        let new = || Arc::new(Mutex::new(crate::Lines::of_peer()));
        lines.or_insert_with(new).clone()
    }

    /// Counts a handshake that was not begun.
    pub fn ignored(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failure, and logs it if few were logged lately.
    pub fn failed(&self, address: SocketAddr, error: &anyhow::Error) {
        self.ignored();
        let now = Instant::now();
        let mut state = self.state();
        let is_known = state.known.has(address.ip());
        state.closing.failed(address.ip(), is_known, now);
        let line = state.lines.failed(address.ip(), now);
        drop(state);
        if let Some(unlogged) = line {
            tracing::warn!(%address, unlogged, "handshake failed: {error:#}");
        }
    }

    /// Number of handshakes that have failed.
    pub fn failures(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

impl State {
    fn places(&mut self, stage: Stage) -> &mut Places<DropGuard> {
        match stage {
            Stage::Hello => &mut self.hellos,
            Stage::Key => &mut self.keys,
        }
    }
}

impl Place {
    /// Runs a part of the handshake.
    ///
    /// # Errors
    /// If it fails, takes longer than `limit`, or loses its place.
    pub async fn run<T>(
        &self,
        limit: Duration,
        part: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        match self.lost.run_until_cancelled(timeout(limit, part)).await {
            Some(Ok(result)) => result,
            Some(Err(_)) => bail!("no whole handshake in {limit:?}"),
            None => bail!("too many handshakes at a time"),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.handshakes.state();
        let ended = state.places(self.stage).leave(self.number);
        drop((state, ended));
    }
}
