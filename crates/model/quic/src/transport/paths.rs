//! The paths of a connection at its sender: when they are opened, closed and opened again.

use std::num::NonZeroU32;
use std::time::Instant;

use noq_proto::{Connection, PathId, PathStatus, VarInt};

use super::endpoint::sender_tuple;
use crate::controller::SharedController;
use crate::watch::{Advice, PathWatch};

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
    /// Each path once it was open, unless it is to be kept closed.
    watches: Vec<Option<PathWatch>>,
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
    pub fn new(paths: usize, now: Instant) -> Paths {
        let mut open = vec![None; paths];
        open[0] = Some(Open {
            id: PathId::ZERO,
            established: true,
        });
        let mut watches = vec![None; paths];
        watches[0] = Some(open_watch(now));
        Paths {
            open,
            watches,
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
        if self.open[path].is_some() {
            return;
        }
        self.watches[path] = None;
        if !self.wanted.contains(&path) {
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
        if self.open[path].is_none() {
            self.watches[path] = None;
        }
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
            self.watches[path] = Some(open_watch(now));
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
        let mut any_works = false;
        for (path, open) in self.open.iter().enumerate() {
            if let (Some(open), Some(watch)) = (open, &mut self.watches[path]) {
                let (silent_since, rtt) = controller.heard(path);
                watch.heard(silent_since, rtt);
                any_works |= open.established && watch.works(now);
            }
        }
        for (path, watch) in self.watches.iter_mut().enumerate() {
            let advice = watch.as_mut().and_then(|it| it.advice(now, any_works));
            match (advice, self.open[path]) {
                (Some(Advice::Close), Some(open)) => {
                    // Fails for a path that the library is closing.
                    let _ = connection.close_path(now, open.id, VarInt::from_u32(0));
                }
                // To open it is to probe it: the library sends a PATH_CHALLENGE.
                (Some(Advice::Probe), None) if !self.wanted.contains(&path) => {
                    self.wanted.push(path);
                }
                // Open paths are not probed: a probe after each loss would change what is measured.
                _ => {}
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
            if let Some(watch) = &mut self.watches[path] {
                watch.closed(now);
            }
            self.allowed += 1;
            controller.abandon(path);
        }
    }
}

fn open_watch(now: Instant) -> PathWatch {
    let mut watch = PathWatch::new(now);
    watch.opened(now);
    watch
}
