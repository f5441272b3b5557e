//! Access of the gateway's fuzzed checks to private parts of this module.

use std::sync::Arc;

use futures_util::FutureExt;
use tokio::io::ReadBuf;
use tokio::time::Instant;

use super::control::Reader;
use super::paths::{Announced, entry_of};
use super::reader::{Order, Waiting};
use crate::window::{FIRST, Read, Windows};

/// Handles messages of `near` as `far` does; paths with an even number open at once. Returns the
/// most paths that `far` remembered: those that have been open, and those announced.
pub fn paths(said: &[u8]) -> (usize, usize) {
    let (mut entries, mut announced) = (Vec::new(), Announced::default());
    let mut reader = Reader::new(said);
    let mut most = (0, 0);
    while let Some(Ok(Some(message))) = reader.read().now_or_never() {
        if announced.add(message, &entries).is_err() {
            break;
        }
        most = most.max((entries.len(), announced.0.len()));
        for message in announced.0.extract_if(.., |it| it.id % 2 == 0) {
            entry_of(&mut entries, message);
        }
        most.0 = most.0.max(entries.len());
        most.1 = most.1.max(announced.0.len());
    }
    most
}

/// A stream whose data arrives in any order, and its window.
pub struct Stream {
    order: Order,
    windows: Windows,
    limit: u64,
    taken: u64,
}

impl Stream {
    /// A stream of a tunnel whose windows may together grow by `budget` bytes.
    pub fn new(budget: u64) -> Stream {
        let mut windows = Windows::new(budget);
        windows.open(0, Instant::now());
        Stream {
            order: Order::new(Arc::new(Waiting::new(budget as usize))),
            windows,
            limit: FIRST,
            taken: 0,
        }
    }

    /// Adds a piece. Returns `false` if the peer must not send it.
    pub fn add(&mut self, offset: u64, piece: &[u8]) -> bool {
        let nowhere = &mut ReadBuf::new(&mut []);
        self.order.add(offset, piece, self.limit, nowhere)
    }

    /// Reads at most this much, and raises the window.
    pub fn read(&mut self, most: usize) -> Vec<u8> {
        let mut space = vec![0; most];
        let mut buffer = ReadBuf::new(&mut space);
        self.order.take(&mut buffer);
        let data = buffer.filled().to_vec();
        let read = Read {
            taken: data.len() as u64,
            ahead: self.waiting().0 as u64,
            waits: self.waiting().0 == 0 && data.len() < most,
        };
        self.taken += read.taken;
        let raised = self.windows.read(0, read, Instant::now());
        self.limit = raised.unwrap_or(self.limit);
        data
    }

    /// Bytes and pieces that wait for earlier data.
    pub fn waiting(&self) -> (usize, usize) {
        self.order.waiting()
    }

    /// Position up to which the peer may send.
    pub fn limit(&self) -> u64 {
        self.limit
    }
}
