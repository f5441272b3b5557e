//! A link with a middlebox: a thread of the test that may forward, drop, change or insert packets.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

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
        let tun = |host| network.inside(host, move || open_tun(&format!("v{k}")).unwrap());
        let tuns = [tun(Host::Client), tun(Host::Server)];
        network.bring_up(k);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let forwarding = thread::spawn(move || forward(&tuns, handle, &stopped));
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

/// `tuns` are the client's and the server's. They have no offload, so packets arrive whole.
fn forward(
    tuns: &[OwnedFd; 2],
    mut handle: impl FnMut(Packet) -> Vec<Packet>,
    stopped: &AtomicBool,
) {
    let wait = Timespec {
        tv_sec: 0,
        tv_nsec: 20_000_000,
    };
    let mut buffer = [0; 2048];
    while !stopped.load(Relaxed) {
        let mut ready = [0, 1].map(|i| PollFd::new(&tuns[i], PollFlags::IN));
        poll(&mut ready, Some(&wait)).unwrap();
        for tun in tuns {
            // Nothing there, or not TCP over IPv4.
            let Ok(length) = rustix::io::read(tun, &mut buffer) else {
                continue;
            };
            let Some(packet) = Packet::read(&buffer[..length]) else {
                continue;
            };
            for packet in handle(packet) {
                let to = match packet.from() {
                    Host::Client => &tuns[1],
                    Host::Server => &tuns[0],
                };
                // A packet that the host does not accept is lost.
                let _ = rustix::io::write(to, &packet.bytes());
            }
        }
    }
}
