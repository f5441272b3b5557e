//! The paths of `near`: opened, watched, closed when they are dead, and tried again.

use std::sync::Arc;
use std::time::Duration;

use anabranch_quic::controller::SharedController;
use noq::{ClosePathError, Connection, FourTuple, PathId, PathStatus, VarInt};
use tokio::time::Instant;

use super::allowance;
use super::control::Opens;
use super::paths::{Entry, Open};
use super::share::Share;
use super::silence::{Pings, Silence};
use super::socket::{Sockets, mapped, tag};
use crate::config::{self, Role};
use crate::{Condition, PathState};

/// How often a suspected path is probed.
const PROBE: Duration = Duration::from_millis(100);

/// How often a path that is not open is tried.
const RETRY: Duration = Duration::from_millis(500);

/// The paths of `near`.
#[derive(Debug)]
pub(super) struct Watchdog {
    sockets: Arc<Sockets>,
    controller: SharedController,
    entries: Vec<Entry>,
    watched: Vec<Watched>,
    pings: Pings,
}

/// What is known of a configured path beside its entry.
#[derive(Debug)]
struct Watched {
    config: config::Path,
    /// When it was last closed, or the start.
    closed: Instant,
    next_try: Instant,
    last_probe: Instant,
}

impl Watched {
    fn is_off(&self, carried: u64) -> bool {
        self.config.role == Role::Never || self.config.cap_bytes.is_some_and(|cap| carried >= cap)
    }
}

impl Watchdog {
    /// Watches these paths, of which `first` has carried the handshake.
    pub fn new(
        connection: &Connection,
        sockets: Arc<Sockets>,
        controller: SharedController,
        paths: &[config::Path],
        first: usize,
    ) -> (Watchdog, Vec<Opens>) {
        let now = Instant::now();
        let share = |path: &config::Path| Share::new(path.weight, path.rate_mbps);
        let entry = |path: &config::Path| Entry::new(path.name.clone(), path.role, share(path));
        let watched = |path: &config::Path| Watched {
            config: path.clone(),
            closed: now - RETRY, // answers to the probes before the handshake count
            next_try: now,
            last_probe: now,
        };
        let mut watchdog = Watchdog {
            sockets,
            controller,
            entries: paths.iter().map(entry).collect(),
            watched: paths.iter().map(watched).collect(),
            pings: Pings::new(),
        };
        watchdog.entries[first].open = Open::new(connection, PathId::ZERO, PathStatus::Available);
        let opens = vec![Opens::new(PathId::ZERO, &paths[first])];
        (watchdog, opens)
    }

    /// The states of the paths.
    pub fn states(&self) -> Vec<PathState> {
        let states = self.entries.iter().zip(&self.watched).enumerate();
        states
            .map(|(i, (entry, watched))| {
                let local = self.sockets.slots()[i].local();
                let condition = self.condition(entry, watched);
                entry.state(&self.controller, condition, local)
            })
            .collect()
    }

    fn condition(&self, entry: &Entry, watched: &Watched) -> Condition {
        if watched.is_off(entry.carried()) {
            return Condition::Off;
        }
        match &entry.open {
            None if entry.deaths > 0 || watched.closed.elapsed() > 2 * RETRY => Condition::Dead,
            None => Condition::Opening,
            Some(open) if open.report(&self.controller).rtt_samples == 0 => Condition::Opening,
            Some(_) if entry.role == Role::Backup => Condition::Standby,
            Some(_) => Condition::Up,
        }
    }

    /// Uses a path no more.
    pub fn turn_off(&mut self, path: &str) {
        let watched = self.watched.iter_mut();
        for it in watched.filter(|it| it.config.name == path) {
            it.config.role = Role::Never;
        }
    }

    /// `far` has closed a path, or could not be reached over it.
    pub fn abandoned(&mut self, connection: &Connection, id: PathId) {
        let is_it = |entry: &Entry| entry.open.as_ref().is_some_and(|open| open.id == id);
        if let Some(i) = self.entries.iter().position(is_it) {
            self.entries[i].deaths += 1;
            self.close(connection, i);
        }
    }

    /// Handles timers that have expired. Returns the paths that open.
    pub fn step(&mut self, connection: &Connection) -> Vec<Opens> {
        let now = Instant::now();
        allowance::allow(&mut self.entries, connection, &self.controller);
        let mut opens = self.watch(connection, now);
        self.pings.send(&self.entries, connection, &self.controller);
        opens.extend(self.open(connection, now));
        opens
    }

    fn silence(&self, i: usize, now: Instant) -> Option<Silence> {
        let open = self.entries[i].open.as_ref()?;
        let silence = Silence::of(open, &self.controller, now);
        let answer = self.sockets.slots()[i].probes.answer();
        Some(silence.unless_answered(answer.map(|answer| answer.at), now))
    }

    /// Probes suspected paths, closes dead ones while another works, and those whose cap is
    /// reached. If none works all stay open until one answers.
    fn watch(&mut self, connection: &Connection, now: Instant) -> Vec<Opens> {
        let mut opens = Vec::new();
        let silences: Vec<Option<Silence>> = (0..self.entries.len())
            .map(|i| self.silence(i, now))
            .collect();
        let works = silences.iter().flatten().any(|it| !it.is_suspicious());
        for (i, silence) in silences.iter().enumerate() {
            let Some(silence) = *silence else { continue };
            if let Some(open) = &mut self.entries[i].open {
                open.is_suspected = works && silence.is_suspicious();
            }
            if self.watched[i].is_off(self.entries[i].carried()) {
                if self.close_path(connection, i) == Err(ClosePathError::LastOpenPath) {
                    connection.close(
                        VarInt::from_u32(0),
                        b"the data caps of all paths are reached",
                    );
                }
            } else if silence.is_death() && works {
                if self.close_path(connection, i).is_ok() {
                    self.entries[i].deaths += 1;
                }
            } else if silence.is_stuck() {
                opens.extend(self.renew(connection, i));
            } else if silence.needs_probe() && now >= self.watched[i].last_probe + PROBE {
                self.watched[i].last_probe = now;
                self.probe(i);
            }
        }
        opens
    }

    fn probe(&self, i: usize) {
        let slot = &self.sockets.slots()[i];
        // Fails without an interface or a route, so that no answer arrives either.
        if slot.send(&slot.probes.next()).is_err() {
            slot.unbind();
            let _ = self.sockets.bind(i);
        }
    }

    /// Closes the library's path, if it is not the last one.
    fn close_path(&mut self, connection: &Connection, i: usize) -> Result<(), ClosePathError> {
        let open = self.entries[i].open.as_ref();
        let path = open.and_then(|open| connection.path(open.id));
        path.ok_or(ClosePathError::ClosedPath)?.close()?;
        tracing::info!(path = self.entries[i].name, "path closed");
        self.close(connection, i);
        Ok(())
    }

    fn close(&mut self, connection: &Connection, i: usize) {
        self.entries[i].closed(connection, &self.controller);
        let now = Instant::now();
        (self.watched[i].closed, self.watched[i].next_try) = (now, now + RETRY);
    }

    /// Opens the path anew. The last path cannot be closed before another is open.
    fn renew(&mut self, connection: &Connection, i: usize) -> Option<Opens> {
        let old = self.entries[i].open.as_ref()?.id;
        let new = self.open_library_path(connection, i)?;
        if let Some(old) = connection.path(old) {
            // Fails if the library has closed it.
            let _ = old.close();
        }
        self.close(connection, i);
        let opens = Opens::new(new.id, &self.watched[i].config);
        self.entries[i].open = Some(new);
        Some(opens)
    }

    /// Tries the paths that are not open, and opens those that answer, the fastest first.
    fn open(&mut self, connection: &Connection, now: Instant) -> Vec<Opens> {
        let mut answered = Vec::new();
        for i in 0..self.entries.len() {
            let is_off = self.watched[i].is_off(self.entries[i].carried());
            if self.entries[i].open.is_some() || is_off {
                continue;
            }
            let answer = self.sockets.slots()[i].probes.answer();
            match answer.filter(|answer| answer.at > self.watched[i].closed) {
                Some(answer) => answered.push((answer.rtt, i)),
                None if now >= self.watched[i].next_try => {
                    self.watched[i].next_try = now + RETRY;
                    self.try_again(i);
                }
                None => {}
            }
        }
        answered.sort();
        let mut opens = Vec::new();
        for (_, i) in answered {
            if let Some(open) = self.open_library_path(connection, i) {
                tracing::info!(path = self.entries[i].name, id = %open.id, "path opened");
                opens.push(Opens::new(open.id, &self.watched[i].config));
                self.entries[i].open = Some(open);
            }
        }
        opens
    }

    fn try_again(&self, i: usize) {
        let slot = &self.sockets.slots()[i];
        if !slot.is_bound() && self.sockets.bind(i).is_err() {
            return;
        }
        self.probe(i);
    }

    /// Opens a path of the library, if the peer has issued connection ids for another one.
    fn open_library_path(&self, connection: &Connection, i: usize) -> Option<Open> {
        let far = mapped(self.sockets.slots()[i].far);
        let status = match self.watched[i].config.role {
            Role::Backup => PathStatus::Backup,
            Role::Available | Role::Never => PathStatus::Available,
        };
        let opening = connection.open_path(FourTuple::new(far, Some(tag(i))), status);
        Open::new(connection, opening.path_id()?, status)
    }
}
