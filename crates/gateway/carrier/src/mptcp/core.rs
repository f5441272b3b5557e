//! Shared state of a tunnel's tasks: its end, its counters, its sockets.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use anabranch_sockets::{Subflow, mptcp_info, unsent_bytes};
use parking_lot::{Mutex, MutexGuard};
use socket2::Socket;
use tokio::sync::{Notify, watch};

use super::kappa::Kappas;
use super::mux::{Lane, Mux, Role};
use super::paths::{Paths, whole};
use super::socket::raise_buffers;
use crate::{Closed, Limits};

/// Shared state of a tunnel. Locks are taken in this order: one of `sockets`, `paths`, `stalled`,
/// `mux`. A holder of one takes only later ones, as `can_join` does, and never two sockets.
#[derive(Debug)]
pub struct Core {
    closed: watch::Sender<Option<Closed>>,
    /// Whether the tasks of the tunnel have ended and its sockets are closed.
    ended: watch::Sender<bool>,
    mux: Mutex<Mux>,
    /// Notifications for tasks that open and accept streams and take datagrams.
    pub changes: Changes,
    /// Duplicates of the sockets of both connections, for their options, until they are closed.
    sockets: [Mutex<Option<Socket>>; 2],
    /// Congestion control, by its name in the kernel.
    rule: String,
    /// Whether the peer has an IPv4 address.
    pub is_ipv4: bool,
    paths: Mutex<Paths>,
    /// Kappa of the rule; `None` if the rule has none, or if it cannot be set.
    kappas: Option<Kappas>,
    /// Bits of the kappa that was set last; 0 before.
    kappa: AtomicU64,
    /// Path over which the second connection stalled last.
    stalled: Mutex<Option<String>>,
}

/// Notifications of changes, each for one of the tasks that wait for it.
#[derive(Debug, Default)]
pub struct Changes {
    /// A stream can be opened.
    pub can_open: Notify,
    /// The peer has opened a stream.
    pub opened: Notify,
    /// A datagram was received.
    pub datagram: Notify,
}

impl Core {
    /// The state of a new tunnel over this socket.
    pub fn new(
        socket: Socket,
        rule: &str,
        (role, limits): (Role, Limits),
        paths: Paths,
        kappas: Option<Kappas>,
    ) -> Arc<Core> {
        raise_buffers(&socket);
        let peer = socket.peer_addr().ok().and_then(|peer| peer.as_socket());
        Arc::new(Core {
            rule: rule.to_owned(),
            is_ipv4: peer.is_none_or(|peer| peer.ip().to_canonical().is_ipv4()),
            paths: Mutex::new(paths),
            kappas,
            kappa: AtomicU64::new(0),
            stalled: Mutex::new(None),
            closed: watch::Sender::new(None),
            ended: watch::Sender::new(false),
            mux: Mutex::new(Mux::new(role, limits)),
            changes: Changes::default(),
            sockets: [Mutex::new(Some(socket)), Mutex::new(None)],
        })
    }

    /// Calls `act` with the multiplexer, and wakes the tasks that can go on.
    pub fn mux<R>(&self, act: impl FnOnce(&mut Mux) -> R) -> R {
        let mut mux = self.mux.lock();
        let result = act(&mut mux);
        let events = mux.take_events();
        drop(mux);
        let changes = [
            (events.can_open, &self.changes.can_open),
            (events.opened, &self.changes.opened),
            (events.datagram, &self.changes.datagram),
        ];
        for (_, change) in changes.iter().filter(|(happened, _)| *happened) {
            change.notify_one();
        }
        events.woken.into_iter().for_each(Waker::wake);
        result
    }

    /// Waits until `take` returns something, which it may after `change`.
    pub async fn wait<T>(
        &self,
        change: &Notify,
        take: impl Fn(&mut Mux) -> Option<T>,
    ) -> Result<T, Closed> {
        loop {
            if let Some(taken) = self.mux(&take) {
                // There may be more, and others who wait.
                change.notify_one();
                return Ok(taken);
            }
            self.check()?;
            tokio::select! {
                () = change.notified() => {}
                _ = self.until_closed() => {}
            }
        }
    }

    /// Closes the tunnel; the first reason counts.
    pub fn close(&self, reason: impl Into<String>) {
        let closes = self.closed.send_if_modified(|closed| {
            let open = closed.is_none();
            if open {
                *closed = Some(Closed(reason.into()));
            }
            open
        });
        if closes {
            self.paths().end();
        }
        self.mux(|mux| mux.close(None));
    }

    /// Closes the tunnel and sends the peer the reason.
    pub fn close_by_user(&self, reason: &str) {
        self.mux(|mux| mux.close(Some(reason)));
        self.close(reason);
    }

    /// Checks that the tunnel is open.
    pub fn check(&self) -> Result<(), Closed> {
        self.closed.borrow().clone().map_or(Ok(()), Err)
    }

    /// Waits until the tunnel is closed.
    pub async fn until_closed(&self) -> Closed {
        let mut receiver = self.closed.subscribe();
        let closed = receiver.wait_for(Option::is_some).await;
        let closed = closed.expect("`self` holds the sender").clone();
        closed.expect("it was waited for")
    }

    /// Whether a second connection may join.
    pub fn can_join(&self) -> bool {
        self.socket(Lane::Express).is_none() && self.mux(|mux| mux.can_join())
    }

    /// Adds the second connection. Returns `false` if it may not join.
    pub fn join(&self, socket: Socket) -> bool {
        let mut express = self.socket(Lane::Express);
        let joins = express.is_none() && self.mux(Mux::join);
        if joins {
            *express = Some(socket);
        }
        joins
    }

    /// Closes this duplicate of a connection's socket; the other one is closed already.
    pub fn end(&self, lane: Lane) {
        drop(self.socket(lane).take());
        let have_ended = Lane::ALL.iter().all(|lane| self.socket(*lane).is_none());
        self.ended.send_replace(have_ended);
    }

    /// Socket of a connection, until it is closed.
    pub fn socket(&self, lane: Lane) -> MutexGuard<'_, Option<Socket>> {
        self.sockets[lane as usize].lock()
    }

    /// Waits until the tunnel is closed and its reason is sent.
    pub async fn until_ended(&self) -> Closed {
        let closed = self.until_closed().await;
        let mut receiver = self.ended.subscribe();
        let _ = receiver.wait_for(|ended| *ended).await;
        closed
    }

    /// Data that streams have accepted and that the kernel has not sent, bytes.
    pub fn unsent_bytes(&self) -> u64 {
        let in_kernel = Lane::ALL.map(|lane| {
            let subflows = self.subflows(lane).unwrap_or_default();
            self.unsent_in_kernel(lane, &subflows)
        });
        self.mux(|mux| mux.unsent_bytes()) + in_kernel.iter().sum::<u64>()
    }

    /// Data of a connection that the kernel has not sent, in these subflows and before them, bytes.
    pub fn unsent_in_kernel(&self, lane: Lane, subflows: &[Subflow]) -> u64 {
        let in_subflows = subflows.iter().map(|subflow| u64::from(subflow.unsent));
        let socket = self.socket(lane);
        let before = socket.as_ref().map(unsent_bytes);
        in_subflows.sum::<u64>() + before.and_then(Result::ok).unwrap_or(0)
    }

    /// Marks the path of the second connection, which has ended, as suspect.
    pub fn stalled(&self, path: &str) {
        *self.stalled.lock() = Some(path.to_owned());
    }

    /// Takes the suspect path.
    pub fn take_stalled(&self) -> Option<String> {
        self.stalled.lock().take()
    }

    /// State of the second connection in the kernel, if there is one.
    pub fn express(&self) -> Option<Subflow> {
        let socket = self.socket(Lane::Express);
        whole(socket.as_ref()?).ok()
    }

    /// Subflows of a connection; `None` if it does not use Multipath TCP, or is closed.
    pub fn subflows(&self, lane: Lane) -> Option<Vec<Subflow>> {
        let socket = self.socket(lane);
        mptcp_info(socket.as_ref()?).ok()?
    }

    /// Sets the congestion control again: a route with `congctl` replaces that of a socket when it
    /// connects or is accepted, and when a subflow is added.
    pub fn choose_rule(&self) -> io::Result<()> {
        let choose = |lane| match &*self.socket(lane) {
            Some(socket) => socket.set_tcp_congestion(self.rule.as_bytes()),
            None => Ok(()), // closed, or not there yet
        };
        Lane::ALL.into_iter().try_for_each(choose)
    }

    /// Congestion control, by its name in the kernel.
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Whether the rule has a weight, which is that of one connection.
    pub fn has_kappa(&self) -> bool {
        self.kappas.is_some()
    }

    /// Paths as last read.
    pub fn paths(&self) -> MutexGuard<'_, Paths> {
        self.paths.lock()
    }

    /// Reads the state of the paths. Returns whether the tunnel uses Multipath TCP, `None` once
    /// closed.
    pub fn update_paths(&self) -> Option<bool> {
        let express = self.express();
        let socket = self.socket(Lane::Bulk);
        let mut paths = self.paths();
        paths.update(socket.as_ref()?, express);
        paths.multipath
    }

    /// Kappa that was set last.
    pub fn kappa(&self) -> Option<f64> {
        let bits = self.kappa.load(Ordering::Relaxed);
        (bits != 0).then(|| f64::from_bits(bits))
    }

    /// Sets kappa of the rule, if it has one.
    pub fn set_kappa(&self, kappa: f64) {
        let socket = self.socket(Lane::Bulk);
        let (Some(kappas), Some(socket)) = (&self.kappas, socket.as_ref()) else {
            return;
        };
        match socket.cookie().and_then(|cookie| kappas.set(cookie, kappa)) {
            Ok(()) => self.kappa.store(kappa.to_bits(), Ordering::Relaxed),
            Err(error) => tracing::warn!("setting the weight {kappa}: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_rule_is_chosen_again_after_the_connection_has_lost_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let socket = Socket::from(TcpStream::connect(address).expect("listening"));
        let same = socket.try_clone().expect("a descriptor");
        let rule_of = |socket: &Socket| {
            let name = socket.tcp_congestion().expect("a name");
            String::from_utf8(name).expect("ASCII")
        };
        let end = (Role::Far, Limits::default());
        let core = Core::new(socket, "reno", end, Paths::far(), None);
        // As a route with `congctl` does. Every kernel has these two.
        same.set_tcp_congestion(b"cubic").expect("registered");
        core.choose_rule().expect("registered");
        assert_eq!(rule_of(&same).trim_end_matches('\0'), "reno");
        core.end(Lane::Bulk);
        core.choose_rule().expect("nothing to do");
    }
}
