//! Whether this host can use its second path: limits, endpoints, their addresses and routes, and
//! the reverse path filter.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::process::Command;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Check;

pub(super) fn checks() -> Vec<Check> {
    let endpoints = Endpoints::read();
    let devices: Vec<Device> = ip_json(&["address"]).unwrap_or_default();
    let paths = match &endpoints {
        Endpoints::Known(endpoints) => Path::all(endpoints, &devices),
        Endpoints::Unknown(_) => vec![],
    };
    let mut checks = vec![limits(&endpoints), endpoints.check()];
    if let Endpoints::Known(endpoints) = &endpoints
        && !endpoints.is_empty()
    {
        checks.push(addresses(endpoints, &devices));
        checks.extend(routes(&paths));
    }
    checks.extend(reverse_path_filter(&paths, &devices));
    checks
}

/// An endpoint, as `ip -j mptcp endpoint` shows it.
#[derive(Debug, Deserialize)]
struct Endpoint {
    address: IpAddr,
    #[serde(default)]
    id: u32,
    #[serde(default)]
    subflow: bool,
    #[serde(default)]
    signal: bool,
    #[serde(default)]
    fullmesh: bool,
    dev: Option<String>,
}

/// A device, as `ip -j address` shows it.
#[derive(Debug, Deserialize)]
struct Device {
    ifname: String,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    addr_info: Vec<Address>,
}

#[derive(Debug, Deserialize)]
struct Address {
    local: Option<IpAddr>,
}

/// A route, as `ip -j route` shows it.
#[derive(Debug, Deserialize)]
struct Route {
    dev: Option<String>,
    #[serde(default)]
    nexthops: Vec<NextHop>,
}

#[derive(Debug, Deserialize)]
struct NextHop {
    dev: String,
}

impl Device {
    fn is_up(&self) -> bool {
        self.flags.iter().any(|flag| flag == "UP")
    }

    fn has(&self, address: IpAddr) -> bool {
        self.addr_info.iter().any(|one| one.local == Some(address))
    }
}

fn ip(arguments: &[&str]) -> Result<String, String> {
    match Command::new("ip").args(arguments).output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("cannot run ip of iproute2: {error}")),
    }
}

/// A list that `ip -j` prints; nothing at all is an empty one.
fn ip_json<T: DeserializeOwned>(arguments: &[&str]) -> Result<Vec<T>, String> {
    let shown = ip(&[&["-j"], arguments].concat())?;
    if shown.is_empty() {
        return Ok(vec![]);
    }
    serde_json::from_str(&shown).map_err(|error| format!("cannot read `ip -j`: {error}"))
}

/// Endpoints that give subflows, or why they are not known.
enum Endpoints {
    Known(Vec<Endpoint>),
    Unknown(String),
}

impl Endpoints {
    fn read() -> Endpoints {
        match ip_json::<Endpoint>(&["mptcp", "endpoint", "show"]) {
            Ok(mut endpoints) => {
                endpoints.retain(|one| one.subflow || one.signal || one.fullmesh);
                Endpoints::Known(endpoints)
            }
            Err(why) => Endpoints::Unknown(why),
        }
    }

    /// Checks for endpoints. Either end may have them; a peer's arrive by ADD_ADDR, if the limits
    /// allow it.
    fn check(&self) -> Check {
        let (ok, found) = match self {
            Endpoints::Known(endpoints) if endpoints.is_empty() => {
                (false, "none here; the peer may have some".to_owned())
            }
            Endpoints::Known(endpoints) => {
                let shown: Vec<String> = endpoints.iter().map(Endpoint::text).collect();
                (true, shown.join("; "))
            }
            Endpoints::Unknown(why) => (false, why.clone()),
        };
        Check::new("no-endpoint", ok, found)
    }
}

impl Endpoint {
    fn text(&self) -> String {
        let mut text = format!("{} id {}", self.address, self.id);
        let flags = [
            ("signal", self.signal),
            ("subflow", self.subflow),
            ("fullmesh", self.fullmesh),
        ];
        for (flag, _) in flags.iter().filter(|(_, set)| *set) {
            text = text + " " + flag;
        }
        match &self.dev {
            Some(dev) => text + " dev " + dev,
            None => text,
        }
    }
}

/// Checks the limits of subflows. `ip mptcp` prints "add_addr_accepted 0 subflows 2", on some
/// versions "subflow".
fn limits(endpoints: &Endpoints) -> Check {
    let shown = ip(&["mptcp", "limits", "show"]).unwrap_or_else(|why| why);
    let words: Vec<&str> = shown.split_whitespace().collect();
    let limit = words.windows(2).find(|two| two[0].starts_with("subflow"));
    let limit: Option<usize> = limit.and_then(|two| two[1].parse().ok());
    let from_here = match endpoints {
        Endpoints::Known(endpoints) => {
            let opens = |one: &&Endpoint| one.subflow || one.fullmesh;
            endpoints.iter().filter(opens).count()
        }
        Endpoints::Unknown(_) => 0,
    };
    let ok = limit.is_some_and(|limit| limit > 0 && limit >= from_here);
    let found = match limit {
        Some(limit) if limit > 0 && !ok => format!("{shown}, below {from_here} endpoints"),
        _ => shown,
    };
    Check::new("limits-forbid", ok, found).with("needed", &from_here.clamp(2, 8).to_string())
}

/// Checks that a device that is up has each endpoint's address: the one that the endpoint names.
fn addresses(endpoints: &[Endpoint], devices: &[Device]) -> Check {
    let mut wrong = Vec::new();
    let mut commands = Vec::new();
    for one in endpoints {
        let address = one.address;
        let owner = devices.iter().find(|device| device.has(address));
        let problem = match (owner, &one.dev) {
            (None, _) => format!("no device has {address}"),
            (Some(owner), _) if !owner.is_up() => {
                format!("{} with {address} is down", owner.ifname)
            }
            (Some(owner), Some(dev)) if *dev != owner.ifname => {
                format!("{} has {address}, not {dev}", owner.ifname)
            }
            _ => continue,
        };
        commands.push(match owner {
            Some(owner) if !owner.is_up() => format!("ip link set {} up", owner.ifname),
            _ => format!("ip mptcp endpoint delete id {}", one.id),
        });
        wrong.push(problem);
    }
    let ok = wrong.is_empty();
    let found = match ok {
        true => "all on devices that are up".to_owned(),
        false => wrong.join("; "),
    };
    Check::new("endpoint-without-device", ok, found).with("command", &commands.join("; "))
}

/// An endpoint whose address a device has.
struct Path {
    address: IpAddr,
    device: String,
    /// Device that its packets to other networks take, from an endpoint with `dev` and without;
    /// `None` without a route.
    bound: Option<String>,
    unbound: Option<String>,
}

impl Path {
    fn all(endpoints: &[Endpoint], devices: &[Device]) -> Vec<Path> {
        let path = |one: &Endpoint| {
            let device = devices.iter().find(|device| device.has(one.address))?;
            let unbound = route(one.address, None);
            let bound = match &one.dev {
                Some(dev) => route(one.address, Some(dev)),
                None => unbound.clone(),
            };
            Some(Path {
                address: one.address,
                device: device.ifname.clone(),
                bound,
                unbound,
            })
        };
        endpoints.iter().filter_map(path).collect()
    }
}

/// Device that the kernel's rules and tables select for packets from an address to another network.
/// `fibmatch` leaves out the guess that everything is on the link of a device without a route.
fn route(from: IpAddr, dev: Option<&str>) -> Option<String> {
    let (family, to) = family_of(from);
    let from = from.to_string();
    let mut arguments = vec![family, "route", "get", "fibmatch", to, "from", &from];
    arguments.extend(dev.into_iter().flat_map(|dev| ["oif", dev]));
    let routes: Vec<Route> = ip_json(&arguments).ok()?;
    routes.into_iter().next()?.dev
}

/// The option of `ip`, and an address for documentation, to which the default route leads.
fn family_of(address: IpAddr) -> (&'static str, &'static str) {
    match address {
        IpAddr::V4(_) => ("-4", "192.0.2.1"),
        IpAddr::V6(_) => ("-6", "2001:db8::1"),
    }
}

/// Devices that have a default route in any table.
fn default_devices(family: &str) -> BTreeSet<String> {
    let arguments = [family, "route", "show", "default", "table", "all"];
    let routes: Vec<Route> = ip_json(&arguments).unwrap_or_default();
    let of = |route: Route| {
        let hops = route.nexthops.into_iter().map(|hop| hop.dev);
        route.dev.into_iter().chain(hops)
    };
    routes
        .into_iter()
        .flat_map(of)
        .filter(|dev| dev != "lo")
        .collect()
}

/// Checks that packets from each endpoint leave through the device with its address, where several
/// devices have default routes. `None` where fewer have one: the peers may be on the links.
fn routes(paths: &[Path]) -> Option<Check> {
    let several = |path: &&Path| default_devices(family_of(path.address).0).len() > 1;
    let checked: Vec<&Path> = paths.iter().filter(several).collect();
    if checked.is_empty() {
        return None;
    }
    let mut wrong = Vec::new();
    let mut commands = Vec::new();
    for (i, path) in checked.iter().enumerate() {
        if path.bound.as_ref() == Some(&path.device) {
            continue;
        }
        let (address, device) = (path.address, &path.device);
        let taken = path.bound.as_deref().unwrap_or("no device");
        wrong.push(format!(
            "from {address} of {device} packets leave through {taken}"
        ));
        commands.push(by_source(path, 101 + i));
    }
    let ok = wrong.is_empty();
    let found = match ok {
        true => "each endpoint's packets leave through its device".to_owned(),
        false => wrong.join("; "),
    };
    Some(Check::new("wrong-route", ok, found).with("command", &commands.join("; ")))
}

/// Commands that give an address a table with the default route of its device.
fn by_source(path: &Path, table: usize) -> String {
    let (address, device) = (path.address, &path.device);
    let (family, _) = family_of(address);
    let option = if family == "-6" { " -6" } else { "" };
    format!(
        "ip{option} rule add from {address} table {table}; \
         ip{option} route add default via GATEWAY dev {device} table {table}"
    )
}

/// Checks for strict filters (RFC 3704) on the devices of several paths. A filter drops nothing of
/// a path whose route back is over its own device, as with a rule by source. IPv6 has none.
fn reverse_path_filter(paths: &[Path], devices: &[Device]) -> Option<Check> {
    let defaults = default_devices("-4");
    let of_paths = paths.iter().filter(|path| path.address.is_ipv4());
    let of_paths = of_paths.map(|path| path.device.clone());
    let used: BTreeSet<String> = defaults.into_iter().chain(of_paths).collect();
    let is_up = |name: &&String| {
        devices
            .iter()
            .any(|one| one.ifname == **name && one.is_up())
    };
    let used: Vec<&String> = used.iter().filter(is_up).collect();
    if used.len() < 2 {
        return None;
    }
    let strict = |dev: &&&String| filter_of(dev) == Some(1);
    let strict: Vec<&str> = used.iter().filter(strict).map(|dev| dev.as_str()).collect();
    let back = |dev: &&&str| {
        let mut own = paths.iter().filter(|path| path.device == **dev).peekable();
        own.peek().is_some() && own.all(|path| path.unbound.as_ref() == Some(&path.device))
    };
    let dropping: Vec<&str> = strict.iter().filter(|dev| !back(dev)).copied().collect();
    let found = match (&strict[..], &dropping[..]) {
        ([], _) => "not strict".to_owned(),
        (strict, []) => format!(
            "strict (1) on {}, whose routes back are over the same device",
            strict.join(", ")
        ),
        (_, dropping) => format!(
            "strict (net.ipv4.conf.DEVICE.rp_filter = 1) on {}, which drops what arrives if the \
             route back is over another device",
            dropping.join(", ")
        ),
    };
    // The larger of the value for all devices and the device's counts, so 2 there is enough.
    let command = "sysctl net.ipv4.conf.all.rp_filter=2";
    let check = Check::new("strict-rp-filter", dropping.is_empty(), found);
    Some(check.with("command", command))
}

fn filter_of(device: &str) -> Option<u32> {
    let read = |name: &str| {
        let path = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    Some(read("all").unwrap_or(0).max(read(device)?))
}
