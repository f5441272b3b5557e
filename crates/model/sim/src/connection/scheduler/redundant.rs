//! Redundant: all data on all paths (Froemmgen, Erbshaeusser, Buchmann, Zimmermann, Wehrle, ICC
//! 2016, "ReMP TCP").
//!
//! Each path goes through the data by itself: it sends what is not acknowledged and what it has not
//! sent before, oldest first, and new data once it has sent all that others have. So a path that
//! falls behind leaves out what has arrived. The first kernel module copied only those packets for
//! which another path had room at the time; here, as in the paper, no path leaves out data that has
//! not arrived.

use crate::connection::scheduler::Scheduler;
use crate::connection::{Connection, World};
use crate::network::PacketNumber;

/// Each path's progress through the data.
#[derive(Debug, Default)]
pub(crate) struct Redundant {
    /// Path `r` has sent all data below `next[r]`, or left it out because it had arrived.
    next: Vec<PacketNumber>,
}

impl Redundant {
    /// The data of path `r`, oldest first, from `una` on, the first that is not acknowledged.
    fn next(&mut self, r: usize, una: PacketNumber) -> &mut PacketNumber {
        if self.next.len() <= r {
            self.next.resize(r + 1, 0);
        }
        let next = &mut self.next[r];
        *next = (*next).max(una);
        next
    }
}

impl Connection {
    /// Sends over path `r` what it has not sent yet: a copy, or new data. False if there is
    /// neither.
    pub(crate) fn send_redundantly(&mut self, world: &mut World, r: usize) -> bool {
        let una = self.data_una;
        let Scheduler::Redundant(redundant) = &mut self.scheduler else {
            return false;
        };
        let mut data = *redundant.next(r, una);
        if data < self.data_next {
            self.paths[r].totals.retransmitted_packets += 1;
        } else if let Some(new) = self.next_new(world.tcp, self.data_end) {
            data = new;
        } else {
            return false;
        }
        if let Scheduler::Redundant(redundant) = &mut self.scheduler {
            *redundant.next(r, una) = data + 1;
        }
        self.transmit::<true>(world, r, data, None);
        true
    }
}
