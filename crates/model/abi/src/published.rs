//! Rules of the table as controllers for programs in C.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use anabranch_control::{Ack, Algorithm, Answer, AnyController, Kind};

use crate::{ABI, Event, Start, Table};

/// A rule as a controller. The table is its first field, so that the table's address is its own.
#[repr(C)]
struct Published {
    table: Table,
    algorithm: Algorithm,
}

/// The state of a connection.
struct State {
    controller: AnyController,
    most_paths: u32,
}

const _: () = assert!(align_of::<State>() <= 16, "the header promises 16");

/// The rules that were asked for: each is made once and stays.
static RULES: Mutex<Vec<&'static Published>> = Mutex::new(Vec::new());

/// The controller of a rule such as "lia"; NULL where the header says so.
///
/// # Safety
///
/// `rule` is NULL or a string that ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_rule(rule: *const c_char) -> *const Table {
    if rule.is_null() {
        return std::ptr::null();
    }
    // SAFETY: not null, and the caller says that it ends with NUL.
    let text = unsafe { CStr::from_ptr(rule) };
    let algorithm = text.to_str().ok().and_then(|it| Algorithm::parse(it).ok());
    let known = |it: &Algorithm| it.info().takes_marks_as_losses();
    let Some(algorithm) = algorithm.filter(known) else {
        return std::ptr::null();
    };
    let mut rules = RULES.lock().unwrap_or_else(PoisonError::into_inner);
    let found = rules.iter().copied().find(|it| it.algorithm == algorithm);
    let published: &'static Published = found.unwrap_or_else(|| {
        let table = Table {
            abi: ABI,
            flags: 0,
            size: Some(size),
            init: Some(init),
            on_event: Some(on_event),
            release: Some(release),
        };
        let new: &'static Published = Box::leak(Box::new(Published { table, algorithm }));
        rules.push(new);
        new
    });
    std::ptr::from_ref(published).cast()
}

unsafe extern "C" fn size(_table: *const Table, _most_paths: u32) -> usize {
    size_of::<State>()
}

unsafe extern "C" fn init(table: *const Table, state: *mut c_void, start: *const Start) -> c_int {
    if table.is_null() || state.is_null() || start.is_null() {
        return 1;
    }
    // SAFETY: not null, and by the header the caller's own, for the time of this call.
    let start = unsafe { *start };
    if start.abi != ABI || !start.initial_window.is_finite() {
        return 1;
    }
    // SAFETY: the table is the first field of a `Published` that lives for ever: `anabranch_rule`
    // alone gives tables with this function.
    let published = unsafe { &*table.cast::<Published>() };
    let mut controller = published.algorithm.controller(0, start.initial_window);
    controller.set_smallest_ssthresh(start.smallest_ssthresh);
    let new = State {
        controller,
        most_paths: start.most_paths,
    };
    // SAFETY: by the header the memory has the bytes of `size`, aligned to 16, and no state yet.
    unsafe { state.cast::<State>().write(new) };
    0
}

unsafe extern "C" fn release(state: *mut c_void) {
    if !state.is_null() {
        // SAFETY: by the header `init` made this state, and nothing uses it after this.
        unsafe { state.cast::<State>().drop_in_place() };
    }
}

unsafe extern "C" fn on_event(
    state: *mut c_void,
    event: *const Event,
    paths: *mut Answer,
    count: u32,
) -> c_int {
    if state.is_null() || event.is_null() || paths.is_null() {
        return 1;
    }
    // SAFETY: not null; by the header `init` made the state, calls do not overlap, and event and
    // answers are the caller's own for the time of this call.
    let (state, event) = unsafe { (&mut *state.cast::<State>(), *event) };
    if count > state.most_paths || event.path >= count {
        return 1;
    }
    // SAFETY: as above, and by the header there are `count` answers, which the caller has set.
    let paths = unsafe { std::slice::from_raw_parts_mut(paths, count as usize) };
    match state.hear(&event) {
        true => state.answer(paths),
        false => 1,
    }
}

impl State {
    /// Tells the controller; false for a path that is not open.
    fn hear(&mut self, event: &Event) -> bool {
        let (controller, r) = (&mut self.controller, event.path as usize);
        let open = controller.paths().len();
        if event.kind == Kind::Opened as u32 && r == open {
            controller.add_path();
            return true;
        }
        if r >= open {
            return false;
        }
        let is = |kind: Kind| event.kind == kind as u32;
        if is(Kind::Opened) {
            controller.reset_path(r);
        } else if is(Kind::Acked) {
            controller.on_ack(
                r,
                &Ack {
                    now: event.now,
                    sent_at: event.sent_at,
                    packets: event.packets as u32,
                    rtt: Some(event.rtt),
                    queue_delay: None,
                    window_limited: event.window_limited != 0,
                },
            );
        } else if is(Kind::Lost) {
            controller.on_lost(r, event.packets as u32);
        } else if is(Kind::Congestion) {
            controller.on_loss(r);
        } else if is(Kind::Recovered) {
            controller.on_recovered(r);
        } else if is(Kind::Timeout) {
            controller.on_timeout(r);
        } else if is(Kind::Ecn) {
            controller.on_mark(r);
        } else if is(Kind::Keep) {
            controller.keep_for_undo(r);
        } else if is(Kind::Spurious) {
            controller.on_spurious(r);
        } else if is(Kind::Idle) {
            controller.on_idle(r, event.now);
        } else if is(Kind::Threshold) {
            controller.set_ssthresh(r, event.packets);
        }
        true
    }

    /// Writes the answers for every open path.
    fn answer(&self, paths: &mut [Answer]) -> c_int {
        let open = self.controller.paths().len();
        for (r, answer) in paths.iter_mut().enumerate().take(open) {
            *answer = Answer {
                window: self.controller.window(r),
                ssthresh: self.controller.ssthresh(r),
                pacing_rate: self.controller.pacing_rate(r),
            };
        }
        0
    }
}
