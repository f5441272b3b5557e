//! `anabranch-kernel`: coupled congestion control for the Multipath TCP of this kernel.

mod metrics;
mod operations;
mod report;

use std::io::{self, ErrorKind, IsTerminal, Write, stdout};
use std::net::SocketAddr;
use std::process::{self, ExitCode};
use std::thread;
use std::time::Duration;

use anabranch_kernel::{PROGRAMS, doctor, pins, set_weight};
use anyhow::{Context, Error, Result, ensure};
use clap::{Parser, Subcommand};
use operations::kernels_default;
use report::Status;

/// Coupled congestion control for the Multipath TCP of this kernel.
#[derive(Parser)]
#[command(
    version,
    after_help = "\
Examples:
  anabranch-kernel doctor
  anabranch-kernel load lia                 until Ctrl-C
  anabranch-kernel load --all --pin         until unload, or the next boot
  anabranch-kernel default lia              for new sockets of this network namespace
  mptcpize run iperf3 -c 192.0.2.1
  anabranch-kernel status --watch
  anabranch-kernel unload --all"
)]
struct Cli {
    /// Shows libbpf's messages, including the verifier's if the kernel rejects a program.
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the algorithms and their parameters.
    List,
    /// Registers algorithms with the kernel: until Ctrl-C, or until `unload` if pinned.
    #[command(after_help = "\
Examples:
  anabranch-kernel load lia olia
  anabranch-kernel load balia:cap=inf --pin
  anabranch-kernel load lia:coupling=never     each subflow by itself
  anabranch-kernel load lia:coupling=shared    only subflows with a common bottleneck are coupled
  anabranch-kernel load lia:buffers=linux      without larger send buffers and less unsent data
  anabranch-kernel load balia:min_ssthresh=1   windows of 1 packet, as in its paper
  anabranch-kernel load --all --pin
  anabranch-kernel load balia --replace        its name stays registered meanwhile")]
    Load {
        /// Algorithms, with parameters that differ from the defaults.
        #[arg(required_unless_present = "all", value_name = "NAME[:PARAMETER=VALUE]")]
        names: Vec<String>,
        /// All algorithms with their defaults.
        #[arg(long, conflicts_with = "names")]
        all: bool,
        /// Keeps them registered after this program has ended.
        #[arg(long)]
        pin: bool,
        /// Replaces those that are pinned, atomically; pins the others. Open connections keep the
        /// old program.
        #[arg(long)]
        replace: bool,
    },
    /// Sets the default congestion control of a network namespace, for its new sockets.
    #[command(after_help = "\
Examples:
  anabranch-kernel default lia
  anabranch-kernel default lia --namespace blue --namespace /proc/4711/ns/net
  anabranch-kernel default                     the kernel's own again, before unload")]
    Default {
        /// The name of a congestion control; without it the kernel's own default.
        name: Option<String>,
        /// The network namespace whose default is set, a name of `ip netns` or a path; repeatable.
        #[arg(long)]
        namespace: Vec<String>,
    },
    /// Shows what is registered, and the live connections of this network namespace.
    #[command(after_help = "\
The columns:
  alpha  loss-based: the last increase as a multiple of NewReno's;
         delay-based: packets to keep queued
  rate   the delivery rate; stale if nothing was acknowledged for a second
  share  of the connection's delivery rate

Examples:
  anabranch-kernel status --watch
  ip netns exec host1 anabranch-kernel status --json")]
    Status {
        /// Prints JSON.
        #[arg(long)]
        json: bool,
        /// Repeats it every second, until Ctrl-C.
        #[arg(long)]
        watch: bool,
    },
    /// Unregisters pinned algorithms. Sockets that use one keep it until they are closed.
    Unload {
        /// Algorithms.
        #[arg(required_unless_present = "all")]
        names: Vec<String>,
        /// All that are pinned.
        #[arg(long, conflicts_with = "names")]
        all: bool,
    },
    /// Gives one socket a weight of its own with the pinned vegas_k.
    #[command(after_help = "\
Examples:
  anabranch-kernel weight 4711 2.5     the connection whose cookie status shows
  anabranch-kernel weight 4711         back to the weight that vegas_k was loaded with")]
    Weight {
        /// The socket's SO_COOKIE.
        cookie: u64,
        /// Packets to keep queued; without it the socket's own weight is removed.
        kappa: Option<f64>,
    },
    /// Serves metrics for Prometheus.
    #[command(after_help = "\
Examples:
  anabranch-kernel metrics --listen 127.0.0.1:9462
  anabranch-kernel metrics --once > /var/lib/node_exporter/anabranch.prom")]
    Metrics {
        /// Serves them over HTTP at this address, until Ctrl-C.
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen: Option<SocketAddr>,
        /// Prints them, for the textfile collector of node_exporter.
        #[arg(long, conflicts_with = "listen", required_unless_present = "listen")]
        once: bool,
    },
    /// Checks the requirements of the algorithms, and says how to meet them.
    ///
    /// Fails if it prints MISSING.
    Doctor {
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if !cli.verbose {
        libbpf_rs::set_print(None);
    }
    match run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("anabranch-kernel: {error:#}{}", remedy(&error));
            ExitCode::FAILURE
        }
    }
}

/// Remedy of an error for lack of permission that does not name it.
fn remedy(error: &Error) -> &'static str {
    let denied = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let bpf = cause.downcast_ref::<libbpf_rs::Error>();
        io == Some(ErrorKind::PermissionDenied)
            || bpf.is_some_and(|error| error.kind() == libbpf_rs::ErrorKind::PermissionDenied)
    };
    let named = format!("{error:#}").contains("as root");
    if error.chain().any(denied) && !named && doctor::ensure_permitted().is_err() {
        "; run it as root"
    } else {
        ""
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::List => print(&report::list())?,
        Command::Load {
            names,
            all,
            pin,
            replace,
        } => {
            let all_names = || PROGRAMS.iter().map(|p| p.name.to_owned()).collect();
            let names: Vec<String> = if all { all_names() } else { names };
            let choices = names.iter().map(|name| name.parse());
            let choices = choices.collect::<Result<Vec<_>>>()?;
            operations::load(&choices, pin, replace)?;
        }
        Command::Default { name, namespace } => {
            operations::set_defaults(&name.unwrap_or_else(kernels_default), &namespace)?;
        }
        Command::Status { json, watch } => status(json, watch)?,
        Command::Unload { names, all } => {
            operations::unload(&if all { pinned()? } else { names })?;
        }
        Command::Weight { cookie, kappa } => {
            let valid = kappa.is_none_or(|kappa| kappa > 0.0 && kappa <= 1e6);
            ensure!(
                valid,
                "the weight is out of range: expected packets, above 0 to 1e6"
            );
            set_weight(&pins::weights()?, cookie, kappa)?;
        }
        Command::Metrics { listen, .. } => match listen {
            Some(address) => metrics::serve(address)?,
            None => print(&metrics::text()?)?,
        },
        Command::Doctor { json } => {
            let checks = doctor::checks();
            let text = report::checks(&checks);
            print(&if json {
                serde_json::to_string_pretty(&checks)? + "\n"
            } else {
                text
            })?;
            return Ok(if checks.iter().any(doctor::Check::is_missing) {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            });
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn status(json: bool, watch: bool) -> Result<()> {
    loop {
        let status = Status::now()?;
        if watch && !json && stdout().is_terminal() {
            print("\x1b[H\x1b[2J")?;
        }
        // One line per document, so that a program can read them one by one.
        print(&match (json, watch) {
            (true, true) => serde_json::to_string(&status)? + "\n",
            (true, false) => serde_json::to_string_pretty(&status)? + "\n",
            (false, _) if stdout().is_terminal() => report::fit_terminal(&status.text()),
            (false, _) => status.text(),
        })?;
        if !watch {
            return Ok(());
        }
        thread::sleep(Duration::from_secs(1));
    }
}

/// The names that `unload --all` means.
fn pinned() -> Result<Vec<String>> {
    let names = pins::pinned()?;
    if names.is_empty() {
        eprintln!("anabranch-kernel: nothing is pinned");
    }
    Ok(names.into_iter().map(String::from).collect())
}

fn print(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has closed the pipe: `status --watch | head`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => process::exit(0),
        written => written.context("cannot write"),
    }
}
