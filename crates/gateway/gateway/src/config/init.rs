//! The first configuration of a gateway, with its key, and what else its host and the other one
//! need: `anabranch-gateway init`.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anabranch_scenario::Error;
use clap::Args;
use ipnet::IpNet;
use toml::Value;

use super::read::{self, Config};
use super::warnings::user_of_units;
use super::{Far, Near};
use crate::keys::{KeyPair, PublicKey};
use crate::wire::Destination;

/// First table of routes, and first priority of their rules: far's port by default.
const TABLE: usize = 7440;

/// Arguments of both gateways.
#[derive(Args, Debug)]
pub struct Common {
    /// Public key of the other gateway; without it, writes the own key alone
    #[arg(long, value_name = "KEY")]
    peer: Option<PublicKey>,
    /// Folder of the files
    #[arg(long, default_value = ".")]
    folder: PathBuf,
    /// Protocol that carries the tunnel: quic or mptcp
    #[arg(long, default_value = "quic")]
    carrier: String,
    /// Congestion-control rule
    #[arg(long, default_value = "olia")]
    algorithm: String,
    /// Address of the status page
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9480")]
    status: String,
}

/// Arguments of `init near`.
#[derive(Args, Debug)]
pub struct InitNear {
    /// Host and port of far
    #[arg(long, value_name = "HOST:PORT")]
    far: Option<Destination>,
    /// A link, by its interface or by a local address; once for each
    #[arg(long = "path", value_name = "NAME=INTERFACE|ADDRESS")]
    paths: Vec<Link>,
    /// Own address in a network whose hosts are clients, too, such as 192.168.1.1/24
    #[arg(long, value_name = "ADDRESS/PREFIX")]
    lan: Option<IpNet>,
    /// Replace near.routes, which is kept otherwise
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    common: Common,
}

/// Arguments of `init far`.
#[derive(Args, Debug)]
pub struct InitFar {
    /// Public host and port of far; it listens at this port
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<Destination>,
    /// A destination that far connects to; once for each
    #[arg(long, default_value = "*")]
    allow: Vec<String>,
    /// DNS server for near's clients
    #[arg(long, value_name = "ADDRESS", default_value = "9.9.9.9:53")]
    resolver: String,
    #[command(flatten)]
    common: Common,
}

/// A path, as an argument.
#[derive(Clone, Debug)]
struct Link {
    name: String,
    at: Place,
}

/// Where the packets of a path leave.
#[derive(Clone, Debug)]
enum Place {
    Interface(String),
    Address(IpAddr),
}

impl FromStr for Link {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Link, &'static str> {
        let (name, at) = text
            .split_once('=')
            .ok_or("expected a name and an interface or address, such as fibre=eth0")?;
        Ok(Link {
            name: name.to_owned(),
            at: at
                .parse()
                .map_or_else(|_| Place::Interface(at.to_owned()), Place::Address),
        })
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Place::Interface(interface) => write!(f, "{}={interface}", self.name),
            Place::Address(address) => write!(f, "{}={address}", self.name),
        }
    }
}

/// Writes the files of near. Returns what to do next.
///
/// # Errors
/// An argument that is missing or wrong; a configuration that exists; a file that is not written.
pub fn near(mut arguments: InitNear) -> Result<String, Vec<Error>> {
    let far = match arguments.far {
        Some(far) => far,
        None => ask(
            "--far",
            "Host and port of far, such as gateway.example.org:7440",
        )?,
    };
    if arguments.paths.is_empty() {
        let question = "Links, such as fibre=eth0 lte=wwan0";
        let Links(links) = ask("--path", question)?;
        arguments.paths = links;
    }
    let InitNear {
        paths,
        lan,
        force,
        common,
        ..
    } = arguments;
    let other = format!(
        "anabranch-gateway init far --address {far} --peer {{key}}{}",
        common.shared()
    );
    let (at, clients) = match lan {
        None => (IpAddr::from([127, 0, 0, 1]), String::new()),
        Some(lan) => (lan.addr(), format!(", clients = [\"{}\"]", lan.trunc())),
    };
    let listen = |service: &str, port: u16| {
        let at = SocketAddr::new(at, port);
        format!("{service} = {{ listen = \"{at}\"{clients} }}\n")
    };
    let mut text = format!("far = {}\npaths = [\n", quoted(&far.to_string()));
    for Link { name, at } in &paths {
        let name = quoted(name);
        let place = match at {
            Place::Interface(interface) => format!("interface = {}", quoted(interface)),
            Place::Address(address) => format!("address = \"{address}\""),
        };
        let _ = writeln!(text, "    {{ name = {name}, {place} }},");
    }
    text += &format!("]\n{}{}", listen("socks", 1080), listen("dns", 5353));
    if lan.is_some() {
        text += &listen("redirect", 1081);
    }
    let mut next = write::<Near>(&common, &text, &other)?;
    if paths.len() > 1 {
        let routes = routes(&paths);
        let file = common.folder().join("near.routes");
        let found = std::fs::read_to_string(&file);
        let is_kept = !force && found.is_ok_and(|found| found != routes);
        if !is_kept {
            std::fs::write(&file, &routes).map_err(|error| {
                let file = file.display().to_string();
                vec![Error::of_file(&file, error.to_string())]
            })?;
        }
        let what = match is_kept {
            true => "kept; with --force it has this",
            false => "written",
        };
        let file = file.display();
        let _ = write!(
            next,
            "{file}: {what}, for the unit, or sh as root at each start:\n{routes}"
        );
    }
    if let Some(lan) = lan {
        next += &packet_filter(lan);
    }
    Ok(next)
}

/// Writes the files of far. Returns what to do next.
///
/// # Errors
/// As for [`near`].
pub fn far(arguments: InitFar) -> Result<String, Vec<Error>> {
    let InitFar {
        address,
        allow,
        resolver,
        common,
    } = arguments;
    let port = address.as_ref().map_or(7440, |address| address.port);
    let address = address.map_or(format!("FAR:{port}"), |address| address.to_string());
    let other = format!(
        "anabranch-gateway init near --far {address} --peer {{key}} --path fibre=eth0 \
         --path lte=wwan0{}",
        common.shared()
    );
    let allow: Vec<String> = allow.iter().map(|it| quoted(it)).collect();
    let text = format!(
        "listen = \"[::]:{port}\"\nallow = [{}]\nresolver = {}\n",
        allow.join(", "),
        quoted(&resolver)
    );
    write::<Far>(&common, &text, &other)
}

impl Common {
    /// Folder of the files, empty for the present one.
    fn folder(&self) -> &Path {
        self.folder.strip_prefix(".").unwrap_or(&self.folder)
    }

    /// Arguments that both gateways must have alike, where they are not the default.
    fn shared(&self) -> String {
        match self.carrier.as_str() {
            "quic" => String::new(),
            carrier => format!(" --carrier {carrier}"),
        }
    }
}

/// Links in the answer to a question.
struct Links(Vec<Link>);

impl FromStr for Links {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Links, &'static str> {
        let links: Vec<Link> = text
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        match links.is_empty() {
            true => Err("expected at least one"),
            false => Ok(Links(links)),
        }
    }
}

/// Asks for the value of an argument, on a terminal.
fn ask<T: FromStr<Err: fmt::Display>>(argument: &str, question: &str) -> Result<T, Vec<Error>> {
    let fail = |message: String| vec![Error::of_file(argument, message)];
    if !io::stdin().is_terminal() {
        return Err(fail(format!("missing argument: {question}")));
    }
    eprint!("{question}: ");
    let _ = io::stderr().flush();
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    read.map_err(|error| fail(error.to_string()))?;
    let parsed: Result<T, _> = answer.trim().parse();
    parsed.map_err(|error| fail(error.to_string()))
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Writes the key, if there is none, and the configuration, if the peer is known and it is valid.
/// Both belong to the user of the units, if there is one and this process may give them away.
fn write<C: Config>(common: &Common, head: &str, other: &str) -> Result<String, Vec<Error>> {
    let role = C::ROLE;
    let folder = common.folder();
    let file = folder.join(format!("{role}.toml"));
    let key_file = format!("{role}.key");
    let key_path = folder.join(&key_file);
    let fail =
        |path: &Path, message: String| vec![Error::of_file(&path.display().to_string(), message)];
    if common.peer.is_some() && file.symlink_metadata().is_ok() {
        let message = "it exists, and is not overwritten: remove it, or expected another --folder";
        return Err(fail(&file, message.to_owned()));
    }
    let mut next = String::new();
    let (key, what) = if key_path.symlink_metadata().is_ok() {
        (KeyPair::read(&key_path), "kept")
    } else {
        let pair = KeyPair::generate().and_then(|pair| pair.write(&key_path).map(|()| pair));
        (pair, "written")
    };
    let key = key.map_err(|error| fail(&key_path, format!("{error:#}")))?;
    give(&key_path, &mut next);
    let _ = writeln!(next, "{}: {what}", key_path.display());
    let other = other.replace("{key}", &key.public().to_string());
    let Some(peer) = &common.peer else {
        let _ = writeln!(
            next,
            "On the other host, which prints the command with --peer for this one:\n    {other}"
        );
        return Ok(next);
    };
    let Common {
        carrier,
        algorithm,
        status,
        ..
    } = common;
    let text = format!(
        "{head}\n[tunnel]\ncarrier = {}\nalgorithm = {}\nkey = {}\npeers = [\"{peer}\"]\n\
         \n[operation]\nstatus = {}\n",
        quoted(carrier),
        quoted(algorithm),
        quoted(&key_file),
        quoted(status)
    );
    let valid = read::of_text::<C>(&file, &text)?;
    let created = std::fs::File::create_new(&file);
    let written = created.and_then(|mut created| created.write_all(text.as_bytes()));
    written.map_err(|error| fail(&file, error.to_string()))?;
    let _ = writeln!(next, "{}: written", file.display());
    for warning in &valid.warnings {
        let _ = writeln!(next, "warning: {warning}");
    }
    let _ = writeln!(next, "On the other host, unless it is done:\n    {other}");
    Ok(next)
}

/// Gives a key to the user of the units.
fn give(key: &Path, next: &mut String) {
    if let Some(user) = user_of_units()
        && let Err(error) = chown(key, Some(user), None)
    {
        let key = key.display();
        let _ = writeln!(
            next,
            "warning: {key}: the units cannot read it ({error}): chown anabranch-gateway {key}"
        );
    }
}

/// Commands by which the packets of each link leave by it and no other, for the present addresses.
fn routes(paths: &[Link]) -> String {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let mut out = String::new();
    for family in ["-4", "-6"] {
        let mut rules = String::new();
        for (i, link) in paths.iter().enumerate() {
            let table = TABLE + 1 + i;
            let found = interfaces.iter().filter(|it| {
                let is_named = match &link.at {
                    Place::Interface(interface) => it.name == *interface,
                    Place::Address(address) => it.ip() == *address,
                };
                is_named && !it.is_link_local() && it.ip().is_ipv6() == (family == "-6")
            });
            let found: Vec<_> = found.collect();
            let Some(first) = found.first() else {
                continue;
            };
            let device = &first.name;
            let via = gateway(family, device).map_or(String::new(), |via| format!(" via {via}"));
            let _ = writeln!(
                rules,
                "    ip {family} route replace default{via} dev {device} table {table}"
            );
            let mut rule = |what: String| {
                let _ = writeln!(
                    rules,
                    "    ip {family} rule add {what} table {table} priority {table}"
                );
            };
            found
                .iter()
                .for_each(|it| rule(format!("from {}", it.ip())));
            if matches!(link.at, Place::Interface(_)) {
                rule(format!("oif {device}"));
            }
        }
        if !rules.is_empty() {
            let _ = writeln!(
                out,
                "    ip {family} rule add table main suppress_prefixlength 0 priority {TABLE}"
            );
            out += &rules;
        }
    }
    for link in paths {
        let known = interfaces.iter().any(|it| match &link.at {
            Place::Interface(interface) => it.name == *interface && !it.is_link_local(),
            Place::Address(address) => it.ip() == *address,
        });
        if !known {
            let _ = writeln!(
                out,
                "    # {link}: no address now: when it is up, this again with --force, without --peer"
            );
        }
    }
    out
}

/// Gateway of the default route over an interface; `None` if there is none, as over PPP.
fn gateway(family: &str, device: &str) -> Option<String> {
    let mut command = Command::new("ip");
    command.args(["-j", family, "route", "show", "default", "dev", device]);
    let routes: serde_json::Value = serde_json::from_slice(&command.output().ok()?.stdout).ok()?;
    Some(routes[0]["gateway"].as_str()?.to_owned())
}

/// Table of nftables that leads the connections and queries of a network to near. Datagrams cannot
/// be redirected: without QUIC browsers use connections.
fn packet_filter(lan: IpNet) -> String {
    let (family, at, network) = match lan {
        IpNet::V4(_) => ("ip", lan.addr(), lan.trunc()),
        IpNet::V6(_) => ("ip6", lan.addr(), lan.trunc()),
    };
    format!(
        "For nft -f: DNS and TCP of the network through near, no QUIC beside it; other UDP is left:
    table {family} anabranch {{
        chain prerouting {{
            type nat hook prerouting priority -100; policy accept;
            {family} saddr {network} {family} daddr {at} meta l4proto {{ tcp, udp }} \
         th dport 53 redirect to :5353
            {family} saddr {network} {family} daddr != {network} meta l4proto tcp redirect to :1081
        }}
        chain forward {{
            type filter hook forward priority 0; policy accept;
            {family} saddr {network} udp dport 443 reject
        }}
    }}
"
    )
}
