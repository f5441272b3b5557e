//! A user of a flow and its totals so far.

use anabranch_scenario::users::UserSlot;

/// A user and its totals so far.
#[derive(Debug)]
pub(crate) struct User {
    pub slot: UserSlot,
    /// The connection, if the workload has only one.
    pub connection: Option<u32>,
    /// Payload received over connections that are over, bytes, and files completed.
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
