//! Controllers of a library of others, which is loaded and whose answers are checked.

use std::ffi::{CString, c_void};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use anabranch_control as control;
use anabranch_control::{Answer, Happening, Listener};
use libloading::Library;

use crate::{ABI, Event, Find, PER_PACKET, Start, Table, name_of};

/// Largest state of a connection, bytes: a larger one is rather a mistake.
const MOST_BYTES: usize = 1 << 24;

/// A controller of a library. All connections of a run share one, and it keeps their first fault.
#[derive(Debug)]
pub struct Loaded {
    /// File and name, as in `-a`.
    name: Arc<str>,
    functions: Functions,
    fault: Arc<OnceLock<String>>,
}

/// A table without NULL, of a library that stays loaded.
#[derive(Clone, Copy, Debug)]
struct Functions {
    table: &'static Table,
    size: unsafe extern "C" fn(*const Table, u32) -> usize,
    init: unsafe extern "C" fn(*const Table, *mut c_void, *const Start) -> i32,
    on_event: unsafe extern "C" fn(*mut c_void, *const Event, *mut Answer, u32) -> i32,
}

impl Loaded {
    /// The controller `name` of the library in `file`. The library stays loaded: its code may be
    /// running in any thread.
    ///
    /// # Errors
    ///
    /// One line, without the file: it is no library, or has no such controller of this version.
    pub fn open(file: &Path, name: &str) -> Result<Loaded, String> {
        // A name without a slash would be looked up in the system's folders.
        let path = file.canonicalize().map_err(|error| error.to_string())?;
        let text = CString::new(name).map_err(|_| "a name has no NUL".to_owned())?;
        // SAFETY: loading runs the library's initialisers. The user asked to run this file's code,
        // as that of a program; nothing can vouch for it.
        let library = unsafe { Library::new(&path) }.map_err(|error| {
            let message = error.to_string();
            format!("not a shared library of this machine: {message}")
        })?;
        let library = std::mem::ManuallyDrop::new(library);
        // SAFETY: `Find` is the type that the header declares for this symbol. The library is never
        // unloaded, so that the function stays.
        let find = unsafe { library.get::<Find>(b"anabranch_find\0") }.map_err(|_| {
            "exports no anabranch_find: expected a library built with anabranch.h".to_owned()
        })?;
        // SAFETY: the header's function takes a string that ends with NUL, which lives during the
        // call.
        let table = unsafe { find(text.as_ptr()) };
        if table.is_null() {
            return Err(format!("anabranch_find has no controller \"{name}\""));
        }
        if !table.is_aligned() {
            return Err("anabranch_find gave an address that is no controller's".to_owned());
        }
        // SAFETY: not null, and the header says that it points to a version, which every version of
        // the header has first, for as long as the library is loaded, which is for ever.
        let abi = unsafe { *table.cast::<u32>() };
        if abi != ABI {
            return Err(format!(
                "{name} is of version {abi} of anabranch.h: expected {ABI}; build it with the \
                 header of this Anabranch"
            ));
        }
        // SAFETY: of this version it has this layout, is aligned, never changes and stays loaded.
        // Any bits are values of its fields: numbers, and functions or NULL.
        let table: &'static Table = unsafe { &*table };
        let functions = Functions::of(table).map_err(|what| format!("{name} {what}"))?;
        Ok(Loaded {
            name: format!("{}:{name}", file.display()).into(),
            functions,
            fault: Arc::default(),
        })
    }

    /// The same for another run, without a fault.
    pub fn for_run(&self) -> Loaded {
        Loaded {
            name: Arc::clone(&self.name),
            functions: self.functions,
            fault: Arc::default(),
        }
    }

    /// The first fault of a connection, in one line with the event.
    pub fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }
}

impl Functions {
    fn of(table: &'static Table) -> Result<Functions, String> {
        if table.flags & !PER_PACKET != 0 {
            return Err(format!("has flags {:#x}: expected 0 or 1", table.flags));
        }
        let missing = |what| format!("has no {what}: it is NULL");
        Ok(Functions {
            table,
            size: table.size.ok_or_else(|| missing("size"))?,
            init: table.init.ok_or_else(|| missing("init"))?,
            on_event: table.on_event.ok_or_else(|| missing("on_event"))?,
        })
    }
}

impl control::Foreign for Loaded {
    fn is_per_packet(&self) -> bool {
        self.functions.table.flags & PER_PACKET != 0
    }

    fn open(&self, start: &control::Start) -> Box<dyn Listener> {
        let state = State::new(self.functions, start).map_err(|message| {
            // A second fault says no more.
            let _ = self.fault.set(format!("{}: {message}", self.name));
        });
        Box::new(Connection {
            name: Arc::clone(&self.name),
            fault: Arc::clone(&self.fault),
            most_paths: start.most_paths,
            state: state.ok(),
        })
    }
}

/// A piece of memory of the alignment that the header promises.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(16))]
struct Block(#[allow(dead_code, reason = "the library's")] [u8; 16]);

/// The state of a connection, made by `init`.
#[derive(Debug)]
struct State {
    functions: Functions,
    memory: Vec<Block>,
}

impl State {
    fn new(functions: Functions, start: &control::Start) -> Result<State, String> {
        let most_paths = u32::try_from(start.most_paths).map_err(|error| error.to_string())?;
        // SAFETY: the header's function, with its own table.
        let bytes = unsafe { (functions.size)(functions.table, most_paths) };
        if bytes > MOST_BYTES {
            return Err(format!(
                "size gave {bytes} bytes for {most_paths} paths: expected at most {MOST_BYTES}"
            ));
        }
        // At least one: also an empty state has an address.
        let blocks = bytes.div_ceil(size_of::<Block>()).max(1);
        let mut memory = vec![Block::default(); blocks];
        let start = Start {
            abi: ABI,
            most_paths,
            initial_window: start.initial_window,
            smallest_ssthresh: start.smallest_ssthresh,
        };
        // SAFETY: the memory has the bytes that it asked for, zeroed and aligned to 16; `start`
        // lives during the call.
        let answer =
            unsafe { (functions.init)(functions.table, memory.as_mut_ptr().cast(), &start) };
        if answer != 0 {
            return Err(format!("init returned {answer}: expected 0"));
        }
        Ok(State { functions, memory })
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(release) = self.functions.table.release {
            // SAFETY: `init` made this state, and nothing uses it after this.
            unsafe { release(self.memory.as_mut_ptr().cast()) }
        }
    }
}

/// The controller of a connection. After the first fault it answers no more, until the run notices.
#[derive(Debug)]
struct Connection {
    name: Arc<str>,
    fault: Arc<OnceLock<String>>,
    most_paths: usize,
    state: Option<State>,
}

impl Listener for Connection {
    fn hear(&mut self, event: &Happening, answers: &mut [Answer]) {
        let Some(state) = self.state.as_mut().filter(|_| self.fault.get().is_none()) else {
            return;
        };
        let message = match answers.len() <= self.most_paths {
            true => ask(state, event, answers),
            false => Err(format!("more than {} paths open", self.most_paths)),
        };
        if let Err(message) = message {
            let (kind, path, now) = (name_of(event.kind), event.path, event.now);
            let at = format!("at {kind} of path {path}, {now:.6} s");
            // A second fault says no more.
            let _ = self.fault.set(format!("{}: {message} {at}", self.name));
        }
    }
}

fn ask(state: &mut State, event: &Happening, answers: &mut [Answer]) -> Result<(), String> {
    let count = answers.len() as u32;
    // SAFETY: `init` made the state; the event and `count` answers live during the call, and
    // nothing else uses them. The event's path is one of them. Calls do not overlap: `&mut`.
    let answer = unsafe {
        (state.functions.on_event)(
            state.memory.as_mut_ptr().cast(),
            &Event::from(event),
            answers.as_mut_ptr(),
            count,
        )
    };
    if answer != 0 {
        return Err(format!("on_event returned {answer} (expected 0)"));
    }
    for (r, answer) in answers.iter().enumerate() {
        let Answer {
            window,
            ssthresh,
            pacing_rate,
        } = *answer;
        let fault = |key: &str, value: f64, expected: &str| {
            Err(format!(
                "{key} of path {r} is {value} (expected {expected})"
            ))
        };
        if window.is_nan() || window < 1.0 {
            return fault("window", window, "packets, at least 1");
        }
        if ssthresh.is_nan() || ssthresh < 0.0 {
            return fault("ssthresh", ssthresh, "packets, or INFINITY");
        }
        if pacing_rate.is_nan() || pacing_rate <= 0.0 {
            return fault("pacing_rate", pacing_rate, "packets/s above 0, or INFINITY");
        }
    }
    Ok(())
}
