//! The paths of `far`: what `near` says about them.

use anabranch_quic::controller::SharedController;
use noq::{Connection, PathId, PathStatus};
use tokio::time::Instant;

use super::allowance;
use super::control::Opens;
use super::paths::{Entry, Open};
use super::share::Share;
use super::silence::{Pings, Silence};
use crate::config::Role;
use crate::{Condition, PathState};

/// Paths of which `near` may speak.
const MAX_ENTRIES: usize = 64;

/// The paths of `far`.
#[derive(Debug)]
pub(super) struct Peer {
    controller: SharedController,
    entries: Vec<Entry>,
    /// Paths that `near` opens and of which nothing has arrived yet.
    announced: Vec<Opens>,
    pings: Pings,
}

impl Peer {
    /// No path yet.
    pub fn new(controller: SharedController) -> Peer {
        Peer {
            controller,
            entries: Vec::new(),
            announced: Vec::new(),
            pings: Pings::new(),
        }
    }

    /// The states of the paths, in the order in which they opened first.
    pub fn states(&self, connection: &Connection) -> Vec<PathState> {
        let state = |entry: &Entry| {
            let open = entry.open.as_ref();
            let condition = match (open, entry.role) {
                (None, _) => Condition::Dead,
                (Some(_), Role::Backup) => Condition::Standby,
                (Some(_), _) => Condition::Up,
            };
            let path = open.and_then(|open| connection.path(open.id));
            let local = path.and_then(|path| path.local_ip().ok().flatten());
            entry.state(&self.controller, condition, local)
        };
        self.entries.iter().map(state).collect()
    }

    /// `near` opens a path.
    ///
    /// # Errors
    /// If it opens more than it may.
    pub fn announced(&mut self, message: Opens) -> anyhow::Result<()> {
        self.announced.retain(|it| it.name != message.name);
        let known = self.entries.iter().any(|entry| entry.name == message.name);
        let room = self.entries.len() + self.announced.len() < MAX_ENTRIES;
        anyhow::ensure!(known || room, "too many paths");
        self.announced.push(message);
        Ok(())
    }

    /// The library has closed a path.
    pub fn abandoned(&mut self, connection: &Connection, id: PathId) {
        self.announced.retain(|it| PathId::from(it.id) != id);
        let is_it = |entry: &&mut Entry| entry.open.as_ref().is_some_and(|open| open.id == id);
        if let Some(entry) = self.entries.iter_mut().find(is_it) {
            entry.closed(connection, &self.controller);
            entry.deaths += 1;
        }
    }

    /// `near` prefers other paths to this one, or not.
    pub fn set_remote_status(&mut self, id: PathId, status: PathStatus) {
        let open = self.entries.iter_mut().filter_map(|it| it.open.as_mut());
        for open in open.filter(|open| open.id == id) {
            open.remote_status = status;
        }
    }

    /// Finds announced paths that have opened, and gives all their allowances.
    pub fn step(&mut self, connection: &Connection) {
        let is_open = |message: &mut Opens| connection.path(message.id.into()).is_some();
        let opened: Vec<Opens> = self.announced.extract_if(.., is_open).collect();
        for message in opened {
            self.opened(connection, message);
        }
        allowance::allow(&mut self.entries, connection, &self.controller);
        self.close_dead(connection);
        self.pings.send(&self.entries, connection, &self.controller);
    }

    /// Closes paths that lose what `far` sends. `near` does not detect them, because it receives
    /// `far`'s data over another path.
    fn close_dead(&mut self, connection: &Connection) {
        let now = Instant::now();
        let silence = |open: &Open| Silence::of(open, &self.controller, now);
        let open = self.entries.iter().filter_map(|it| it.open.as_ref());
        let silences: Vec<(PathId, Silence)> = open.map(|it| (it.id, silence(it))).collect();
        let works = silences.iter().any(|(_, silence)| !silence.is_suspicious());
        let entries = self.entries.iter_mut().filter(|it| it.open.is_some());
        for (entry, (_, silence)) in entries.zip(&silences) {
            let weight = entry.share.weight;
            if let Some(open) = &mut entry.open {
                // `near` also suspects paths by its probes. A used-up share is known to it alone.
                let near_suspects = open.remote_status == PathStatus::Backup && weight >= 1.0;
                open.is_suspected = near_suspects || works && silence.is_suspicious();
            }
        }
        if !works {
            return;
        }
        for (id, _) in silences.iter().filter(|(_, silence)| silence.is_death()) {
            if let Some(path) = connection.path(*id)
                && path.close().is_ok()
            {
                self.abandoned(connection, *id);
            }
        }
    }

    fn opened(&mut self, connection: &Connection, message: Opens) {
        let Some(open) = Open::new(connection, message.id.into(), PathStatus::Available) else {
            return;
        };
        let known = self.entries.iter().position(|it| it.name == message.name);
        let place = known.unwrap_or_else(|| {
            let share = Share::new(message.weight, message.rate_mbps);
            self.entries
                .push(Entry::new(message.name, message.role, share));
            self.entries.len() - 1
        });
        let entry = &mut self.entries[place];
        entry.closed(connection, &self.controller); // if it is opened anew before it was closed
        entry.open = Some(open);
    }
}
