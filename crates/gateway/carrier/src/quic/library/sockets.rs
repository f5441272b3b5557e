//! UDP sockets of `near`, one per configured path, as the one socket that the library knows.
//!
//! The library distinguishes paths by local addresses. It is given an invented one per path
//! ([`tag`]), so that paths may have the same address, none, or one that changes.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use noq::udp::{RecvMeta, Transmit};
use noq::{AsyncUdpSocket, UdpSender};
use parking_lot::{Mutex, RwLock};
use ring::rand::{SecureRandom, SystemRandom};

use super::now;
use super::udp::{PathSocket, Udp};
use crate::config;
use crate::failure;
use crate::quic::probe::Probes;
use crate::socket::address_of;

/// The local address of path `i` as the library sees it, from the discard prefix (RFC 6666).
fn tag(i: usize) -> IpAddr {
    Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1 + i as u16).into()
}

fn untag(address: IpAddr) -> Option<usize> {
    match address {
        IpAddr::V6(address) => usize::from(address.segments()[7]).checked_sub(1),
        IpAddr::V4(_) => None,
    }
}

/// An address as the library sees it: IPv6 where another path has IPv6.
fn mapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into(),
        v6 @ SocketAddr::V6(_) => v6,
    }
}

/// The sockets of all paths.
#[derive(Debug)]
pub struct Sockets {
    slots: Vec<Arc<Slot>>,
    /// Path of datagrams for which the library has not chosen one: the first to open.
    first: AtomicUsize,
    receiver: Receiver,
}

/// Wakes the receiving task when a socket was bound.
type Receiver = Arc<Mutex<Option<Waker>>>;

/// A configured path and its socket.
#[derive(Debug)]
pub struct Slot {
    index: usize,
    /// Configuration of the path.
    pub config: config::Path,
    /// Address of `far` in the path's family.
    far: SocketAddr,
    /// Index of the path whose socket carries the library's packets.
    via: AtomicUsize,
    probes: Mutex<Probes>,
    udp: Arc<dyn Udp>,
    socket: RwLock<Option<Arc<dyn PathSocket>>>,
    /// Reason for which the last probe was not sent.
    fault: Mutex<Option<io::Error>>,
    receiver: Receiver,
}

impl Slot {
    /// Address of `far`, as the library sees it.
    pub(super) fn far(&self) -> SocketAddr {
        mapped(self.far)
    }

    /// Own address, as the library sees it.
    pub(super) fn tag(&self) -> IpAddr {
        tag(self.index)
    }

    /// Sends the library's packets over the socket of `other` from now on, probes over its own.
    pub fn detour(&self, other: &Slot) {
        self.via.store(other.index, Ordering::Relaxed);
    }

    /// Ends the detour.
    pub fn end_detour(&self) {
        self.via.store(self.index, Ordering::Relaxed);
    }

    /// Binds a new socket.
    pub fn bind(&self) -> io::Result<()> {
        let bound = self.udp.bind_path(&self.config, self.far)?;
        *self.socket.write() = Some(bound.into());
        if let Some(waker) = self.receiver.lock().take() {
            waker.wake();
        }
        Ok(())
    }

    /// Sends a probe, if it can. Without an interface or a route no answer arrives either; a later
    /// socket finds the interface as it is then.
    pub fn probe(&self) {
        if self.bound().is_none()
            && let Err(error) = self.bind()
        {
            *self.fault.lock() = Some(error);
            return;
        }
        let probe = self.probes.lock().next(now(), [random(), random()]);
        let sent = self.send(&probe);
        if sent.is_err() {
            self.unbind();
            let _ = self.bind();
        }
        *self.fault.lock() = sent.err();
    }

    /// Time of the latest answer to a probe, and its round-trip time.
    pub fn answer(&self) -> Option<(Instant, Duration)> {
        self.probes.lock().answer()
    }

    /// Local address of its packets: that of the interface where none is configured.
    pub fn local(&self) -> Option<IpAddr> {
        let bound = self.bound()?.local_addr().ok()?.ip();
        match &self.config.interface {
            Some(name) if bound.is_unspecified() => address_of(name, self.far.is_ipv4()),
            _ => Some(bound).filter(|ip| !ip.is_unspecified()),
        }
    }

    /// Whether `far` has no address of the family of the path's address.
    pub fn lacks_family(&self) -> bool {
        let own = self.config.address;
        own.is_some_and(|own| own.is_ipv4() != self.far.is_ipv4())
    }

    /// Reason for which nothing returns over the path.
    pub fn fault(&self) -> String {
        let unsent = self.unsent();
        unsent.unwrap_or_else(|| failure::of_silent_path("UDP", &self.config, self.far))
    }

    /// Reason for which the last probe was not sent.
    pub fn unsent(&self) -> Option<String> {
        let fault = self.fault.lock();
        let error = fault.as_ref()?;
        Some(failure::of_path(error, &self.config, self.far))
    }

    fn unbind(&self) {
        *self.socket.write() = None;
    }

    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        let bound = self.bound().ok_or(io::ErrorKind::NotConnected)?;
        bound.try_send(&Transmit {
            destination: self.far,
            ecn: None,
            contents: datagram,
            segment_size: None,
            src_ip: None,
        })
    }

    /// Takes the latest answer.
    pub fn take_answer(&self) -> Option<(Instant, Duration)> {
        self.probes.lock().take_answer()
    }

    /// Receives answers to probes, if the library does not read the socket.
    pub fn receive_answers(&self) {
        let Some(bound) = self.bound() else { return };
        let (mut buffer, mut meta) = ([0; 2048], [RecvMeta::default()]);
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            let mut bufs = [IoSliceMut::new(&mut buffer)];
            match bound.poll_recv(&mut cx, &mut bufs, &mut meta) {
                Poll::Ready(Ok(1..)) if meta[0].addr == self.far => {
                    self.observe(&buffer[..meta[0].len], meta[0].stride);
                }
                Poll::Ready(Ok(1..)) => {}
                _ => return,
            }
        }
    }

    fn observe(&self, datagrams: &[u8], stride: usize) {
        let mut probes = self.probes.lock();
        probes.observe(now(), datagrams, stride);
    }

    fn bound(&self) -> Option<Arc<dyn PathSocket>> {
        self.socket.read().clone()
    }
}

fn random() -> [u8; 8] {
    let mut bytes = [0; 8];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.expect("the system has random numbers");
    bytes
}

impl Sockets {
    /// Sockets of these paths to their addresses of `far`, none bound yet.
    pub fn new(udp: &Arc<dyn Udp>, paths: &[config::Path], far: &[SocketAddr]) -> Arc<Sockets> {
        let receiver = Receiver::default();
        let slot = |(index, (path, far)): (usize, (&config::Path, &SocketAddr))| {
            Arc::new(Slot {
                index,
                config: path.clone(),
                far: *far,
                via: AtomicUsize::new(index),
                probes: Mutex::default(),
                udp: udp.clone(),
                socket: RwLock::default(),
                fault: Mutex::default(),
                receiver: receiver.clone(),
            })
        };
        Arc::new(Sockets {
            slots: paths.iter().zip(far).enumerate().map(slot).collect(),
            first: AtomicUsize::new(0),
            receiver,
        })
    }

    /// The paths.
    pub fn slots(&self) -> &[Arc<Slot>] {
        &self.slots
    }

    /// Sends datagrams for which the library has not chosen a path over path `i`.
    pub fn set_first(&self, i: usize) {
        self.first.store(i, Ordering::Relaxed);
    }

    fn route(&self, source: Option<IpAddr>) -> Option<(Arc<dyn PathSocket>, SocketAddr)> {
        let i = source.and_then(untag);
        let i = i.unwrap_or_else(|| self.first.load(Ordering::Relaxed));
        let via = self.slots.get(i)?.via.load(Ordering::Relaxed);
        let slot = &self.slots[via];
        Some((slot.bound()?, slot.far))
    }

    fn all_bound(&self) -> impl Iterator<Item = Arc<dyn PathSocket>> {
        self.slots.iter().filter_map(|slot| slot.bound())
    }
}

/// All sockets, as one socket of the library.
#[derive(Debug)]
pub(super) struct AllPaths {
    sockets: Arc<Sockets>,
    /// Path that is read first, another each time.
    next: usize,
}

impl AllPaths {
    /// One socket for these.
    pub fn new(sockets: Arc<Sockets>) -> Box<AllPaths> {
        Box::new(AllPaths { sockets, next: 0 })
    }

    fn poll_recv_on(
        &self,
        i: usize,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let slot = &self.sockets.slots[i];
        let Some(bound) = slot.bound() else {
            return Poll::Pending;
        };
        let received = ready!(bound.poll_recv(cx, bufs, meta))?;
        for (meta, buf) in meta.iter_mut().zip(bufs.iter()).take(received) {
            if (meta.addr.ip(), meta.addr.port()) == (slot.far.ip(), slot.far.port()) {
                slot.observe(&buf[..meta.len], meta.stride);
                meta.addr = mapped(slot.far);
            } else {
                meta.addr = mapped(meta.addr);
            }
            meta.dst_ip = Some(tag(i));
        }
        Poll::Ready(Ok(received))
    }
}

impl AsyncUdpSocket for AllPaths {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        Box::pin(Sender(self.sockets.clone()))
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        *self.sockets.receiver.lock() = Some(cx.waker().clone());
        let paths = self.sockets.slots.len();
        for k in 0..paths {
            let i = (self.next + k) % paths;
            match self.poll_recv_on(i, cx, bufs, meta) {
                Poll::Ready(Ok(received)) => {
                    self.next = i + 1;
                    return Poll::Ready(Ok(received));
                }
                // The interface is gone. Other paths work; this one is bound again when it is tried
                // again.
                Poll::Ready(Err(error)) => {
                    tracing::debug!(path = self.sockets.slots[i].config.name, %error, "no socket");
                    self.sockets.slots[i].unbind();
                }
                Poll::Pending => {}
            }
        }
        Poll::Pending
    }

    /// An IPv6 address, so that the library accepts both families.
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0))
    }

    fn may_fragment(&self) -> bool {
        self.sockets.all_bound().any(|it| it.may_fragment())
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        let segments = self.sockets.all_bound().map(|it| it.max_receive_segments());
        segments.max().unwrap_or(NonZeroUsize::MIN)
    }
}

/// Sends over the socket of the path that the library chose.
#[derive(Debug)]
struct Sender(Arc<Sockets>);

impl UdpSender for Sender {
    /// Sends without ever waiting: a path whose socket is full, or that has none, must not stop the
    /// others. Its datagrams are lost, as in a full queue of the network.
    fn poll_send(
        self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        _: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some((bound, far)) = self.0.route(transmit.src_ip) {
            let sent = bound.try_send(&Transmit {
                destination: far,
                src_ip: None,
                ..transmit.clone()
            });
            if let Err(error) = sent {
                tracing::trace!(%far, %error, "a datagram was not sent");
            }
        }
        Poll::Ready(Ok(()))
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        let segments = self.0.all_bound().map(|it| it.max_transmit_segments());
        segments.min().unwrap_or(NonZeroUsize::MIN)
    }
}
