//! The paths of `far`: what `near` says about them.

use super::allowance;
use super::control::Opens;
use super::library::{Connection, Event};
use super::paths::{Entry, Paths};
use super::share::Share;

/// Paths of which `near` may speak.
const MAX_ENTRIES: usize = 64;

/// The paths of `far`, in the order in which they opened first.
#[derive(Debug)]
pub(super) struct Followed {
    pub paths: Paths,
    /// Paths that `near` opens and of which nothing has arrived yet.
    announced: Vec<Opens>,
}

impl Followed {
    /// No path yet.
    pub fn new(connection: Connection) -> Followed {
        Followed {
            paths: Paths::new(connection, Vec::new()),
            announced: Vec::new(),
        }
    }

    /// `near` opens a path.
    ///
    /// # Errors
    /// If it opens more than it may.
    pub fn announced(&mut self, message: Opens) -> anyhow::Result<()> {
        let entries = &self.paths.entries;
        self.announced.retain(|it| it.name != message.name);
        let known = entries.iter().any(|entry| entry.name == message.name);
        let room = entries.len() + self.announced.len() < MAX_ENTRIES;
        anyhow::ensure!(known || room, "too many paths");
        self.announced.push(message);
        Ok(())
    }

    /// Handles what has happened, finds announced paths that have opened, gives all their
    /// allowances, and closes paths that lose what `far` sends: `near` does not detect them,
    /// because it receives `far`'s data over another path.
    pub fn step(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Abandoned(number) => {
                    self.announced.retain(|it| it.id != number);
                    self.paths.abandoned(number);
                }
                Event::IsBackup(number, is_backup) => {
                    if let Some(entry) = self.paths.entry(number) {
                        entry.is_backup_of_peer = is_backup;
                    }
                }
            }
        }
        let connection = self.paths.connection.clone();
        let is_open = |message: &mut Opens| connection.has_path(message.id);
        let opened: Vec<Opens> = self.announced.extract_if(.., is_open).collect();
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
        let entries = &mut self.paths.entries;
        let known = entries.iter().position(|it| it.name == message.name);
        let place = known.unwrap_or_else(|| {
            let share = Share::new(message.weight, message.rate_mbps);
            entries.push(Entry::new(message.name, message.role, share, None));
            entries.len() - 1
        });
        entries[place].opened(path);
    }
}
