//! A link with a middlebox: a thread of the test that may forward, drop, change or insert packets.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anabranch_lab::open_tun;
use etherparse::{Ipv4Header, TcpHeader};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::network::{Host, Network};

/// A TCP packet. Lengths and checksums are recomputed when it is forwarded.
#[derive(Clone)]
pub struct Packet {
    ip: Ipv4Header,
    pub tcp: TcpHeader,
    pub data: Vec<u8>,
}

impl Packet {
    fn read(bytes: &[u8]) -> Option<Packet> {
        let (ip, rest) = Ipv4Header::from_slice(bytes).ok()?;
        let (tcp, data) = TcpHeader::from_slice(rest).ok()?;
        let data = data.to_vec();
        Some(Packet { ip, tcp, data })
    }

    fn bytes(mut self) -> Vec<u8> {
        let length = self.tcp.header_len() + self.data.len();
        self.ip.set_payload_len(length).unwrap();
        self.ip.header_checksum = self.ip.calc_header_checksum();
        self.tcp.checksum = self.tcp.calc_checksum_ipv4(&self.ip, &self.data).unwrap();
        let mut bytes = Vec::new();
        self.ip.write(&mut bytes).unwrap();
        self.tcp.write(&mut bytes).unwrap();
        bytes.extend(self.data);
        bytes
    }

    /// The sender.
    pub fn from(&self) -> Host {
        match self.ip.source[3] {
            1 => Host::Client,
            _ => Host::Server,
        }
    }

    /// The sequence number after its last byte.
    pub fn end(&self) -> u32 {
        self.tcp
            .sequence_number
            .wrapping_add(self.data.len() as u32)
    }
}

/// Forwards the packets of one link until it is dropped.
pub struct Middlebox {
    stop: Arc<AtomicBool>,
    forwarding: Option<JoinHandle<()>>,
}

impl Middlebox {
    /// Creates link k. `handle` maps each packet to those to forward, each to its destination.
    pub fn on(
        network: &Network,
        k: usize,
        handle: impl FnMut(Packet) -> Vec<Packet> + Send + 'static,
    ) -> Middlebox {
        Middlebox::with_delay(network, k, Duration::ZERO, handle)
    }

    /// A link with a delay of each packet, in either direction.
    pub fn with_delay(
        network: &Network,
        k: usize,
        delay: Duration,
        handle: impl FnMut(Packet) -> Vec<Packet> + Send + 'static,
    ) -> Middlebox {
        let tun = |host| network.inside(host, move || open_tun(&format!("v{k}")).unwrap());
        let tuns = [tun(Host::Client), tun(Host::Server)];
        network.bring_up(k);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let forwarding = thread::spawn(move || forward(&tuns, delay, handle, &stopped));
        Middlebox {
            stop,
            forwarding: Some(forwarding),
        }
    }
}

impl Drop for Middlebox {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let result = self.forwarding.take().map(JoinHandle::join);
        if !thread::panicking() {
            result.map(Result::unwrap);
        }
    }
}

/// How soon a middlebox ends that nothing passes.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// `tuns` are the client's and the server's. They have no offload, so packets arrive whole.
fn forward(
    tuns: &[OwnedFd; 2],
    delay: Duration,
    mut handle: impl FnMut(Packet) -> Vec<Packet>,
    stopped: &AtomicBool,
) {
    let mut buffer = [0; 2048];
    let mut waiting: VecDeque<(Instant, Packet)> = VecDeque::new();
    while !stopped.load(Relaxed) {
        let mut ready = [0, 1].map(|i| PollFd::new(&tuns[i], PollFlags::IN));
        let next = waiting
            .front()
            .map(|(due, _)| due.saturating_duration_since(Instant::now()));
        let wait = next.unwrap_or(Duration::MAX).min(LONGEST_WAIT);
        poll(&mut ready, Some(&Timespec::try_from(wait).unwrap())).unwrap();
        for tun in tuns {
            // Nothing there, or not TCP over IPv4.
            let Ok(length) = rustix::io::read(tun, &mut buffer) else {
                continue;
            };
            let Some(packet) = Packet::read(&buffer[..length]) else {
                continue;
            };
            let due = Instant::now() + delay;
            waiting.extend(handle(packet).into_iter().map(|packet| (due, packet)));
        }
        let now = Instant::now();
        while waiting.front().is_some_and(|(due, _)| *due <= now) {
            let (_, packet) = waiting.pop_front().unwrap();
            let to = match packet.from() {
                Host::Client => &tuns[1],
                Host::Server => &tuns[0],
            };
            // A packet that the host does not accept is lost.
            let _ = rustix::io::write(to, &packet.bytes());
        }
    }
}
