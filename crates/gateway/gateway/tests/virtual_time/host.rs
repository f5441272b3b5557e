//! The host of a gateway: its sockets, which are closed when its process is killed.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use anabranch_gateway::carrier::udp::{PathSocket, Udp};
use anabranch_gateway::config;
use anabranch_gateway::network::{Listener, Network, Socket};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use noq::udp::{RecvMeta, Transmit};
use noq::{AsyncUdpSocket, UdpSender};
use tokio::sync::mpsc;

use super::internet::Internet;
use super::tcp::{Side, Tcp};

/// The process of a gateway with its sockets.
#[derive(Clone, Debug)]
pub struct Process(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    internet: Arc<Internet>,
    is_killed: AtomicBool,
    /// Sides of its connections.
    connections: Mutex<Vec<Side>>,
    datagrams: Mutex<Vec<SocketAddr>>,
    listeners: Mutex<Vec<Arc<Mutex<Option<Accepts>>>>>,
}

type Accepts = mpsc::UnboundedReceiver<Tcp>;

impl Process {
    /// A process in this network.
    pub fn new(internet: &Arc<Internet>) -> Process {
        Process(Arc::new(Inner {
            internet: internet.clone(),
            is_killed: AtomicBool::new(false),
            connections: Mutex::default(),
            datagrams: Mutex::default(),
            listeners: Mutex::default(),
        }))
    }

    /// Kills the process: the kernel closes its sockets, and nothing that it still does has an
    /// effect.
    pub fn kill(&self) {
        self.0.is_killed.store(true, Ordering::Relaxed);
        for address in self.0.datagrams.lock().expect("no panic").drain(..) {
            self.0.internet.close(address);
        }
        for listener in self.0.listeners.lock().expect("no panic").drain(..) {
            listener.lock().expect("no panic").take();
        }
        for connection in self.0.connections.lock().expect("no panic").drain(..) {
            connection.close();
        }
    }

    fn is_killed(&self) -> bool {
        self.0.is_killed.load(Ordering::Relaxed)
    }

    fn keep(&self, tcp: Tcp) -> Box<dyn Socket> {
        let mut connections = self.0.connections.lock().expect("no panic");
        tcp.side().resets(true);
        connections.push(tcp.side().clone());
        Box::new(tcp)
    }

    fn bind(&self, address: SocketAddr) -> io::Result<Datagrams> {
        if self.is_killed() || !self.0.internet.open(address) {
            return Err(ErrorKind::AddrInUse.into());
        }
        self.0.datagrams.lock().expect("no panic").push(address);
        Ok(Datagrams(Arc::new(Bound {
            process: self.clone(),
            address,
        })))
    }
}

impl Network for Process {
    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        async move {
            let accepts = self.0.internet.listen(address);
            let accepts = accepts.ok_or(ErrorKind::AddrInUse)?;
            let accepts = Arc::new(Mutex::new(Some(accepts)));
            self.0
                .listeners
                .lock()
                .expect("no panic")
                .push(accepts.clone());
            let process = self.clone();
            Ok(Box::new(Listening {
                process,
                address,
                accepts,
            }) as Box<dyn Listener>)
        }
        .boxed()
    }

    fn connect(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Socket>>> {
        async move {
            if self.is_killed() {
                return Err(ErrorKind::NetworkDown.into());
            }
            let connected = self.0.internet.connect(Ipv4Addr::LOCALHOST.into(), to);
            Ok(self.keep(connected.ok_or(ErrorKind::ConnectionRefused)?))
        }
        .boxed()
    }

    fn udp(&self) -> Arc<dyn Udp> {
        Arc::new(self.clone())
    }
}

#[derive(Debug)]
struct Listening {
    process: Process,
    address: SocketAddr,
    accepts: Arc<Mutex<Option<Accepts>>>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.accepts.lock().expect("no panic").take();
    }
}

impl Listener for Listening {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn accept(&self) -> BoxFuture<'_, io::Result<(Box<dyn Socket>, SocketAddr)>> {
        std::future::poll_fn(|cx| {
            let mut accepts = self.accepts.lock().expect("no panic");
            let Some(tcp) = accepts.as_mut().map(|accepts| accepts.poll_recv(cx)) else {
                return Poll::Pending; // killed
            };
            tcp.map(|tcp| {
                let tcp = tcp.ok_or(ErrorKind::NotConnected)?;
                let peer = tcp.peer();
                Ok((self.process.keep(tcp), peer))
            })
        })
        .boxed()
    }
}

impl Udp for Process {
    fn bind_path(&self, path: &config::Path, _: SocketAddr) -> io::Result<Box<dyn PathSocket>> {
        let address = path.address.ok_or(ErrorKind::AddrNotAvailable)?;
        Ok(Box::new(self.bind(self.0.internet.port_of(address))?))
    }

    fn bind_far(&self, address: SocketAddr) -> io::Result<Box<dyn AsyncUdpSocket>> {
        Ok(Box::new(self.bind(address)?))
    }
}

/// A socket of UDP.
#[derive(Clone, Debug)]
struct Datagrams(Arc<Bound>);

#[derive(Debug)]
struct Bound {
    process: Process,
    address: SocketAddr,
}

impl Drop for Bound {
    fn drop(&mut self) {
        // The address may be another process's by now.
        if !self.process.is_killed() {
            self.process.0.internet.close(self.address);
        }
    }
}

impl Datagrams {
    fn send(&self, transmit: &Transmit<'_>) {
        let Bound { process, address } = &*self.0;
        if process.is_killed() {
            return;
        }
        let stride = transmit.segment_size.unwrap_or(transmit.contents.len());
        for payload in transmit.contents.chunks(stride.max(1)) {
            process
                .0
                .internet
                .send(*address, transmit.destination, payload);
        }
    }

    fn poll(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let Bound { process, address } = &*self.0;
        if process.is_killed() {
            return Poll::Pending;
        }
        let mut n = 0;
        for (buf, meta) in bufs.iter_mut().zip(meta) {
            let Some((from, payload)) = process.0.internet.receive(*address, cx.waker()) else {
                break;
            };
            let length = payload.len().min(buf.len());
            buf[..length].copy_from_slice(&payload[..length]);
            (meta.addr, meta.dst_ip) = (from, Some(address.ip()));
            (meta.len, meta.stride) = (length, length);
            n += 1;
        }
        if n == 0 {
            Poll::Pending
        } else {
            Poll::Ready(Ok(n))
        }
    }
}

impl PathSocket for Datagrams {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.address)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.send(transmit);
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.poll(cx, bufs, meta)
    }

    fn may_fragment(&self) -> bool {
        false
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }
}

impl AsyncUdpSocket for Datagrams {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        Box::pin(self.clone())
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.poll(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.address)
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

impl UdpSender for Datagrams {
    fn poll_send(
        self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        _: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        self.send(transmit);
        Poll::Ready(Ok(()))
    }
}

/// Addresses of near's paths.
pub fn path_address(i: usize) -> IpAddr {
    Ipv4Addr::new(198, 51, 100, 1 + i as u8).into()
}
