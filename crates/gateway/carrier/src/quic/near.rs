//! Paths of `near`, as configured.

use super::allowance;
use super::control::Opens;
use super::library::{Connection, Event, Sockets};
use super::paths::{Entry, Paths};
use super::share::Share;

/// Paths over these sockets, of which `first` has carried the handshake, and the message that it is
/// open.
pub(super) fn paths(connection: &Connection, sockets: &Sockets, first: usize) -> (Paths, Opens) {
    let entries = sockets.slots().iter().map(|slot| {
        let path = &slot.config;
        let share = Share::new(path.weight, path.rate_mbps);
        Entry::new(path.name.clone(), path.role, share, Some(slot.clone()))
    });
    let mut paths = Paths::new(connection.clone(), entries.collect());
    if let Some(path) = connection.path(0) {
        paths.entries[first].opened(path);
    }
    let opens = Opens::new(0, &sockets.slots()[first].config);
    (paths, opens)
}

/// Handles events and expired timers. Returns the paths that open.
pub(super) fn step(paths: &mut Paths, events: Vec<Event>) -> Vec<Opens> {
    for event in events {
        match event {
            Event::Abandoned(number) => paths.abandoned(number),
            Event::IsBackup(number, is_backup) => paths.set_backup_of_peer(number, is_backup),
        }
    }
    allowance::allow(&mut paths.entries);
    paths.watch()
}
