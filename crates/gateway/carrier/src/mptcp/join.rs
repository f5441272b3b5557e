//! Second connection of a tunnel: plain TCP over the path with the smallest RTT, so that streams
//! that send little wait neither for bulk data nor for a slower path.
//!
//! `far` gives each tunnel a token, over its first connection. `near` connects again, proves its
//! key and sends the token; `far` answers, and `near` confirms. The tunnel goes on without this
//! connection when it fails or another path is faster, and `near` tries again.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::{Context, ensure};
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use socket2::{Protocol, Socket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::core::Core;
use super::mux::{self, HEADER, Lane, Token};
use super::{HANDSHAKE, Tls, connect_tls, driver, supervisor};
use crate::config::{self, Role};
use crate::keys::PublicKey;
use crate::tls::Identity;
use crate::{Condition, PathState};

/// Largest body of the frame with which a connection begins, bytes.
const LONGEST: usize = 64;

/// Longest wait of `near` for the first connection's paths.
const PATHS: Duration = Duration::from_secs(2);

/// Pause after the first attempt, doubled after each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Longest pause between attempts.
const LAST_PAUSE: Duration = Duration::from_secs(64);

/// Interval at which the RTTs of the paths are compared.
const PERIOD: Duration = Duration::from_millis(500);

/// Successive comparisons by which another path is the fastest before the second connection changes
/// to it.
const SLOWER: u32 = 4;

const THIRD: &str = "a third connection of a tunnel";

/// Interval at which paths are examined.
const LOOK: Duration = Duration::from_millis(50);

/// Tunnels of `far` that a second connection may join.
#[derive(Debug, Default)]
pub struct Invitations(Mutex<HashMap<Token, (PublicKey, Weak<Core>)>>);

impl Invitations {
    /// Gives this tunnel a token.
    pub fn invite(&self, key: &PublicKey, core: &Arc<Core>) {
        let mut token = Token::default();
        let filled = SystemRandom::new().fill(&mut token);
        filled.expect("the system has random numbers");
        let mut invited = self.0.lock();
        invited.retain(|_, (_, core)| core.strong_count() > 0);
        invited.insert(token, (key.clone(), Arc::downgrade(core)));
        core.mux(|mux| mux.invite(&token));
    }

    /// Adds this connection to the tunnel with this token and peer.
    ///
    /// # Errors
    /// If there is no such tunnel, it has two connections, or the peer does not confirm.
    pub async fn join(
        &self,
        token: &Token,
        key: &PublicKey,
        mut tls: Tls,
        socket: Socket,
    ) -> anyhow::Result<()> {
        let invited = self.0.lock().get(token).cloned();
        let core = invited.filter(|(invited, _)| invited == key);
        let core = core.and_then(|(_, core)| core.upgrade());
        let core = core.context("a second connection of a tunnel that has ended")?;
        ensure!(core.can_join(), "{THIRD}");
        send(&mut tls, &mux::alive()).await?;
        let confirmation = first_frame(&mut tls).await?;
        ensure!(confirmation == mux::alive(), "no confirmation");
        add(&core, tls, socket)
    }
}

/// Reads the frame with which a connection begins.
///
/// # Errors
/// If the connection ends, or the frame is too long for one.
pub async fn first_frame(tls: &mut Tls) -> anyhow::Result<Vec<u8>> {
    let mut header = [0; HEADER];
    tls.read_exact(&mut header)
        .await
        .context("the first frame")?;
    let body = mux::body_size(&header);
    ensure!(body <= LONGEST, "a first frame of {body} bytes");
    let mut frame = header.to_vec();
    frame.resize(HEADER + body, 0);
    let read = tls.read_exact(&mut frame[HEADER..]).await;
    read.context("the first frame")?;
    Ok(frame)
}

/// Maintains a second connection at `near` until the tunnel is closed.
pub async fn keep(near: config::Near, identity: Arc<Identity>, core: Arc<Core>) {
    let mut pause = FIRST_PAUSE;
    let mut lost = None;
    loop {
        tokio::select! {
            _ = core.until_closed() => return,
            joined = once(&near, &identity, &core, lost.take()) => match joined {
                Ok(path) => {
                    core.stalled(&path);
                    lost = Some(path);
                    pause = FIRST_PAUSE;
                }
                Err(error) => {
                    tracing::debug!("no second connection: {error:#}");
                    pause = (2 * pause).min(LAST_PAUSE);
                }
            }
        }
        tokio::select! {
            _ = core.until_closed() => return,
            () = sleep(pause) => {}
        }
    }
}

/// Joins, and waits until the connection has ended. Returns the name of its path.
async fn once(
    near: &config::Near,
    identity: &Arc<Identity>,
    core: &Arc<Core>,
    lost: Option<String>,
) -> anyhow::Result<String> {
    let used = near.paths.iter();
    let used = used.filter(|path| path.role == Role::Available).count();
    let opened = async {
        while open_paths(core).len() < used || !core.can_join() {
            sleep(LOOK).await;
        }
    };
    let _ = timeout(PATHS, opened).await;
    ensure!(core.can_join(), "the last one has not ended");
    let mut open = open_paths(core);
    if open.len() > 1 {
        open.retain(|path| Some(&path.name) != lost.as_ref());
    }
    let best = fastest(&open).context("no path is open")?;
    let path = near.paths.iter().find(|path| path.name == best.name);
    let path = path.context("a path that is not configured")?;
    let token = core.mux(|mux| mux.invitation());
    let token = token.context("far has not invited one")?;
    let joined = async {
        let (mut tls, socket) =
            connect_tls(near, identity, path, core.rule(), Protocol::TCP).await?;
        send(&mut tls, &mux::join(&token)).await?;
        ensure!(
            first_frame(&mut tls).await? == mux::alive(),
            "far refuses it"
        );
        send(&mut tls, &mux::alive()).await?;
        add(core, tls, socket)
    };
    let joined = timeout(HANDSHAKE, joined).await;
    joined.context("no answer in time")??;
    tracing::debug!(path = path.name, "second connection");
    until_slower(core, &path.name).await;
    Ok(path.name.clone())
}

/// Waits until the second connection has ended; leaves it when another path has been faster for a
/// while.
async fn until_slower(core: &Core, name: &str) {
    let mut slower = 0;
    while core.express().is_some() {
        let open = open_paths(core);
        let is_other = fastest(&open).is_some_and(|path| path.name != name);
        slower = if is_other { slower + 1 } else { 0 };
        if slower == SLOWER {
            core.mux(|mux| mux.leave());
        }
        sleep(PERIOD).await;
    }
}

/// The path with the smallest RTT without queues, of those that are not late.
fn fastest(paths: &[PathState]) -> Option<&PathState> {
    let slower = |a: &&PathState, b: &&PathState| delay_s(a).partial_cmp(&delay_s(b));
    paths.iter().min_by(|a, b| slower(a, b).expect("no NaN"))
}

/// Whether a path is late, and the RTT by which it is compared, s: the smallest, or the latest if
/// it is late.
fn delay_s(path: &PathState) -> (bool, f64) {
    const QUEUE_S: f64 = 0.3;
    let last_s = path.rtt_s.unwrap_or(f64::INFINITY);
    let base_s = path.base_rtt_s.unwrap_or(last_s);
    match last_s > 2.0 * base_s + QUEUE_S {
        true => (true, last_s),
        false => (false, base_s),
    }
}

/// The paths of the tunnel that carry data.
fn open_paths(core: &Core) -> Vec<PathState> {
    core.update_paths();
    let mut paths = core.paths().states();
    paths.retain(|path| path.condition == Condition::Up && path.rtt_s.is_some());
    paths
}

async fn send(tls: &mut Tls, frame: &[u8]) -> io::Result<()> {
    tls.write_all(frame).await?;
    tls.flush().await
}

/// Adds this connection to the tunnel, after both ends have agreed.
fn add(core: &Arc<Core>, tls: Tls, socket: Socket) -> anyhow::Result<()> {
    ensure!(core.join(socket), "{THIRD}");
    supervisor(core).spawn(driver::run(tls, core.clone(), Lane::Express));
    Ok(())
}
