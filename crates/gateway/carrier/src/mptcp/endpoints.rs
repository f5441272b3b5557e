//! Endpoints of the kernel's path manager: the addresses from which it opens further paths. They
//! belong to the network namespace, so this adds what is missing and removes only what it added.
//! Endpoints that it finds are the operator's, or were left behind by a process that was killed.
//! One that is not as the path's configuration says is replaced: as no backup it would cost money.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::{Command, Output};
use std::{fmt, io};

use anyhow::{Context, bail, ensure};
use parking_lot::Mutex;

use crate::config::{Path, Role};
pub use crate::socket::{address_of, interface_of};

/// Endpoints that this process has added, with the number of tunnels that use each.
static ADDED: Mutex<BTreeMap<IpAddr, usize>> = Mutex::new(BTreeMap::new());

/// The most paths beyond the first that Linux opens (`MPTCP_PM_ADDR_MAX`).
pub const MOST: usize = 8;

/// An endpoint in use by a tunnel.
#[derive(Debug)]
pub struct Endpoint {
    address: IpAddr,
    /// The endpoint as the kernel has it, or had it before it was closed.
    found: Found,
    /// Whether this process has added the endpoint.
    own: bool,
    is_closed: bool,
}

impl Endpoint {
    /// Adds the endpoint, unless the operator has.
    pub fn add(address: IpAddr, interface: Option<&str>, backup: bool) -> anyhow::Result<Endpoint> {
        let mut added = ADDED.lock();
        let mut own = added.contains_key(&address);
        let found = match find(address)? {
            Some(found) if own || found.is(interface, backup) => found,
            other => {
                if let Some(other) = other {
                    other.replace(interface, backup)?;
                }
                own = true;
                create(address, interface, backup)?
            }
        };
        if own {
            *added.entry(address).or_default() += 1;
        }
        Ok(Endpoint {
            address,
            found,
            own,
            is_closed: false,
        })
    }

    /// Address of the endpoint.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Removes the endpoint and adds it as it was. This ends its paths and makes the kernel open
    /// them anew.
    pub fn renew(&mut self) -> anyhow::Result<()> {
        self.close()?;
        self.is_closed = false;
        match self.found.add() {
            // Another tunnel has added it.
            Err(_) if find(self.address)?.is_some() => Ok(()),
            added => added,
        }
    }

    /// Removes the endpoint until it is renewed, which ends its paths.
    pub fn close(&mut self) -> anyhow::Result<()> {
        if !std::mem::replace(&mut self.is_closed, true)
            && let Err(error) = self.found.remove()
        {
            // Another tunnel, or somebody else, has removed it, or added it by another number.
            match find(self.address)? {
                Some(found) if found != self.found => found.remove()?,
                Some(_) => return Err(error),
                None => {}
            }
        }
        Ok(())
    }
}

fn create(address: IpAddr, interface: Option<&str>, backup: bool) -> anyhow::Result<Found> {
    let own = address.to_string();
    let mut arguments = vec!["endpoint", "add", &own];
    arguments.extend(interface.into_iter().flat_map(|name| ["dev", name]));
    arguments.push("subflow");
    arguments.extend(backup.then_some("backup"));
    run(&arguments)?;
    find(address)?.context("the kernel has no endpoint that it has just accepted")
}

/// Removes the endpoints of these paths that are not as configured, before there is a connection
/// that would use them. Waits for processes.
///
/// # Errors
/// If one cannot be removed that would use a backup as if it were none.
pub fn reconcile(paths: &[Path]) -> anyhow::Result<()> {
    for path in paths {
        let interface = path.interface.as_deref();
        let of_interface = |ipv4| interface.and_then(|name| address_of(name, ipv4));
        let own = path.address.map(|address| [Some(address), None]);
        let own = own.unwrap_or_else(|| [true, false].map(of_interface));
        for address in own.into_iter().flatten() {
            // Without `ip` there is nothing to compare, and `add` complains.
            let Ok(Some(found)) = find(address) else {
                continue;
            };
            let backup = path.role == Role::Backup;
            if path.role != Role::Never && found.is(interface, backup) {
                continue;
            }
            let removed = found.replace(interface, backup);
            match (removed, path.role) {
                (Err(error), Role::Backup | Role::Never) if !found.is_backup() => {
                    let (name, role) = (&path.name, path.role);
                    return Err(error.context(format!(
                        "path {name} has the role {role:?}, and the kernel would use it always, by \
                         the endpoint {found}"
                    )));
                }
                (Err(error), _) => tracing::warn!("{error:#}"),
                (Ok(()), _) => {}
            }
        }
    }
    Ok(())
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if self.is_closed
            && !self.own
            && let Err(error) = self.found.add()
        {
            tracing::warn!("{error:#}");
        }
        let mut added = ADDED.lock();
        let Some(users) = added.get_mut(&self.address).filter(|_| self.own) else {
            return;
        };
        *users -= 1;
        if *users == 0 {
            added.remove(&self.address);
            forget(self.address);
        }
    }
}

/// Removes all endpoints that this process has added, before it ends: tunnels do so a while after
/// they are closed. Waits for processes.
pub fn remove_all() {
    let added = std::mem::take(&mut *ADDED.lock());
    added.into_keys().for_each(forget);
}

fn forget(address: IpAddr) {
    let removed = find(address).and_then(|found| found.map_or(Ok(()), |found| found.remove()));
    if let Err(error) = removed {
        tracing::warn!("{error:#}");
    }
}

/// Raises the namespace's limit of paths per connection if it is lower.
pub fn raise_limit(paths: usize) -> anyhow::Result<()> {
    let paths = paths.min(MOST);
    let limits = run(&["limits", "show"])?;
    let mut words = limits
        .split_whitespace()
        .skip_while(|word| !word.starts_with("subflow"));
    let present: usize = match words.nth(1).map(str::parse) {
        Some(Ok(present)) => present,
        _ => bail!("ip mptcp limits show: unexpected {limits:?}"),
    };
    if present >= paths {
        return Ok(());
    }
    tracing::info!("net.mptcp: at most {paths} further paths per connection, {present} before");
    run(&["limits", "set", "subflow", &paths.to_string()]).map(drop)
}

/// Settings of the whole namespace. The first makes the kernel send a path's outstanding data over
/// the others, and leave the path, after one retransmission timeout without an acknowledgement
/// instead of four; with the second, a connection that is used again keeps its congestion windows.
const SETTINGS: [(&str, &str); 2] = [
    ("net.mptcp.stale_loss_cnt", "1"),
    ("net.ipv4.tcp_slow_start_after_idle", "0"),
];

/// Applies the settings. Without, a dead path and the start of a stream cost more time.
pub fn apply_settings() {
    for (name, wanted) in SETTINGS {
        let file = format!("/proc/sys/{}", name.replace('.', "/"));
        match std::fs::read_to_string(&file) {
            Ok(found) if found.trim() != wanted => match std::fs::write(&file, wanted) {
                Ok(()) => tracing::info!("{name}: {wanted}, {} before", found.trim()),
                Err(error) => tracing::debug!("{file}: {error}"),
            },
            _ => {}
        }
    }
}

/// An endpoint as `ip mptcp endpoint show` prints it.
#[derive(Debug, PartialEq)]
struct Found {
    address: String,
    id: String,
    /// Flags and interface, as `add` takes them.
    rest: Vec<String>,
}

impl Found {
    /// Reads `ADDRESS id N [FLAGS] [dev IF]`, or in other versions `id N [FLAGS] dev IF ADDRESS`.
    fn read(line: &str, address: &str) -> Option<Found> {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let at = |words: &[String], wanted| words.iter().position(|word| word == wanted);
        let address = words.remove(at(&words, address)?);
        let id = at(&words, "id").filter(|id| id + 1 < words.len())?;
        let id = words.drain(id..id + 2).nth(1)?;
        Some(Found {
            address,
            id,
            rest: words,
        })
    }

    fn has(&self, word: &str) -> bool {
        self.rest.iter().any(|it| it == word)
    }

    fn is_backup(&self) -> bool {
        self.has("backup")
    }

    /// Whether it opens paths over this interface, if one is wanted, with this role.
    fn is(&self, interface: Option<&str>, backup: bool) -> bool {
        let device = self.rest.iter().skip_while(|it| *it != "dev").nth(1);
        let fits = interface.is_none_or(|wanted| device.is_none_or(|device| device == wanted));
        self.has("subflow") && self.is_backup() == backup && fits
    }

    /// Removes it in favour of another one, with a line.
    fn replace(&self, interface: Option<&str>, backup: bool) -> anyhow::Result<()> {
        self.remove()?;
        let dev = interface.map_or(String::new(), |name| format!(" dev {name}"));
        let role = if backup { " backup" } else { "" };
        tracing::warn!(
            "ip mptcp: the endpoint {self} is not as the path is configured: removed, expected \
             {}{dev} subflow{role}",
            self.address
        );
        Ok(())
    }

    fn add(&self) -> anyhow::Result<()> {
        let mut arguments = vec!["endpoint", "add", &self.address, "id", &self.id];
        arguments.extend(self.rest.iter().map(String::as_str));
        run(&arguments).map(drop)
    }

    fn remove(&self) -> anyhow::Result<()> {
        run(&["endpoint", "delete", "id", &self.id]).map(drop)
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} id {} {}", self.address, self.id, self.rest.join(" "))
    }
}

/// The endpoint with this address.
fn find(address: IpAddr) -> anyhow::Result<Option<Found>> {
    let shown = run(&["endpoint", "show"])?;
    let address = address.to_string();
    Ok(shown.lines().find_map(|line| Found::read(line, &address)))
}

/// Runs `ip mptcp`. Returns its output.
fn run(arguments: &[&str]) -> anyhow::Result<String> {
    let result = Command::new("ip").arg("mptcp").args(arguments).output();
    explain(arguments, result)
}

fn explain(arguments: &[&str], result: io::Result<Output>) -> anyhow::Result<String> {
    let command = format!("ip mptcp {}", arguments.join(" "));
    let output = result.with_context(|| format!("{command}: cannot run ip, of iproute2"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    let remedy = match complaint.contains("not permitted") {
        true => " (it takes CAP_NET_ADMIN; without it, run this command as root before)",
        false => "",
    };
    ensure!(
        output.status.success(),
        "{command}: {}{remedy}",
        complaint.trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn an_endpoint_is_added_again_as_it_was_found() {
        let found = |rest: &[&str]| Found {
            address: "10.0.0.1".to_owned(),
            id: "3".to_owned(),
            rest: rest.iter().map(|word| (*word).to_owned()).collect(),
        };
        let read = |line| Found::read(line, "10.0.0.1");
        let all = found(&["subflow", "backup", "dev", "eth0"]);
        let printed = "10.0.0.1 id 3 subflow backup dev eth0 ";
        assert_eq!(read(printed), Some(all));
        let other = "id 3 subflow backup dev eth0 10.0.0.1";
        assert_eq!(read(other), read(printed));
        assert_eq!(read("10.0.0.1 id 3"), Some(found(&[])));
        for unknown in ["", "10.0.0.10 id 3", "10.0.0.1 id", "10.0.0.1"] {
            assert_eq!(read(unknown), None, "{unknown}");
        }
    }

    /// In a network namespace of its own, which ends with the thread.
    #[test]
    fn an_endpoint_that_is_not_as_configured_is_replaced_before_a_connection_uses_it() {
        let tried = std::thread::spawn(|| {
            // SAFETY: the call gives this thread a network of its own.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 || run(&["limits"]).is_err() {
                return eprintln!("skipped: it takes root, iproute2 and Multipath TCP");
            }
            let path = |address: &str, role| Path {
                address: address.parse().ok(),
                role,
                ..Path::new(address)
            };
            let paths = [
                path("127.0.0.2", Role::Available),
                path("127.0.0.3", Role::Backup),
                path("127.0.0.4", Role::Never),
                path("127.0.0.5", Role::Available),
            ];
            let endpoint = |text: &str| {
                let words: Vec<&str> = text.split(' ').collect();
                run(&[&["endpoint", "add"], &words[..]].concat()).expect("added");
            };
            // The roles were others before near was killed; the third has the right one.
            for address in ["127.0.0.2", "127.0.0.3", "127.0.0.4"] {
                endpoint(&format!("{address} subflow"));
            }
            endpoint("127.0.0.5 subflow backup");
            reconcile(&paths).expect("removed");
            let shown = run(&["endpoint", "show"]).expect("shown");
            let left: Vec<&str> = shown
                .lines()
                .map(|it| it.split(' ').next().unwrap_or(""))
                .collect();
            assert_eq!(left, ["127.0.0.2"], "{shown}");
            let address = "127.0.0.3".parse().expect("an address");
            endpoint("127.0.0.3 subflow");
            let added = Endpoint::add(address, None, true).expect("added");
            let found = find(address).expect("shown").expect("there");
            assert!(found.is_backup() && added.own, "{found}");
        });
        tried.join().expect("no panic");
    }

    #[test]
    fn a_refusal_names_the_command_and_the_remedy() {
        let output = |complaint: &str| Output {
            status: ExitStatus::from_raw(2 << 8),
            stdout: Vec::new(),
            stderr: complaint.into(),
        };
        let arguments = ["endpoint", "add", "10.0.0.1", "subflow"];
        let error = explain(&arguments, Ok(output("Error: Operation not permitted\n")));
        assert_eq!(
            error.expect_err("refused").to_string(),
            "ip mptcp endpoint add 10.0.0.1 subflow: Error: Operation not permitted (it takes \
             CAP_NET_ADMIN; without it, run this command as root before)"
        );
        let missing = explain(&arguments, Err(io::ErrorKind::NotFound.into()));
        let missing = format!("{:#}", missing.expect_err("no such program"));
        assert!(missing.contains("cannot run ip, of iproute2"), "{missing}");
    }
}
