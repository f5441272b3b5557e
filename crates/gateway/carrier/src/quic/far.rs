//! Paths of `far`, as `near` announces them.

use super::allowance;
use super::control::Opens;
use super::library::{Connection, Event};
use super::paths::{Entry, Paths};
use super::share::Share;

/// Most paths that `near` may announce.
const MAX_ENTRIES: usize = 64;

/// Paths of `far`, in the order in which they opened first.
#[derive(Debug)]
pub(super) struct Followed {
    pub paths: Paths,
    announced: Announced,
}

/// Paths that `near` has announced and over which nothing has arrived yet, at most one of each
/// name.
#[derive(Debug, Default)]
pub(super) struct Announced(pub Vec<Opens>);

impl Announced {
    /// Adds a path that `near` opens, one of these or another.
    ///
    /// # Errors
    /// If it opens more than it may.
    pub fn add(&mut self, message: Opens, entries: &[Entry]) -> anyhow::Result<()> {
        self.0.retain(|it| it.name != message.name);
        let known = entries.iter().any(|entry| entry.name == message.name);
        let room = entries.len() + self.0.len() < MAX_ENTRIES;
        anyhow::ensure!(known || room, "too many paths");
        self.0.push(message);
        Ok(())
    }
}

/// Entry of an announced path. A new name gets a new entry.
pub(super) fn entry_of(entries: &mut Vec<Entry>, message: Opens) -> &mut Entry {
    let known = entries.iter().position(|it| it.name == message.name);
    let place = known.unwrap_or_else(|| {
        let share = Share::new(message.weight, message.rate_mbps);
        entries.push(Entry::new(message.name, message.role, share, None));
        entries.len() - 1
    });
    &mut entries[place]
}

impl Followed {
    /// A `far` without paths.
    pub fn new(connection: Connection) -> Followed {
        Followed {
            paths: Paths::new(connection, Vec::new()),
            announced: Announced::default(),
        }
    }

    /// Takes the message that `near` opens a path.
    ///
    /// # Errors
    /// If it opens more than it may.
    pub fn announced(&mut self, message: Opens) -> anyhow::Result<()> {
        self.announced.add(message, &self.paths.entries)
    }

    /// Handles events, finds announced paths that have opened, gives all their allowances, and
    /// closes paths that lose `far`'s data: `near` does not detect them, because it receives
    /// `far`'s data over another path.
    pub fn step(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Abandoned(number) => {
                    self.announced.0.retain(|it| it.id != number);
                    self.paths.abandoned(number);
                }
                Event::IsBackup(number, is_backup) => {
                    self.paths.set_backup_of_peer(number, is_backup);
                }
            }
        }
        let connection = self.paths.connection.clone();
        let is_open = |message: &mut Opens| connection.has_path(message.id);
        let opened: Vec<Opens> = self.announced.0.extract_if(.., is_open).collect();
        for message in opened {
            self.opened(&connection, message);
        }
        allowance::allow(&mut self.paths.entries);
        self.paths.watch();
    }

    fn opened(&mut self, connection: &Connection, message: Opens) {
        let Some(path) = connection.path(message.id) else {
            return;
        };
        entry_of(&mut self.paths.entries, message).opened(path);
    }
}
