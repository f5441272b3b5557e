//! The command line: `anabranch-gateway near`, `far`, `init`, `keygen`, `check`, `status`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anabranch_gateway::config::init::{self, InitFar, InitNear};
use anabranch_gateway::config::read::{self, Either};
use anabranch_gateway::config::{Far, Near};
use anabranch_gateway::keys::KeyPair;
use anabranch_gateway::operation::{client, run};
use anabranch_gateway::{far, near};
use anabranch_scenario::Error;
use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Carries TCP connections, UDP and DNS over several paths at once, with any rule of Anabranch.
#[derive(Parser)]
#[command(
    name = "anabranch-gateway",
    version,
    after_help = "\
Examples:
  anabranch-gateway init near             asks for what it needs, and prints the next command
  anabranch-gateway check near.toml
  anabranch-gateway far far.toml
  anabranch-gateway near near.toml
  curl --proxy socks5h://127.0.0.1:1080 https://example.org/
  anabranch-gateway status near.toml

Exit codes: 0 success, 1 a failure at run time, 2 a fault of the configuration or command line."
)]
struct Cli {
    #[command(flatten)]
    verbosity: Verbosity,
    #[command(subcommand)]
    command: Command,
}

#[derive(Args)]
struct Verbosity {
    /// Log more: connections (-v), everything (-vv). ANABRANCH_LOG has a filter instead
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Log warnings and errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Accept local traffic and carry it to far
    #[command(after_help = "\
SIGHUP reads the file again and applies what has changed. SIGTERM and SIGINT end the program once
its connections have ended, at most operation.drain_s later; a second signal ends it at once.

Example:
  anabranch-gateway near near.toml")]
    Near {
        /// The configuration (TOML)
        file: PathBuf,
    },
    /// Accept tunnels and connect out for them
    #[command(after_help = "\
The signals are the same as for `near`.

Example:
  anabranch-gateway far far.toml")]
    Far {
        /// The configuration (TOML)
        file: PathBuf,
    },
    /// Write the first configuration of a gateway and its key, and print what else is needed
    #[command(after_help = "\
Nothing is overwritten; a key that exists is used. Without --peer it writes the key alone, and prints
the command for the other host, which prints the one with --peer.

Example:
  near$ anabranch-gateway init near --far gateway.example.org:7440 --path fibre=eth0 --path lte=wwan0
  far$ anabranch-gateway init far --address gateway.example.org:7440 --peer KEY
  near$ anabranch-gateway init near --far gateway.example.org:7440 --path fibre=eth0 --path lte=wwan0 \
--peer KEY")]
    Init {
        #[command(subcommand)]
        role: Init,
    },
    /// Write a new private key to FILE, and print its public key
    #[command(after_help = "\
The file is readable by its owner only, and is never overwritten. Add the public key to
tunnel.peers of the other gateway.

Example:
  anabranch-gateway keygen /etc/anabranch/near.key")]
    Keygen {
        /// The file to write
        file: PathBuf,
    },
    /// Read a configuration, and report every fault
    #[command(after_help = "\
Exits with 2 if there is a fault. Warnings do not change the exit code.

Example:
  anabranch-gateway check near.toml")]
    Check {
        /// The configuration (TOML)
        file: PathBuf,
    },
    /// Show the state of a running gateway
    #[command(after_help = "\
Examples:
  anabranch-gateway status near.toml
  anabranch-gateway status 127.0.0.1:9480 --json")]
    Status {
        /// Print the JSON document of the gateway
        #[arg(long)]
        json: bool,
        /// The gateway's operation.status, or its configuration
        #[arg(value_name = "ADDRESS|FILE")]
        from: String,
    },
}

#[derive(Subcommand)]
enum Init {
    /// Beside the clients
    Near(InitNear),
    /// On a server
    Far(InitFar),
}

/// Makes all threads use one heap. With glibc's default, one for each, memory grows in steps during
/// mixed traffic (docs/notebook/gateway-measured.md).
fn share_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no other thread exists, and the call has no other condition.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

fn main() -> ExitCode {
    share_heap();
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Near { file } => {
            cli.verbosity.log();
            read::read::<Near>(&file).map_or_else(
                |errors| Ok(refuse(&errors)),
                |valid| run::run::<near::Near>(&file, valid),
            )
        }
        Command::Far { file } => {
            cli.verbosity.log();
            read::read::<Far>(&file).map_or_else(
                |errors| Ok(refuse(&errors)),
                |valid| run::run::<far::Far>(&file, valid),
            )
        }
        Command::Init { role } => Ok(initialise(role)),
        Command::Keygen { file } => keygen(&file),
        Command::Check { file } => Ok(check(&file, cli.verbosity.quiet)),
        Command::Status { json, from } => client::status(&from, json).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        eprintln!("anabranch-gateway: {error:#}");
        ExitCode::FAILURE
    })
}

impl Verbosity {
    /// Logs to stderr; in colour only on a terminal. Without times under systemd, which adds them.
    fn log(&self) {
        let level = match (self.quiet, self.verbose) {
            (true, _) => "warn",
            (false, 0) => "info,noq=warn,noq_proto=warn",
            (false, 1) => "debug,noq=warn,noq_proto=warn,rustls=info,hyper=info",
            (false, _) => "trace",
        };
        let filter = EnvFilter::try_from_env("ANABRANCH_LOG");
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter.unwrap_or_else(|_| EnvFilter::new(level)))
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
            .with_target(self.verbose > 0);
        if std::env::var_os("JOURNAL_STREAM").is_some() {
            log.without_time().init();
        } else {
            log.init();
        }
    }
}

/// Prints the faults of a configuration. Returns the exit code.
fn refuse(errors: &[Error]) -> ExitCode {
    for error in errors {
        eprintln!("error: {error}");
    }
    ExitCode::from(2)
}

fn initialise(role: Init) -> ExitCode {
    let written = match role {
        Init::Near(near) => init::near(near),
        Init::Far(far) => init::far(far),
    };
    match written {
        Ok(next) => {
            print!("{next}");
            ExitCode::SUCCESS
        }
        Err(errors) => refuse(&errors),
    }
}

fn keygen(file: &Path) -> anyhow::Result<ExitCode> {
    let pair = KeyPair::generate().context("no key was generated")?;
    pair.write(file)?;
    println!("{}", pair.public());
    Ok(ExitCode::SUCCESS)
}

fn check(file: &Path, quiet: bool) -> ExitCode {
    let valid = match read::either(file) {
        Ok(valid) => valid,
        Err(errors) => return refuse(&errors),
    };
    for warning in valid.warnings() {
        eprintln!("warning: {warning}");
    }
    if !quiet {
        let (role, key) = match &valid {
            Either::Near(near) => ("near", near.key.public()),
            Either::Far(far) => ("far", far.key.public()),
        };
        println!("{}: a valid configuration of {role}", file.display());
        println!("public key {key}");
    }
    ExitCode::SUCCESS
}
