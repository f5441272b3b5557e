//! Congestion controllers across languages, by the header `include/anabranch.h`: controllers of
//! C libraries in our backends ([`Loaded`]), and our rules in C programs ([`anabranch_rule`]).
//!
//! The types of this module are those of the header, by the same names and layouts.

use std::ffi::{c_char, c_int, c_void};

use anabranch_control::{Answer, Happening, Kind};

mod loaded;
mod published;

pub use loaded::Loaded;
pub use published::anabranch_rule;

/// The version of the header.
pub const ABI: u32 = 1;

/// `ANABRANCH_PER_PACKET`.
const PER_PACKET: u32 = 1;

/// `struct anabranch_event`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Event {
    kind: u32,
    path: u32,
    window_limited: u32,
    app_limited: u32,
    now: f64,
    packets: f64,
    rtt: f64,
    sent_at: f64,
    delivered: f64,
    delivery_rate: f64,
    in_flight: f64,
}

impl From<&Happening> for Event {
    fn from(it: &Happening) -> Event {
        Event {
            kind: it.kind as u32,
            path: it.path as u32,
            window_limited: it.window_limited.into(),
            app_limited: it.app_limited.into(),
            now: it.now,
            packets: it.packets,
            rtt: it.rtt.unwrap_or(0.0),
            sent_at: it.sent_at,
            delivered: it.delivered,
            delivery_rate: it.delivery_rate,
            in_flight: it.in_flight,
        }
    }
}

/// `struct anabranch_start`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Start {
    abi: u32,
    most_paths: u32,
    initial_window: f64,
    smallest_ssthresh: f64,
}

/// `struct anabranch_controller`. Its functions are `None` where they are NULL.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Table {
    abi: u32,
    flags: u32,
    size: Option<unsafe extern "C" fn(*const Table, u32) -> usize>,
    init: Option<unsafe extern "C" fn(*const Table, *mut c_void, *const Start) -> c_int>,
    on_event: Option<unsafe extern "C" fn(*mut c_void, *const Event, *mut Answer, u32) -> c_int>,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// `anabranch_find`.
type Find = unsafe extern "C" fn(*const c_char) -> *const Table;

/// The name of a kind in the header, without its prefix.
fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Opened => "OPENED",
        Kind::Acked => "ACKED",
        Kind::Lost => "LOST",
        Kind::Congestion => "CONGESTION",
        Kind::Recovered => "RECOVERED",
        Kind::Timeout => "TIMEOUT",
        Kind::Ecn => "ECN",
        Kind::Keep => "KEEP",
        Kind::Spurious => "SPURIOUS",
        Kind::Idle => "IDLE",
        Kind::Threshold => "THRESHOLD",
        Kind::Sent => "SENT",
        Kind::Sample => "SAMPLE",
        Kind::AppLimited => "APP_LIMITED",
    }
}
