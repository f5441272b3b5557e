//! Connections of `near` that have joined a tunnel and wait for their use, and their making.
//!
//! `far` has given the tunnel a token. `near` connects again, proves its key and sends the token,
//! and `far` answers with a byte. Streams follow (`link`).

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, timeout};

use super::core::{Core, MOST_IDLE};
use super::frame::{Frame, Token};
use super::link::Link;
use super::socket::Tls;
use super::{HANDSHAKE, SILENCE, connect_tls, protocol};
use crate::config::{self, Role};
use crate::keys::PublicKey;
use crate::tls::Identity;
use crate::{Condition, PathState};

/// Fewest connections that wait for their use. The number doubles when a stream finds none, and
/// halves after `CALM` without such a stream.
const SPARE: usize = 8;

/// Time after which fewer connections wait.
const CALM: Duration = Duration::from_secs(60);

/// Most handshakes at a time: `far` has places for 128 of all clients.
const AT_ONCE: usize = 16;

/// Pause after the first failure, doubled after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Longest pause between attempts.
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// Tunnels of `far` that further connections may join.
#[derive(Debug, Default)]
pub struct Invitations(Mutex<HashMap<Token, (PublicKey, Weak<Core>)>>);

/// A new token.
pub fn token() -> Token {
    let mut token = Token::default();
    let filled = SystemRandom::new().fill(&mut token);
    filled.expect("the system has random numbers");
    token
}

impl Invitations {
    /// Lets connections with the token of this tunnel join it.
    pub fn invite(&self, key: &PublicKey, core: &Arc<Core>) {
        let mut invited = self.0.lock();
        invited.retain(|_, (_, core)| core.strong_count() > 0);
        invited.insert(core.token, (key.clone(), Arc::downgrade(core)));
    }

    /// Adds this connection to the tunnel with this token and peer.
    ///
    /// # Errors
    /// If there is no such tunnel, or its key has as many connections as one tunnel may have.
    pub async fn join(&self, token: &Token, key: &PublicKey, tls: Tls) -> anyhow::Result<()> {
        let (core, link) = self.enter(token, key, tls)?;
        link.welcome().await?;
        core.recycle(link);
        Ok(())
    }

    /// Takes a place. If there is none the key with most connections that wait for their use loses
    /// one.
    fn enter(
        &self,
        token: &Token,
        key: &PublicKey,
        tls: Tls,
    ) -> anyhow::Result<(Arc<Core>, Arc<Link>)> {
        let invited = self.0.lock();
        let all = invited.iter();
        let all = all.filter_map(|(token, (key, core))| Some((token, key, core.upgrade()?)));
        let all: Vec<_> = all.collect();
        let core = all
            .iter()
            .find(|(other, of, _)| *other == token && *of == key);
        let (_, _, core) = core.context("a connection of a tunnel that has ended")?;
        let (mut of_all, mut of_key, mut idle) = (0, 0, HashMap::<_, Vec<_>>::new());
        for (_, other, core) in &all {
            of_all += core.joined();
            of_key += if *other == key { core.joined() } else { 0 };
            idle.entry(*other).or_default().extend(core.unused());
        }
        ensure!(
            of_key < core.limits.streams,
            "a connection beyond those that the key may have"
        );
        if of_all >= core.limits.streams_of_all {
            let own = idle.get(key).map_or(0, Vec::len);
            let most = idle.into_values().max_by_key(Vec::len).unwrap_or_default();
            ensure!(
                most.len() > own + 1,
                "a connection beyond those that all keys may have"
            );
            most[0].give_up();
        }
        Ok((core.clone(), Link::new(tls, core)?))
    }
}

/// Keeps connections ready until the tunnel is closed.
pub async fn keep(near: config::Near, identity: Arc<Identity>, core: Arc<Core>) {
    // An endpoint that is added while a connection is being established is never used for it.
    let _ = timeout(SILENCE, core.changes.prepared.notified()).await;
    let (near, mut connecting) = (Arc::new(near), JoinSet::new());
    let mut spare = SPARE;
    let mut calm = Instant::now();
    let (mut pause, mut next) = (FIRST_PAUSE, Instant::now());
    let mut clock = interval(LAST_PAUSE);
    loop {
        let (idle, waiting) = core.demand();
        if waiting > 0 && Instant::now() > calm + SILENCE {
            spare = (2 * spare).min(MOST_IDLE);
            calm = Instant::now();
        } else if calm.elapsed() > CALM {
            spare = (spare / 2).max(SPARE);
            calm = Instant::now();
            core.keep_idle(spare);
        }
        if Instant::now() >= next {
            let missing = (spare + waiting).saturating_sub(idle + connecting.len());
            let room = core.room().saturating_sub(connecting.len());
            for _ in 0..missing
                .min(room)
                .min(AT_ONCE.saturating_sub(connecting.len()))
            {
                connecting.spawn(join(near.clone(), identity.clone(), core.clone()));
            }
        }
        tokio::select! {
            Some(joined) = connecting.join_next() => match joined {
                Ok(Ok(link)) => {
                    core.keep(link);
                    pause = FIRST_PAUSE;
                }
                Ok(Err(error)) => {
                    tracing::debug!("no further connection: {error:#}");
                    next = Instant::now() + pause;
                    pause = (2 * pause).min(LAST_PAUSE);
                }
                Err(panic) => return core.close(panic.to_string()),
            },
            () = core.changes.needed.notified() => {}
            () = sleep(FIRST_PAUSE), if Instant::now() < next => {}
            _ = clock.tick() => core.close_ended(),
            _ = core.until_closed() => return,
        }
    }
}

/// Connects over one path after the other, the best first.
async fn join(
    near: Arc<config::Near>,
    identity: Arc<Identity>,
    core: Arc<Core>,
) -> anyhow::Result<Arc<Link>> {
    let token = core.invitation().context("far has said nothing yet")?;
    let paths = in_order(&near, &core);
    ensure!(!paths.is_empty(), "no path is open");
    let last = paths.len() - 1;
    for (index, (path, rtt)) in paths.into_iter().enumerate() {
        let connecting = async {
            let mut tls = connect_tls(&near, &identity, path, core.rule(), protocol(&near)).await?;
            tls.write_all(&Frame::Join(token).encode(true)).await?;
            tls.flush().await?;
            tls.read_u8().await.context("far refuses it")?;
            anyhow::Ok(tls)
        };
        let patience = if index == last {
            HANDSHAKE
        } else {
            SILENCE.max(6 * rtt)
        };
        match timeout(patience, connecting).await {
            Ok(Ok(tls)) => return Link::new(tls, &core),
            Ok(Err(error)) if index == last => return Err(error),
            _ => {}
        }
    }
    bail!("no answer in time")
}

/// Paths by which to connect, the best first, with their RTTs.
fn in_order<'a>(near: &'a config::Near, core: &Core) -> Vec<(&'a config::Path, Duration)> {
    core.update_paths();
    let states = core.paths().states();
    let used = near.paths.iter().filter(|path| path.role != Role::Never);
    let ranked = used.map(|path| {
        let state = states.iter().find(|state| state.name == path.name);
        (path, state.map_or((2, f64::INFINITY), rank), state)
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_by(|(_, a, _), (_, b, _)| a.partial_cmp(b).expect("no NaN"));
    let rtt = |state: Option<&PathState>| state.and_then(|state| state.rtt_s).unwrap_or(0.0);
    let paths = ranked.into_iter();
    paths
        .map(|(path, _, state)| (path, Duration::from_secs_f64(rtt(state))))
        .collect()
}

/// Whether a path works, is a backup, or neither; and the RTT by which it is compared, s: the
/// smallest, or the latest if it is late.
fn rank(path: &PathState) -> (u8, f64) {
    const QUEUE_S: f64 = 0.3;
    let condition = match path.condition {
        Condition::Up => 0,
        Condition::Standby => 1,
        _ => 2,
    };
    let last_s = path.rtt_s.unwrap_or(f64::INFINITY);
    let base_s = path.base_rtt_s.unwrap_or(last_s);
    match last_s > 2.0 * base_s + QUEUE_S {
        true => (condition, last_s),
        false => (condition, base_s),
    }
}
