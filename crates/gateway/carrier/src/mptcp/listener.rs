//! Acceptance of tunnels at `far`.

use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustls::server::Acceptor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::LazyConfigAcceptor;

use super::core::Core;
use super::frame::{Frame, HEADER, Hello};
use super::paths::Paths;
use super::pool::{self, Invitations};
use super::socket::{self, Tls};
use super::{HANDSHAKE, Tunnel, endpoints, establish, kappas};
use crate::config::{self, Live, Settings};
use crate::failure::{self, End};
use crate::handshakes::{Handshakes, Place, Stage};
use crate::keys::PublicKey;
use crate::tls::{self, Identity};

/// Time for near's first message, which follows the TCP connection at once.
const FIRST_FLIGHT: Duration = Duration::from_secs(2);

/// Accepts tunnels.
#[derive(Debug)]
pub struct Listener {
    identity: Arc<Identity>,
    settings: Arc<Live<Settings>>,
    tunnels: tokio::sync::Mutex<mpsc::Receiver<(Tunnel, PublicKey)>>,
    accepting: tokio::task::JoinHandle<()>,
    handshakes: Arc<Handshakes>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Listener {
    /// Listens at the configured address.
    ///
    /// # Errors
    /// If the address cannot be bound, or if the rule is not registered in the kernel.
    #[expect(clippy::unused_async, reason = "the interface of all carriers")]
    pub async fn bind(far: &config::Far, identity: &Arc<Identity>) -> anyhow::Result<Listener> {
        let rule = socket::kernel_rule(&far.settings.algorithm)?;
        kappas(&rule, &far.settings)?;
        let listener = socket::listen(far.listen, &rule)?;
        if let Err(error) = endpoints::raise_limit(endpoints::MOST) {
            tracing::debug!("{error:#}: the number of paths is limited by it");
        }
        endpoints::apply_settings();
        let (sender, receiver) = mpsc::channel(1);
        let handshakes = Handshakes::new();
        let settings = Arc::new(Live::new(far.settings.clone()));
        let accepting = tokio::spawn(accept_all(AcceptAll {
            handshakes: handshakes.clone(),
            listener,
            identity: identity.clone(),
            settings: settings.clone(),
            rule,
            tunnels: sender,
            invitations: Invitations::default(),
        }));
        Ok(Listener {
            identity: identity.clone(),
            settings,
            tunnels: tokio::sync::Mutex::new(receiver),
            accepting,
            handshakes,
        })
    }

    /// Changes the settings of later tunnels, and forgets keys that were removed.
    pub fn set_settings(&self, settings: &Settings) {
        self.handshakes.forget(|key| self.identity.accepts(key));
        self.settings.set(settings.clone());
    }

    /// Number of handshakes that have failed.
    pub fn refused(&self) -> u64 {
        self.handshakes.failures()
    }

    /// The next tunnel whose peer has proved one of the pinned keys.
    pub async fn accept(&self) -> anyhow::Result<(Tunnel, PublicKey)> {
        let next = self.tunnels.lock().await.recv().await;
        next.context("the socket of TCP has failed")
    }
}

/// State of the task that accepts.
struct AcceptAll {
    listener: tokio::net::TcpListener,
    identity: Arc<Identity>,
    settings: Arc<Live<Settings>>,
    rule: String,
    tunnels: mpsc::Sender<(Tunnel, PublicKey)>,
    handshakes: Arc<Handshakes>,
    invitations: Invitations,
}

/// Accepts connections until the socket fails.
async fn accept_all(all: AcceptAll) {
    let all = Arc::new(all);
    loop {
        let (stream, peer) = match all.listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) if is_final(&error) => {
                tracing::error!("accepting connections: {error}");
                return;
            }
            // Out of descriptors, or the peer has gone: the next one may be accepted.
            Err(error) => {
                tracing::warn!("accepting a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let place = all.handshakes.enter(Stage::Hello, peer.ip());
        let all = all.clone();
        tokio::spawn(async move {
            match accept_one(stream, peer.ip(), &all, place).await {
                // An error means that nobody accepts any more.
                Ok(Some(tunnel)) => drop(all.tunnels.send(tunnel).await),
                Ok(None) => {}
                Err(error) => all.handshakes.failed(peer, &error),
            }
        });
    }
}

/// Whether a socket accepts no more after this error of accept(2).
fn is_final(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code.is_some_and(|code| [libc::EBADF, libc::EINVAL, libc::ENOTSOCK].contains(&code))
}

fn failed(error: io::Error) -> anyhow::Error {
    anyhow::Error::msg(failure::of_handshake(&error, End::Far))
}

/// Accepts a connection. Returns a tunnel, or `None` if the connection has joined one or is empty.
async fn accept_one(
    stream: TcpStream,
    peer: IpAddr,
    all: &AcceptAll,
    place: Place,
) -> anyhow::Result<Option<(Tunnel, PublicKey)>> {
    let hello = LazyConfigAcceptor::new(Acceptor::default(), socket::buffered(stream));
    let hello = async {
        match hello.await {
            // A probe of a path, or of the port.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            hello => hello.map(Some).map_err(failed),
        }
    };
    let Some(hello) = place.run(FIRST_FLIGHT, hello).await? else {
        return Ok(None);
    };
    drop(place);
    socket::prepare(&*hello.io.get_ref().0)?;
    let established = async {
        let tls = hello.into_stream(Arc::new(all.identity.server()));
        let mut tls: Tls = tls.await.map_err(failed)?.into();
        let key = tls::peer_key(tls.get_ref().1.peer_certificates().unwrap_or_default())?;
        all.handshakes.proved(&key, peer);
        let settings = all.settings.get();
        let Some(first) = first_frame(&mut tls).await? else {
            return Ok(None);
        };
        match first {
            Frame::Join(token) => {
                all.invitations.join(&token, &key, tls).await?;
                Ok(None)
            }
            first => {
                let kappas = kappas(&all.rule, &settings)?;
                let (limits, paths) = (settings.limits, (Paths::far(), pool::token()));
                let core = Core::new(socket::of(&tls), &all.rule, limits, paths, kappas);
                core.receive(first).map_err(anyhow::Error::msg)?;
                all.invitations.invite(&key, &core);
                Ok(Some((establish(tls, core, None).await?, key)))
            }
        }
    };
    let place = all.handshakes.enter(Stage::Key, peer);
    place.run(HANDSHAKE, established).await
}

/// Reads the frame with which a connection begins; `None` if it ends before, as one does that tries
/// a path. A peer of another version is told this one.
///
/// # Errors
/// If the connection ends, or this is no such frame.
async fn first_frame(tls: &mut Tls) -> anyhow::Result<Option<Frame>> {
    /// Largest body, bytes.
    const LONGEST: usize = 64;
    let mut frame = vec![0; HEADER];
    match tls.read_exact(&mut frame).await {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read.context("the first frame")?,
    };
    let body = usize::from(u16::from_be_bytes([frame[HEADER - 2], frame[HEADER - 1]]));
    ensure!(body <= LONGEST, "a first frame of {body} bytes");
    frame.resize(HEADER + body, 0);
    let read = tls.read_exact(&mut frame[HEADER..]).await;
    read.context("the first frame")?;
    match Frame::decode(&frame, true) {
        Ok(frame) => Ok(Some(frame)),
        Err(reason) => {
            let hello = Frame::Hello(Hello {
                streams: 0,
                token: pool::token(),
            });
            tls.write_all(&hello.encode(false)).await?;
            tls.shutdown().await?;
            // It closes the connection when it has read the version.
            let _ = tls.read(&mut [0; LONGEST]).await;
            bail!(reason)
        }
    }
}
