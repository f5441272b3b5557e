//! The lab's hosts and links, and what it leaves behind: nothing.

mod common;
mod hosts;
mod links;
mod nothing_left;
mod programs;
