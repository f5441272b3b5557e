//! Drives yamux in one task, opens and accepts streams.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use futures_util::io::AsyncReadExt;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;
use tokio_rustls::TlsStream;

use super::control;
use super::core::Core;
use super::emptying::Emptying;
use super::stream;
use super::transport::{self, Transport};
use crate::carrier::{Closed, Stream};

/// How long sending what is queued, and CLOSE, may take.
const DRAIN: Duration = Duration::from_millis(500);

/// Why a tunnel is closed if the peer gives no reason.
const CLOSED: &str = "the peer has closed the connection";

/// The end of the tunnel that this gateway is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has connected.
    Near,
    /// It has accepted.
    Far,
}

/// An end of an established tunnel; it is closed when this is dropped.
#[derive(Debug)]
pub struct Handle {
    /// Shared state.
    pub core: Arc<Core>,
    opening: mpsc::Sender<oneshot::Sender<yamux::Stream>>,
    accepted: Mutex<mpsc::UnboundedReceiver<yamux::Stream>>,
    /// Streams whose queues the task of yamux is to empty.
    streams: mpsc::UnboundedSender<stream::Queued>,
    /// Streams that may still be opened.
    slots: Arc<Semaphore>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.core.close_by_user("dropped");
    }
}

/// Starts yamux over this connection and exchanges HELLO messages.
///
/// # Errors
/// If the connection ends, or the peer has another protocol version.
pub async fn establish(
    tls: TlsStream<transport::Socket>,
    role: Role,
    core: Arc<Core>,
) -> anyhow::Result<Handle> {
    let transport = Transport::new(tls, core.clone());
    let (opening, opening_receiver) = mpsc::channel(16);
    let (accepted_sender, accepted) = mpsc::unbounded_channel();
    let (streams, emptying) = Emptying::new();
    let mode = match role {
        Role::Near => yamux::Mode::Client,
        Role::Far => yamux::Mode::Server,
    };
    tokio::spawn(run(Driver {
        connection: yamux::Connection::new(transport.clone(), settings(&core), mode),
        transport,
        emptying,
        opening: opening_receiver,
        wanted: None,
        accepted: accepted_sender,
        core: core.clone(),
    }));
    let mut handle = Handle {
        core: core.clone(),
        opening,
        accepted: Mutex::new(accepted),
        streams,
        slots: Arc::new(Semaphore::new(0)),
    };
    let control = match role {
        Role::Near => handle.open_plain().await,
        Role::Far => handle.accept_plain().await,
    };
    let mut control = control.with_context(|| core.lost())?;
    control::send_hello(&mut control, &core)
        .await
        .with_context(|| core.lost())?;
    let hello = control::receive_hello(&mut control).await;
    let slots = hello.with_context(|| core.lost())?;
    handle.slots = Arc::new(Semaphore::new(slots.min(core.streams)));
    tokio::spawn(run_control(control, core));
    Ok(handle)
}

/// yamux counts streams longer than the peer does, and ends the tunnel at its limit. Its limit is
/// therefore higher than HELLO's, which [`Handle::open`] respects.
fn settings(core: &Core) -> yamux::Config {
    /// The smallest receive window of a stream, bytes, which yamux does not let be changed.
    const WINDOW: usize = yamux::DEFAULT_CREDIT as usize;
    let streams = 2 * core.streams + 64;
    let mut settings = yamux::Config::default();
    settings.set_max_connection_receive_window(None);
    settings.set_max_num_streams(streams);
    // Windows grow with the rate of a stream; all growth together is limited.
    settings.set_max_connection_receive_window(Some(streams * WINDOW + core.window_bytes));
    settings.set_split_send_size(stream::FRAME);
    settings
}

/// Runs the control stream until the tunnel ends.
async fn run_control(control: yamux::Stream, core: Arc<Core>) {
    let (mut reader, mut writer) = control.split();
    let ends = async {
        tokio::select! {
            reason = control::receive_all(&mut reader, &core) => reason.unwrap_or_else(|| core.lost()),
            reason = control::watch(&core) => reason,
        }
    };
    let sends = async {
        if control::send_all(&mut writer, &core).await.is_ok() {
            // The rest of the tunnel ends with the task of yamux.
            std::future::pending::<()>().await;
        }
        std::future::pending::<String>().await
    };
    let reason = tokio::select! {
        reason = ends => reason,
        reason = sends => reason,
    };
    core.close(reason);
}

impl Handle {
    /// `None` when the task of yamux has ended.
    async fn open_plain(&self) -> Option<yamux::Stream> {
        let (sender, receiver) = oneshot::channel();
        self.opening.send(sender).await.ok()?;
        receiver.await.ok()
    }

    /// `None` when the task of yamux has ended.
    async fn accept_plain(&self) -> Option<yamux::Stream> {
        self.accepted.lock().await.recv().await
    }

    /// Opens a stream; waits while the peer's limit is reached.
    ///
    /// # Errors
    /// If the tunnel is closed.
    pub async fn open(&self) -> Result<Stream, Closed> {
        self.core.check()?;
        let slot = tokio::select! {
            biased;
            slot = self.slots.clone().acquire_owned() => slot.expect("never closed"),
            closed = self.core.until_closed() => return Err(closed),
        };
        match self.open_plain().await {
            Some(plain) => Ok(self.queued(plain, Some(slot))),
            None => Err(self.core.until_closed().await),
        }
    }

    /// The next stream that the peer has opened.
    ///
    /// # Errors
    /// If the tunnel is closed.
    pub async fn accept(&self) -> Result<Stream, Closed> {
        self.core.check()?;
        match self.accept_plain().await {
            Some(plain) => Ok(self.queued(plain, None)),
            None => Err(self.core.until_closed().await),
        }
    }

    fn queued(&self, plain: yamux::Stream, slot: Option<OwnedSemaphorePermit>) -> Stream {
        let (stream, queued) = stream::new(plain, &self.core, slot);
        // `Emptying` receives as long as there is a sender.
        let _ = self.streams.send(queued);
        stream
    }
}

/// What the task of yamux owns.
struct Driver {
    connection: yamux::Connection<Transport>,
    transport: Transport,
    emptying: Emptying,
    opening: mpsc::Receiver<oneshot::Sender<yamux::Stream>>,
    /// Who gets the next stream.
    wanted: Option<oneshot::Sender<yamux::Stream>>,
    /// Not more than yamux' limit of streams.
    accepted: mpsc::UnboundedSender<yamux::Stream>,
    core: Arc<Core>,
}

async fn run(mut driver: Driver) {
    let core = driver.core.clone();
    tokio::select! {
        biased;
        // A CLOSE that was received is still to be read, after which `run_control` finds the end.
        reason = poll_fn(|cx| driver.poll(cx)) => core.set_lost(reason),
        _ = core.until_closed() => drain(&mut driver).await,
    }
    // Writers of unfinished streams get an error.
    tokio::spawn(driver.emptying.finish());
    drop((driver.connection, driver.transport));
    core.end();
}

/// Sends what is queued until CLOSE is sent, for at most `DRAIN`.
async fn drain(driver: &mut Driver) {
    let (core, transport) = (driver.core.clone(), driver.transport.clone());
    let draining = async {
        tokio::select! {
            () = core.control.until_close_sent() => {}
            _ = poll_fn(|cx| driver.poll(cx)) => {}
        }
        let drained = |cx: &mut Context<'_>| match driver.poll(cx) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => transport.poll_drain(cx).map(drop),
        };
        poll_fn(drained).await;
    };
    // Fails if the peer does not receive any more.
    let _ = timeout(DRAIN, draining).await;
}

impl Driver {
    /// Makes progress; ready with the reason when the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        loop {
            // Not ready while the tunnel has its handle, after which this task ends, too.
            let _ = self.emptying.poll(cx);
            if let Poll::Ready(reason) = self.poll_connection(cx) {
                return Poll::Ready(reason);
            }
            // Streams that have turns again fill yamux again, without another task's wake-up.
            if !self.transport.take_progress() {
                break;
            }
        }
        if self.transport.take_received() {
            self.core.has_received();
        }
        match self.transport.poll_drain(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(describe_io(&error)),
            _ => Poll::Pending,
        }
    }

    fn poll_connection(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        loop {
            match self.connection.poll_next_inbound(cx) {
                // Fails once the tunnel is dropped.
                Poll::Ready(Some(Ok(stream))) => drop(self.accepted.send(stream)),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(describe(&error)),
                Poll::Ready(None) => {
                    return Poll::Ready(CLOSED.to_owned());
                }
                Poll::Pending if self.poll_open(cx) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Opens a stream if one is wanted; whether it did.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> bool {
        if self.wanted.is_none() {
            let Poll::Ready(Some(wanted)) = self.opening.poll_recv(cx) else {
                return false;
            };
            self.wanted = Some(wanted);
        }
        let Poll::Ready(opened) = self.connection.poll_new_outbound(cx) else {
            return false;
        };
        if let (Ok(stream), Some(wanted)) = (opened, self.wanted.take()) {
            // Fails if the caller has given up.
            let _ = wanted.send(stream);
        }
        true
    }
}

fn describe(error: &yamux::ConnectionError) -> String {
    match error {
        yamux::ConnectionError::Closed => CLOSED.to_owned(),
        yamux::ConnectionError::Io(error) => describe_io(error),
        yamux::ConnectionError::Decode(yamux::FrameDecodeError::Io(error)) => describe_io(error),
        other => other.to_string(),
    }
}

fn describe_io(error: &io::Error) -> String {
    match error.kind() {
        // Without the end of TLS: the peer was killed.
        ErrorKind::UnexpectedEof => CLOSED.to_owned(),
        _ => error.to_string(),
    }
}
