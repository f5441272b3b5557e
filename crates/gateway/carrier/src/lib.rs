//! Tunnels between two ends over several paths at once: streams and datagrams over QUIC, or over
//! Multipath TCP, with one interface and any congestion-control rule of `anabranch-control`.
//!
//! It is what `anabranch-gateway` runs on, for programs that have several links and want to use
//! all of them: a mesh, a VPN, a proxy. It reads no files and resolves no names.
//!
//! # What a tunnel guarantees
//!
//! - **Both ends have proved a key** that the other one pinned (`tls`, TLS 1.3 with raw public
//!   keys). There is no other mode.
//! - **A stream ends or fails, and never both.** `shutdown` returns once the peer has all data and
//!   the end; a stream that is dropped before is reset, and its reader sees an error, no end. Each
//!   half ends by itself.
//! - **A stream that is not read stops no other.** What a peer may send is bounded per stream and
//!   per tunnel ([`Limits`]), and so is what a peer with a key can make this end hold.
//! - **A path may die and return**: data continues over the others. While none works streams wait,
//!   and the tunnel is closed after 20 s (`mptcp`) or 30 s (`quic`).
//! - **Datagrams are delivered at most once**, in any order, or not at all.
//! - **A tunnel that fails says why**, in one line ([`Closed`]), also if a task of its own panics.
//!
//! # Example
//!
//! Two ends in one process, over two addresses of loopback. One stream is half-closed: the request
//! ends, and the answer follows. Then one path is not used any more, and data continues.
//!
//! ```
//! use anabranch_carrier::keys::KeyPair;
//! use anabranch_carrier::tls::Identity;
//! use anabranch_carrier::{Carrier, Condition, Far, Listener, Near, Path, Settings, connect};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main]
//! # async fn main() -> anyhow::Result<()> {
//! let (near_key, far_key) = (KeyPair::generate()?, KeyPair::generate()?);
//! let near_identity = Identity::new(&near_key, vec![far_key.public().clone()]);
//! let far_identity = Identity::new(&far_key, vec![near_key.public().clone()]);
//! let settings = Settings::new(Carrier::Quic, "olia");
//!
//! # let free = std::net::UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
//! # let listen = free;
//! let far = Far { listen, settings: settings.clone() };
//! let listener = Listener::bind(&far, &far_identity).await?;
//! let path = |name: &str, address: &str| Path {
//!     address: address.parse().ok(),
//!     ..Path::new(name)
//! };
//! let near = Near {
//!     far: listen.into(),
//!     paths: vec![path("dsl", "127.0.0.2"), path("lte", "127.0.0.3")],
//!     settings,
//! };
//! let (near, accepted) = tokio::join!(connect(&near, &near_identity), listener.accept());
//! let (near, (far, peer)) = (near?, accepted?);
//! assert_eq!(&peer, near_key.public());
//!
//! // A stream, one half after the other.
//! let mut request = near.open().await?;
//! request.write_all(b"question").await?;
//! let (end, answered) = tokio::join!(request.shutdown(), async {
//!     let mut stream = far.accept().await?;
//!     let mut question = String::new();
//!     stream.read_to_string(&mut question).await?;
//!     assert_eq!(question, "question");
//!     stream.write_all(b"answer").await?;
//!     anyhow::Ok(stream)
//! });
//! end?;
//! let mut answer = [0; 6];
//! request.read_exact(&mut answer).await?;
//! assert_eq!(&answer, b"answer");
//! # drop(answered?);
//!
//! // A datagram.
//! far.send_datagram(0, b"soon"[..].into())?;
//! assert_eq!(near.receive_datagram().await?, b"soon"[..]);
//!
//! // A path that is gone.
//! let up = |name: &str| {
//!     let paths = near.paths();
//!     paths.iter().any(|path| path.name == name && path.condition == Condition::Up)
//! };
//! while !(up("dsl") && up("lte")) {
//!     tokio::time::sleep(std::time::Duration::from_millis(10)).await;
//! }
//! near.turn_off("dsl");
//! while up("dsl") {
//!     tokio::time::sleep(std::time::Duration::from_millis(10)).await;
//! }
//! let mut stream = near.open().await?;
//! stream.write_all(b"over lte").await?;
//! let mut received = [0; 8];
//! far.accept().await?.read_exact(&mut received).await?;
//! assert_eq!(&received, b"over lte");
//! near.close("done");
//! assert_eq!(far.closed().await.0, "by the peer: done");
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

mod admission;
mod config;
mod failure;
mod handshakes;
pub mod keys;
mod lines;
pub mod mptcp;
pub mod quic;
mod shares;
pub mod socket;
mod supervisor;
pub mod tls;
mod tunnel;
mod window;

pub use config::{
    BBR, Carrier, Far, LONGEST_NAME, Limits, Live, Near, Path, Remote, Role, Settings, is_name,
};
use keys::PublicKey;
pub use lines::Lines;
pub use quic::udp;
pub use shares::DatagramRoom;
use tls::Identity;
pub(crate) use tunnel::printable;
pub use tunnel::{
    Carried, Closed, Condition, Incoming, NotSent, Outgoing, PathState, Stream, Tunnel,
};
use udp::Udp;

/// Connects to `far` over these paths. One successful handshake is enough; the other paths are
/// opened afterwards.
///
/// # Errors
/// If no path can handshake, or if `far` is another than the pinned one.
pub async fn connect(near: &Near, identity: &Arc<Identity>) -> anyhow::Result<Tunnel> {
    let udp: Arc<dyn Udp> = Arc::new(udp::Kernel);
    connect_over(&udp, near, identity).await
}

/// [`connect`] over these sockets of UDP. The carrier `mptcp` uses TCP of the kernel.
pub async fn connect_over(
    udp: &Arc<dyn Udp>,
    near: &Near,
    identity: &Arc<Identity>,
) -> anyhow::Result<Tunnel> {
    match near.settings.carrier {
        Carrier::Quic => quic::connect(udp, near, identity).await,
        Carrier::Mptcp => mptcp::connect(near, identity).await,
    }
}

/// Accepts tunnels at the address of `far`: over QUIC, and with the carrier `mptcp` also over
/// Multipath TCP at the same port. QUIC then carries the datagrams of `near`.
#[derive(Debug)]
pub struct Listener {
    quic: quic::Listener,
    mptcp: Option<mptcp::Listener>,
}

impl Listener {
    /// Listens at the configured address.
    pub async fn bind(far: &Far, identity: &Arc<Identity>) -> anyhow::Result<Listener> {
        Listener::bind_over(&udp::Kernel, far, identity).await
    }

    /// [`Listener::bind`] over these sockets of UDP.
    pub async fn bind_over(
        udp: &dyn Udp,
        far: &Far,
        identity: &Arc<Identity>,
    ) -> anyhow::Result<Listener> {
        let over_quic = Far {
            settings: far.settings.over_quic(),
            ..far.clone()
        };
        let quic = quic::Listener::bind_over(udp, &over_quic, identity).await?;
        let mptcp = match far.settings.carrier {
            Carrier::Quic => None,
            Carrier::Mptcp => Some(mptcp::Listener::bind(far, identity).await?),
        };
        Ok(Listener { quic, mptcp })
    }

    /// Changes the settings of tunnels that are established from now on.
    pub fn set_settings(&self, settings: &Settings) {
        self.quic.set_settings(&settings.over_quic());
        if let Some(mptcp) = &self.mptcp {
            mptcp.set_settings(settings);
        }
    }

    /// Number of handshakes that have failed.
    pub fn refused(&self) -> u64 {
        let mptcp = self.mptcp.as_ref().map_or(0, mptcp::Listener::refused);
        self.quic.refused() + mptcp
    }

    /// The next tunnel whose peer has proved one of the pinned keys. The carrier runs handshakes
    /// concurrently, each with a timeout, and logs and counts those that fail. Cancel-safe.
    pub async fn accept(&self) -> anyhow::Result<(Tunnel, PublicKey)> {
        let Some(mptcp) = &self.mptcp else {
            return self.quic.accept().await;
        };
        tokio::select! {
            biased;
            accepted = self.quic.accept() => accepted,
            accepted = mptcp.accept() => accepted,
        }
    }
}
