//! The second connection of a tunnel, of which the data of streams that send little need not wait
//! for that of bulk in one sequence.
//!
//! `far` gives each tunnel a token, over its first connection. `near` connects again, proves its
//! key and sends the token; `far` answers, and `near` confirms. Until then nothing is lost if this
//! connection fails; afterwards the tunnel ends with either connection.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::{Context, ensure};
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use socket2::Socket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::core::Core;
use super::mux::{self, HEADER, Lane, Token};
use super::{HANDSHAKE, Tls, connect_tls, driver, supervisor};
use crate::config::{self, Role};
use crate::keys::PublicKey;
use crate::tls::Identity;
use crate::{Condition, PathState};

/// The largest body of the frame with which a connection begins, bytes.
const LONGEST: usize = 64;

/// How long `near` waits for the first connection's paths, and for those of the second one.
const PATHS: Duration = Duration::from_secs(2);

/// Pauses between attempts: the first, doubled up to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(64);

/// How often paths are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// The tunnels of `far` that a second connection may join.
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

    /// Adds this connection to the tunnel with this token and of this peer.
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
        tls.write_all(&mux::alive()).await?;
        tls.flush().await?;
        let confirmation = first_frame(&mut tls).await?;
        ensure!(confirmation == mux::alive(), "no confirmation");
        // Only one connection finds its token here.
        let is_first = self.0.lock().remove(token).is_some();
        ensure!(is_first, "a third connection of a tunnel");
        add(&core, tls, socket);
        Ok(())
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

/// Joins `far`'s end with a second connection, again and again until that succeeds or the tunnel is
/// closed.
pub async fn keep_trying(near: config::Near, identity: Arc<Identity>, core: Arc<Core>) {
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::select! {
            _ = core.until_closed() => return,
            joined = try_once(&near, &identity, &core) => match joined {
                Ok(()) => return,
                Err(error) => tracing::debug!("no second connection: {error:#}"),
            }
        }
        tokio::select! {
            _ = core.until_closed() => return,
            () = sleep(pause) => pause = (2 * pause).min(LAST_PAUSE),
        }
    }
}

async fn try_once(
    near: &config::Near,
    identity: &Arc<Identity>,
    core: &Arc<Core>,
) -> anyhow::Result<()> {
    let used = near
        .paths
        .iter()
        .filter(|path| path.role == Role::Available);
    let used = used.count();
    let opened = async {
        while open_paths(core).len() < used {
            sleep(LOOK).await
        }
    };
    let _ = timeout(PATHS, opened).await;
    // Linux sends idle connections' data over their first path.
    let open = open_paths(core);
    let best = open
        .iter()
        .min_by(|a, b| a.rtt_s.partial_cmp(&b.rtt_s).expect("no NaN"));
    let best = best.context("no path is open")?;
    let path = near.paths.iter().find(|path| path.name == best.name);
    let path = path.context("a path that is not configured")?;
    let token = core.mux(|mux| mux.invitation());
    let token = token.context("far has not invited one")?;
    let joined = async {
        let (mut tls, socket) = connect_tls(near, identity, path, core.rule()).await?;
        tls.write_all(&mux::join(&token)).await?;
        tls.flush().await?;
        ensure!(
            first_frame(&mut tls).await? == mux::alive(),
            "far refuses it"
        );
        anyhow::Ok((tls, socket))
    };
    let joined = timeout(HANDSHAKE, joined).await;
    let (mut tls, socket) = joined.context("no answer in time")??;
    // With one path only it would wait as long as this path is dead.
    let has_paths = async {
        while anabranch_sockets::mptcp_info(&socket)?.is_some_and(|paths| paths.len() < open.len())
        {
            sleep(LOOK).await;
        }
        anyhow::Ok(())
    };
    timeout(PATHS, has_paths)
        .await
        .context("it has one path only")??;
    tls.write_all(&mux::alive()).await?;
    tls.flush().await?;
    add(core, tls, socket);
    Ok(())
}

/// The paths of the tunnel that carry data.
fn open_paths(core: &Core) -> Vec<PathState> {
    core.update_paths();
    let mut paths = core.paths().states();
    paths.retain(|path| path.condition == Condition::Up && path.rtt_s.is_some());
    paths
}

/// Both ends have agreed: the tunnel has this connection, too.
fn add(core: &Arc<Core>, tls: Tls, socket: Socket) {
    core.join(socket);
    supervisor(core).spawn(driver::run(tls, core.clone(), Lane::Express));
}
