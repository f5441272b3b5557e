//! The paths of a connection at its sender: when they are opened, closed and opened again.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use noq_proto::{Connection, PathId, PathStatus, VarInt};

use super::controller::SharedController;
use super::endpoint::sender_tuple;

/// A path is dead if nothing sent over it was acknowledged for this long, and for this many round
/// trips. The library itself sends data of a dead path again over another only when the path is
/// abandoned, and abandons none.
const SILENCE: Duration = Duration::from_millis(500);
const SILENT_ROUND_TRIPS: f64 = 3.0;

/// How long after a path was closed it is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// An open path.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// The library's number, another each time.
    id: PathId,
    /// Whether the receiver has answered over it.
    established: bool,
}

/// The paths of a connection.
#[derive(Debug)]
pub(super) struct Paths {
    /// Each path while it is open.
    open: Vec<Option<Open>>,
    /// When a path was closed that is to be opened again.
    closed: Vec<Option<Instant>>,
    /// Paths that are to be opened and are not yet.
    wanted: Vec<usize>,
    /// How many paths the ends must allow, abandoned ones of which the receiver has seen nothing
    /// included.
    allowed: u32,
    /// When the keys of the first path were changed.
    keys_changed: Option<Instant>,
}

impl Paths {
    /// A number of paths, of which the first is open.
    pub fn new(paths: usize) -> Paths {
        let mut open = vec![None; paths];
        open[0] = Some(Open {
            id: PathId::ZERO,
            established: true,
        });
        Paths {
            open,
            closed: vec![None; paths],
            wanted: Vec::new(),
            allowed: paths as u32,
            keys_changed: None,
        }
    }

    /// The handshake is confirmed. The library changes keys after 10 to 1000 packets, and discards
    /// packets with old ones that arrive over a slower path later than the first with new ones.
    /// This change comes before other paths open, and the next near the cipher's limit.
    pub fn confirmed(&mut self, connection: &mut Connection, now: Instant) {
        connection.force_key_update();
        connection.ping();
        self.keys_changed = Some(now);
    }

    /// Whether the receiver has acknowledged a packet with the new keys.
    fn have_new_keys(&self, controller: &SharedController) -> bool {
        self.keys_changed
            .is_some_and(|changed| controller.has_acknowledged(0, changed))
    }

    /// The path is to be opened, unless it is open.
    pub fn want(&mut self, path: usize) {
        self.closed[path] = None;
        if self.open[path].is_none() && !self.wanted.contains(&path) {
            self.wanted.push(path);
        }
    }

    /// Closes a path, unless it is the last one that the receiver knows: a receiver without paths
    /// closes the connection.
    pub fn close(&mut self, connection: &mut Connection, path: usize, now: Instant) {
        let mut others = self.open.iter().enumerate().filter(|(r, _)| *r != path);
        let another = others.any(|(_, open)| open.is_some_and(|open| open.established));
        if let (Some(path), true) = (self.open[path], another) {
            // Fails for a path that the library is closing.
            let _ = connection.close_path(now, path.id, VarInt::from_u32(0));
        }
    }

    /// A closed path is not opened again before it is wanted.
    pub fn keep_closed(&mut self, path: usize) {
        self.closed[path] = None;
        self.wanted.retain(|wanted| *wanted != path);
    }

    /// Opens paths in the order in which they were wanted, after the change of keys. After others
    /// were closed the receiver has not yet issued the connection ids that this takes.
    pub fn open_wanted(
        &mut self,
        connection: &mut Connection,
        controller: &SharedController,
        now: Instant,
    ) {
        if !self.have_new_keys(controller) {
            return;
        }
        while let Some(&path) = self.wanted.first() {
            controller.open(path);
            let opened = connection.open_path(sender_tuple(path), PathStatus::Available, now);
            let Ok(id) = opened else {
                return;
            };
            self.open[path] = Some(Open {
                id,
                established: false,
            });
            self.wanted.remove(0);
        }
    }

    /// The receiver has answered over a path.
    pub fn established(&mut self, id: PathId) {
        if let Some(path) = self.place(id)
            && let Some(path) = &mut self.open[path]
        {
            path.established = true;
        }
    }

    /// Closes dead paths while another works, and wants those that were closed a while ago. If none
    /// works all stay open, and the library probes them.
    pub fn watch(
        &mut self,
        connection: &mut Connection,
        controller: &SharedController,
        now: Instant,
    ) {
        let dead: Vec<bool> = (0..self.open.len())
            .map(|path| is_dead(path, controller, now))
            .collect();
        let mut open = self.open.iter().zip(&dead);
        if open.any(|(path, dead)| path.is_some_and(|path| path.established) && !dead) {
            for (path, _) in self.open.iter().zip(&dead).filter(|(_, dead)| **dead) {
                if let Some(path) = path {
                    // Fails for a path that the library is closing.
                    let _ = connection.close_path(now, path.id, VarInt::from_u32(0));
                }
            }
        }
        for (path, closed) in self.closed.iter_mut().enumerate() {
            if closed.is_some_and(|at| now >= at + RETRY) {
                *closed = None;
                self.wanted.push(path);
            }
        }
    }

    /// Allows an end enough paths to open again those that were closed. The library's receiver
    /// counts a path as used for ever if the sender abandons it before anything arrived over it.
    pub fn allow(&self, connection: &mut Connection, now: Instant) {
        if let Some(allowed) = NonZeroU32::new(self.allowed) {
            // Fails before the handshake is complete, when no path was closed.
            let _ = connection.set_max_concurrent_paths(now, allowed);
        }
    }

    fn place(&self, id: PathId) -> Option<usize> {
        let is_it = |open: &Option<Open>| open.is_some_and(|path| path.id == id);
        self.open.iter().position(is_it)
    }

    /// The library has closed a path.
    pub fn abandoned(&mut self, id: PathId, controller: &SharedController, now: Instant) {
        if let Some(path) = self.place(id) {
            self.open[path] = None;
            self.closed[path] = Some(now);
            self.allowed += 1;
            controller.abandon(path);
        }
    }
}

fn is_dead(path: usize, controller: &SharedController, now: Instant) -> bool {
    controller.read(|controller, reports| {
        if path >= reports.len() {
            return false; // not opened yet
        }
        let rtt_s = controller.path(path).rtt;
        let round_trips = SILENT_ROUND_TRIPS * if rtt_s.is_finite() { rtt_s } else { 0.0 };
        let limit = SILENCE.max(Duration::from_secs_f64(round_trips));
        reports[path]
            .silent_since
            .is_some_and(|since| now >= since + limit)
    })
}
