//! What `status`, `list` and `doctor` print.

use std::fmt::Write;

use anabranch_kernel::doctor::Check;
use anabranch_kernel::{Connection, PROGRAMS, pins, registered};
use anyhow::Result;
use serde::Serialize;

/// One of our algorithms, registered.
#[derive(Debug, Serialize)]
pub struct Registered {
    name: &'static str,
    /// Whether it stays registered after the process that loaded it.
    pinned: bool,
}

/// What `status --json` prints.
#[derive(Debug, Serialize)]
pub struct Status {
    registered: Vec<Registered>,
    connections: Vec<Connection>,
}

impl Status {
    /// The present state.
    pub fn now() -> Result<Status> {
        let (names, pinned) = (registered()?, pins::pinned()?);
        let ours = PROGRAMS.iter().map(|program| program.name);
        let registered = ours
            .filter(|name| names.iter().any(|other| other == name))
            .map(|name| Registered {
                name,
                pinned: pinned.contains(&name),
            })
            .collect();
        Ok(Status {
            registered,
            connections: anabranch_kernel::connections()?,
        })
    }

    /// As text.
    pub fn text(&self) -> String {
        let names = self.registered.iter().map(|algorithm| {
            let pinned = if algorithm.pinned { " (pinned)" } else { "" };
            format!("{}{pinned}", algorithm.name)
        });
        let names: Vec<String> = names.collect();
        let mut text = match names.as_slice() {
            [] => "registered: none\n".to_owned(),
            names => format!("registered: {}\n", names.join(", ")),
        };
        for connection in &self.connections {
            text += &connection_text(connection);
        }
        text
    }
}

fn connection_text(connection: &Connection) -> String {
    let mut text = match connection.token {
        Some(token) => format!("\nMultipath TCP, token {token:08x}"),
        None => "\nplain TCP".to_owned(),
    };
    if connection.cookie != 0 {
        write!(text, ", cookie {}", connection.cookie).expect("a string");
    }
    writeln!(
        text,
        "\n  {:12} {:>9} {:>10} {:>9} {:>8} {:>8} {:>6}  path",
        "algorithm", "window", "rtt", "rate", "loss", "alpha", "share"
    )
    .expect("a string");
    for subflow in &connection.subflows {
        let alpha = subflow
            .alpha
            .map_or("-".to_owned(), |alpha| format!("{alpha:.3}"));
        writeln!(
            text,
            "  {:12} {:9.2} {:7.1} ms {:4.0} Mbps {:6.3} % {alpha:>8} {:4.0} %  {} -> {}{}",
            subflow.algorithm,
            subflow.window,
            subflow.rtt_ms,
            subflow.rate_mbps,
            100.0 * subflow.loss,
            100.0 * subflow.share,
            subflow.local,
            subflow.remote,
            if subflow.backup { " (backup)" } else { "" },
        )
        .expect("a string");
    }
    text
}

/// `list`: every algorithm, its rule and parameters.
pub fn list() -> String {
    let mut text = String::new();
    for program in PROGRAMS {
        let info = program.info();
        writeln!(text, "{:12} {}", program.name, info.summary).expect("a string");
        for parameter in info.parameters {
            let (name, default, meaning) = (parameter.name, parameter.default, parameter.meaning);
            writeln!(text, "{:12}   {name}={default}: {meaning}", "").expect("a string");
        }
    }
    text
}

/// `doctor`: each requirement, with the remedy if it is not met.
pub fn checks(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let mark = if check.ok { "ok     " } else { "MISSING" };
        writeln!(text, "{mark}  {}: {}", check.what, check.found).expect("a string");
        if !check.ok {
            writeln!(
                text,
                "         needed for {}: {}",
                check.needed_for, check.remedy
            )
            .expect("a string");
        }
    }
    text
}
