//! The command line: `anabranch-lab run`, `check`, `shell`, `exec`.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, exit};

use anabranch_lab::control_socket::{self, ControlSocket};
use anabranch_lab::hosts;
use anabranch_lab::network::capture::Capture;
use anabranch_lab::network::emulator::ReturnWay;
use anabranch_lab::{Error, Lab, Outcome, check, exit_on_panic, program};
use anabranch_scenario::Scenario;
use clap::{Args, Parser, Subcommand};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Real Linux hosts over links emulated in user space. Needs root.
#[derive(Parser)]
#[command(
    name = "anabranch-lab",
    version,
    after_help = "\
Examples:
  anabranch-lab check
  anabranch-lab run examples/two_links.toml --algorithm reno
  anabranch-lab shell examples/two_links.toml two-path"
)]
struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Run a scenario in real time and print its tables as JSON
    ///
    /// `anabranch run FILE --on kernel` is more convenient.
    #[command(
        after_help = "Example:\n  anabranch-lab run examples/two_links.toml --algorithm reno"
    )]
    Run {
        #[command(flatten)]
        source: Source,
        /// The seed of all random numbers
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Write the packets offered to each link to a pcapng file in DIR
        #[arg(long, value_name = "DIR")]
        capture: Option<PathBuf>,
        /// End with this process, which has started this one, however it ends
        #[arg(long, value_name = "PID", hide = true)]
        die_with_parent: Option<i32>,
    },
    /// Check that the emulated links on this machine behave as configured
    ///
    /// Measures rate, lateness, random loss and RED in about 15 s. Exits with 1 if a measurement is
    /// out of bounds.
    #[command(after_help = "Example:\n  anabranch-lab check --json")]
    Check {
        /// Print one JSON document and nothing else
        #[arg(long)]
        json: bool,
    },
    /// Open a shell in a host of a scenario
    ///
    /// The links work, but the scenario's workloads do not run. The lab exists until the shell that
    /// started it ends; further shells of the same file join it.
    #[command(after_help = "Example:\n  anabranch-lab shell examples/two_links.toml two-path")]
    Shell {
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        links: Links,
        /// FLOW or FLOW.USER for a user, or server
        host: String,
    },
    /// Run a program in a host of a scenario
    #[command(
        after_help = "Examples:\n  anabranch-lab exec examples/two_links.toml server -- iperf3 -s &\n  \
                      anabranch-lab exec examples/two_links.toml two-path -- iperf3 -c 10.255.255.254"
    )]
    Exec {
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        links: Links,
        /// FLOW or FLOW.USER for a user, or server
        host: String,
        /// The program and its arguments
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

#[derive(Args)]
struct Source {
    /// A scenario file (TOML); for `run`, - is the standard input
    file: PathBuf,
    /// Replace a value of the scenario, such as links.left.rate_mbps=30; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The algorithm of flows without one of their own: any of this kernel, such as bbr
    #[arg(long, short, value_name = "NAME")]
    algorithm: Option<String>,
}

#[derive(Args)]
struct Links {
    /// Let packets from the server traverse the path's links too, in reverse order, instead of only
    /// being delayed
    #[arg(long)]
    duplex: bool,
}

fn main() -> ExitCode {
    exit_on_panic();
    let result = match Command::parse().action {
        Action::Run {
            source,
            seed,
            capture,
            die_with_parent,
        } => {
            if let Some(parent) = die_with_parent {
                die_with(parent);
            }
            run(&source, seed, capture.as_deref())
        }
        Action::Check { json } => check_machine(json),
        Action::Shell {
            source,
            links,
            host,
        } => exec(&source, links, &host, &[program::shell()]),
        Action::Exec {
            source,
            links,
            host,
            command,
        } => exec(&source, links, &host, &command),
    };
    result.unwrap_or_else(|error| {
        eprintln!("anabranch-lab: {error}");
        ExitCode::from(2)
    })
}

impl Links {
    fn return_way(&self) -> ReturnWay {
        if self.duplex {
            ReturnWay::Links
        } else {
            ReturnWay::Delay
        }
    }
}

impl Source {
    fn scenario(&self) -> Result<Scenario, Error> {
        let overrides = self.set.iter().map(|setting| {
            let (key, value) = setting
                .split_once('=')
                .ok_or_else(|| Error::new(format!("--set {setting}: expected KEY=VALUE")))?;
            Ok((key.to_owned(), value.to_owned()))
        });
        let overrides = overrides.collect::<Result<Vec<_>, Error>>()?;
        let scenario = if self.file.as_os_str() == "-" {
            let text = io::read_to_string(io::stdin()).map_err(system)?;
            Scenario::parse(text.as_bytes(), "<stdin>", &overrides)
        } else {
            Scenario::load(&self.file, &overrides)
        };
        scenario.map_err(|error| Error::new(error.to_string()))
    }
}

fn run(source: &Source, seed: u64, capture: Option<&Path>) -> Result<ExitCode, Error> {
    let scenario = source.scenario()?;
    let lab = Lab::build(&scenario, seed, source.algorithm.as_deref())?;
    let [receive, send] = hosts::largest_buffers(&scenario.tcp);
    print_progress(&format!(
        "running for {} s, with receive buffers of up to {receive} and send buffers of up to {send} \
         bytes",
        scenario.measure.duration_s
    ));
    match capture {
        None => print(lab.run(())?)?,
        Some(directory) => print(lab.run(Capture::new(&scenario, directory)?)?)?.finish()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the result of a run, and returns the observer of its packets.
fn print<T>(outcome: Outcome<T>) -> Result<T, Error> {
    for warning in &outcome.warnings {
        eprintln!("anabranch-lab: warning: {warning}");
    }
    let tables = outcome.record.tables().into_iter().map(|(name, columns)| {
        let columns = columns.into_iter().map(|(name, column)| {
            let column = serde_json::to_value(column).expect("a column is plain data");
            (name.to_owned(), column)
        });
        (
            name.to_owned(),
            serde_json::Value::Object(columns.collect()),
        )
    });
    let document = serde_json::json!({
        "algorithms": outcome.algorithms,
        "lateness": outcome.lateness,
        "tables": serde_json::Value::Object(tables.collect()),
    });
    let printed = writeln!(io::stdout(), "{document}");
    printed.map_err(|error| Error::new(format!("writing the tables: {error}")))?;
    Ok(outcome.tap)
}

fn check_machine(json: bool) -> Result<ExitCode, Error> {
    let lines = check::check(|next| print_progress(&format!("checking {next}")))?;
    let text = if json {
        serde_json::json!({ "lines": lines }).to_string()
    } else {
        let [measured, least, most] = ["measured", "least", "most"];
        let mut text = format!("{:<44} {measured:>10} {least:>10} {most:>10}", "");
        for line in &lines {
            let verdict = if line.holds { "" } else { "  out of bounds" };
            let numbers = [line.measured, line.least, line.most].map(|x| format!("{x:>10.4}"));
            text += &format!("\n{:<44} {}{verdict}", line.what, numbers.join(" "));
        }
        text
    };
    writeln!(io::stdout(), "{text}").map_err(system)?;
    let holds = lines.iter().all(|line| line.holds);
    Ok(ExitCode::from(u8::from(!holds)))
}

/// Runs a program in a host of the running lab of this file, or of a new one.
fn exec(
    source: &Source,
    links: Links,
    host: &str,
    command: &[OsString],
) -> Result<ExitCode, Error> {
    let scenario = source.scenario()?;
    let multipath = scenario.flows.iter().any(|flow| flow.paths.len() > 1);
    let code = match control_socket::open(&source.file)? {
        ControlSocket::Connected(stream) => {
            if !source.set.is_empty() || source.algorithm.is_some() || links.duplex {
                return Err(Error::new(format!(
                    "{}: its lab is already running; omit --set, --algorithm and --duplex to join it",
                    source.file.display()
                )));
            }
            control_socket::end_with(&stream)?;
            let host = control_socket::find_host(stream, host)?;
            program::run(&host, command, multipath)?
        }
        ControlSocket::Listening(listener) => {
            let lab = Lab::build(&scenario, scenario.seeds[0], source.algorithm.as_deref())?;
            let names: Vec<String> = lab.hosts().map(|(name, _)| name).collect();
            let index = control_socket::host_index(names.iter().map(String::as_str), host)?;
            control_socket::serve(listener, &lab);
            let (_, inside) = lab.hosts().nth(index).expect("the index is that of a host");
            let run = || program::run(inside, command, multipath);
            lab.forward_while(links.return_way(), (), run)?.1
        }
    };
    Ok(ExitCode::from(code))
}

/// Makes the kernel kill this process when its parent ends.
fn die_with(parent: i32) {
    // Without this signal the run would only end later, by itself.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // It may have ended before.
    if getppid().is_none_or(|now| now.as_raw_pid() != parent) {
        exit(1);
    }
}

/// Prints progress, if stderr is a terminal.
fn print_progress(what: &str) {
    if io::stderr().is_terminal() {
        eprintln!("anabranch-lab: {what}");
    }
}

fn system(error: io::Error) -> Error {
    Error::new(error.to_string())
}
