//! Not written yet.

use std::sync::Arc;

use bytes::Bytes;

use super::{Closed, NotSent, PathState, Stream};
use crate::config;
use crate::keys::PublicKey;
use crate::tls::Identity;

/// Connects.
pub async fn connect(
    _near: &config::Near,
    _identity: &Arc<Identity>,
    _paths: &[config::Path],
) -> anyhow::Result<Tunnel> {
    todo!()
}

/// Accepts.
#[derive(Debug)]
pub struct Listener;

#[expect(missing_docs, clippy::unused_async, reason = "not written yet")]
impl Listener {
    pub async fn bind(_far: &config::Far, _identity: &Arc<Identity>) -> anyhow::Result<Listener> {
        todo!()
    }
    pub async fn accept(&self) -> anyhow::Result<(Tunnel, PublicKey)> {
        todo!()
    }
}

/// A tunnel.
#[derive(Clone, Debug)]
pub struct Tunnel;

#[expect(missing_docs, clippy::unused_async, reason = "not written yet")]
impl Tunnel {
    pub async fn open(&self) -> Result<Stream, Closed> {
        todo!()
    }
    pub async fn accept(&self) -> Result<Stream, Closed> {
        todo!()
    }
    pub fn send_datagram(&self, _: Bytes) -> Result<(), NotSent> {
        todo!()
    }
    pub async fn receive_datagram(&self) -> Result<Bytes, Closed> {
        todo!()
    }
    pub async fn closed(&self) -> Closed {
        todo!()
    }
    pub fn close(&self, _: &str) {
        todo!()
    }
    pub fn paths(&self) -> Vec<PathState> {
        todo!()
    }
    pub fn unsent_bytes(&self) -> u64 {
        todo!()
    }
    pub fn accepted_bytes(&self) -> u64 {
        todo!()
    }
    pub fn kappa(&self) -> Option<f64> {
        todo!()
    }
    pub fn set_kappa(&self, _: f64) {
        todo!()
    }
}
