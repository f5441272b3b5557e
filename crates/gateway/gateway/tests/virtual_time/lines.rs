//! Lines of paths in the log: each path that opens has one of its end.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Number of times that a path has opened and ended.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    opened: u64,
    ended: u64,
    /// Whether it has ended before it opened.
    is_wrong: bool,
}

/// Paths by their names and numbers, which both ends give them.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<Mutex<BTreeMap<String, Count>>>);

impl Lines {
    /// Faults at the end.
    pub fn faults(&self) -> Vec<String> {
        let counts = self.0.lock().expect("no panic");
        if counts.is_empty() {
            return vec!["no path has opened".into()];
        }
        let wrong = counts.iter();
        let wrong = wrong.filter(|(_, count)| count.is_wrong || count.opened != count.ended);
        let faults = wrong.map(|(path, count)| format!("lines of {path}: {count:?}"));
        faults.collect()
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let mut counts = self.0.lock().expect("no panic");
        if line.message.starts_with("path opened") {
            counts.entry(line.path).or_default().opened += 1;
        } else if ["path closed", "path dead"]
            .iter()
            .any(|end| line.message.starts_with(end))
        {
            let count = counts.entry(line.path).or_default();
            count.ended += 1;
            count.is_wrong |= count.ended > count.opened;
        }
    }
}

/// A line of the log.
#[derive(Default)]
struct Line {
    message: String,
    path: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "path" | "id" => self.path += &format!(" {value:?}"),
            _ => {}
        }
    }
}
