//! The command line of the lab: `anabranch-lab run`, `check`, `shell`, `exec`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::{io, panic, process};

use anabranch_lab::{Error, Lab, check};
use anabranch_scenario::Scenario;
use clap::{Args, Parser, Subcommand};

/// Real Linux hosts over links emulated in user space.
#[derive(Parser)]
#[command(name = "anabranch-lab", version, about)]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run a scenario in real time and print its tables as JSON
    ///
    /// `anabranch run FILE --on kernel` is the comfortable way.
    #[command(
        after_help = "Example:\n  anabranch-lab run examples/two_links.toml --algorithm reno"
    )]
    Run(Run),
    /// Check that emulated links on this machine are what they are said to be
    ///
    /// Rate, lateness, random loss and RED, in about 20 s. Exits with 1 when something is out of
    /// bounds.
    #[command(after_help = "Example:\n  anabranch-lab check --json")]
    Check {
        /// Print one JSON document and nothing else
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
struct Source {
    /// A scenario file (TOML); - reads it from the standard input, traces lie in this directory
    file: PathBuf,
    /// Replace a value of the scenario, such as links.left.rate_mbps=30; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// What flows without an algorithm of their own run: any that this kernel has, such as bbr
    #[arg(long, short, value_name = "NAME")]
    algorithm: Option<String>,
}

#[derive(Args)]
struct Run {
    #[command(flatten)]
    source: Source,
    /// The seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Source {
    fn scenario(&self) -> Result<Scenario, String> {
        let overrides = self
            .set
            .iter()
            .map(|setting| match setting.split_once('=') {
                Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
                None => Err(format!("--set {setting}: expected KEY=VALUE")),
            });
        let overrides = overrides.collect::<Result<Vec<_>, _>>()?;
        let scenario = if self.file.as_os_str() == "-" {
            let text = io::read_to_string(io::stdin()).map_err(|error| error.to_string())?;
            Scenario::parse(text.as_bytes(), "<stdin>", &overrides)
        } else {
            Scenario::load(&self.file, &overrides)
        };
        scenario.map_err(|error| error.to_string())
    }
}

fn main() -> ExitCode {
    // A thread that panics takes the process with it, and so the lab.
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        tell(info);
        process::exit(101);
    }));
    let result = match Command::parse().verb {
        Verb::Run(run) => run_scenario(&run),
        Verb::Check { json } => check_machine(json),
    };
    match result {
        Ok(code) => code,
        Err(message) => {
            eprintln!("anabranch-lab: {message}");
            ExitCode::from(2)
        }
    }
}

fn run_scenario(run: &Run) -> Result<ExitCode, String> {
    let scenario = run.source.scenario()?;
    let lab = Lab::build(&scenario, run.seed, run.source.algorithm.as_deref());
    let outcome = lab.and_then(|lab| lab.run(())).map_err(one_line)?;
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
    let mut stdout = io::stdout().lock();
    let written = serde_json::to_writer(&mut stdout, &document).map_err(|error| error.to_string());
    written.and_then(|()| writeln!(stdout).map_err(|error| error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

fn check_machine(json: bool) -> Result<ExitCode, String> {
    let lines =
        check::check(|next| eprintln!("anabranch-lab: checking {next}")).map_err(one_line)?;
    if json {
        println!("{}", serde_json::json!({ "lines": lines }));
    } else {
        println!(
            "{:<44} {:>10} {:>10} {:>10}",
            "", "measured", "least", "most"
        );
        for line in &lines {
            let verdict = if line.holds { "" } else { "  out of bounds" };
            let numbers = [line.measured, line.least, line.most].map(|x| format!("{x:>10.4}"));
            println!("{:<44} {}{verdict}", line.what, numbers.join(" "));
        }
    }
    let holds = lines.iter().all(|line| line.holds);
    Ok(ExitCode::from(u8::from(!holds)))
}

fn one_line(error: Error) -> String {
    error.to_string()
}
