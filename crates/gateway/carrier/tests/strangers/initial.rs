//! Initial packets of QUIC (RFC 9000, section 17.2.2) from somebody who has no key.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_carrier::tls::{Identity, SERVER_NAME};
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{ClientConnection, Keys, Version};
use rustls::{Side, SupportedCipherSuite};

/// The attacker's connection id.
const OWN_ID: [u8; 8] = *b"stranger";

/// Length of a client's first datagram, bytes (RFC 9000, section 14.1).
const DATAGRAM: usize = 1200;

/// Length of an AEAD's tag, bytes.
const TAG: usize = 16;

/// A frame CRYPTO with the first bytes of a TLS message (RFC 9000, section 19.6).
pub fn crypto(hello: &[u8]) -> Vec<u8> {
    let length = 0x4000 | hello.len() as u16;
    [&[6, 0], &length.to_be_bytes()[..], hello].concat()
}

/// A whole ClientHello.
pub fn hello(identity: &Arc<Identity>) -> Vec<u8> {
    hello_of(identity.client())
}

/// A whole ClientHello of this client.
pub fn hello_of(client: rustls::ClientConfig) -> Vec<u8> {
    // The transport parameter `initial_source_connection_id`.
    let parameters = [&[0x0f, 8][..], &OWN_ID].concat();
    let name = SERVER_NAME.try_into().expect("a valid name");
    let config = Arc::new(client);
    let mut connection =
        ClientConnection::new(config, Version::V1, name, parameters).expect("a client");
    let mut hello = Vec::new();
    connection.write_hs(&mut hello);
    hello
}

/// Sends Initial packets with the same frames, and answers Retry.
pub struct Attacker {
    socket: UdpSocket,
    frames: Vec<u8>,
    is_mute: bool,
}

impl Attacker {
    pub fn new(from: SocketAddr, far: SocketAddr, frames: Vec<u8>) -> Attacker {
        let socket = UdpSocket::bind(from).expect("a port");
        socket.connect(far).expect("loopback");
        socket.set_nonblocking(true).expect("set");
        Attacker {
            socket,
            frames,
            is_mute: false,
        }
    }

    /// An attacker that answers no Retry, like one at a forged address.
    pub fn mute(from: SocketAddr, far: SocketAddr, frames: Vec<u8>) -> Attacker {
        Attacker {
            is_mute: true,
            ..Attacker::new(from, far, frames)
        }
    }

    /// Begins one more handshake, and goes on with those that got a Retry.
    pub fn begin(&self) {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        self.send(&id.to_be_bytes(), &[]);
        let mut buffer = [0; 2048];
        loop {
            match self.socket.recv(&mut buffer) {
                Ok(_) if self.is_mute => {}
                Ok(read) => self.answer(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {} // far is down: an ICMP message
            }
        }
    }

    /// Answers a Retry packet (RFC 9000, section 17.2.5).
    fn answer(&self, packet: &[u8]) {
        let is_retry = packet[0] & 0xf0 == 0xf0;
        if !is_retry {
            return;
        }
        let own = 6 + usize::from(packet[5]);
        let token = own + 1 + usize::from(packet[own]);
        self.send(&packet[own + 1..token], &packet[token..packet.len() - TAG]);
    }

    fn send(&self, id: &[u8], token: &[u8]) {
        // An error is the answer to an earlier datagram.
        let _ = self.socket.send(&initial(id, token, &self.frames));
    }
}

/// An Initial packet with packet number 0.
fn initial(id: &[u8], token: &[u8], frames: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xc0, 0, 0, 0, 1, id.len() as u8];
    packet.extend(id);
    packet.push(OWN_ID.len() as u8);
    packet.extend(OWN_ID);
    packet.extend((0x4000 | token.len() as u16).to_be_bytes());
    packet.extend(token);
    let length = DATAGRAM - packet.len() - 2;
    packet.extend((0x4000 | length as u16).to_be_bytes());
    packet.push(0);
    let number = packet.len() - 1;
    let mut payload = frames.to_vec();
    payload.resize(length - 1 - TAG, 0);
    let SupportedCipherSuite::Tls13(suite) = TLS13_AES_128_GCM_SHA256;
    let quic = suite.quic.expect("a suite of QUIC");
    let keys = Keys::initial(Version::V1, suite, quic, id, Side::Client).local;
    let tag = keys.packet.encrypt_in_place(0, &packet, &mut payload);
    packet.extend(payload);
    packet.extend(tag.expect("encrypted").as_ref());
    let sample = number + 4..number + 4 + keys.header.sample_len();
    let sample = packet[sample].to_vec();
    let (first, rest) = packet.split_at_mut(1);
    let number = &mut rest[number - 1..number];
    let protected = keys.header.encrypt_in_place(&sample, &mut first[0], number);
    protected.expect("protected");
    packet
}
