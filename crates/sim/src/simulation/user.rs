//! A user of a flow and what it has done so far.

use anabranch_scenario::users::UserSlot;

/// Who sends, and what it has sent so far.
#[derive(Debug)]
pub(crate) struct User {
    pub slot: UserSlot,
    /// The connection of a workload that has only one.
    pub connection: Option<u32>,
    /// Payload of connections that are over, and files that are done.
    pub received_bytes: u64,
    pub transfers_done: u64,
}

impl User {
    /// A user that has not begun.
    pub fn new(slot: UserSlot) -> User {
        User {
            slot,
            connection: None,
            received_bytes: 0,
            transfers_done: 0,
        }
    }
}
