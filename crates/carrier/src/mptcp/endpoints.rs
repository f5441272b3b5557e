//! Endpoints of the kernel's path manager: the addresses from which it opens further paths. They
//! belong to the network namespace, so this adds what is missing and removes only what it added.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::process::{Command, Output};

use anyhow::{Context, bail, ensure};
use parking_lot::Mutex;

/// The endpoints that this process has added, and how many tunnels use each.
static ADDED: Mutex<BTreeMap<IpAddr, usize>> = Mutex::new(BTreeMap::new());

/// The most paths beyond the first that Linux opens (`MPTCP_PM_ADDR_MAX`).
pub const MOST: usize = 8;

/// An endpoint in use by a tunnel.
#[derive(Debug)]
pub struct Endpoint {
    address: IpAddr,
    interface: Option<String>,
    backup: bool,
    /// Whether this process has added it.
    own: bool,
}

impl Endpoint {
    /// Adds it, unless the operator has.
    ///
    /// # Errors
    /// If `ip` cannot be run or the kernel refuses.
    pub fn add(address: IpAddr, interface: Option<&str>, backup: bool) -> anyhow::Result<Endpoint> {
        let mut added = ADDED.lock();
        let mut endpoint = Endpoint {
            address,
            interface: interface.map(str::to_owned),
            backup,
            own: true,
        };
        if let Some(users) = added.get_mut(&address) {
            *users += 1;
            return Ok(endpoint);
        }
        if endpoint.create()? {
            added.insert(address, 1);
        } else {
            endpoint.own = false;
        }
        Ok(endpoint)
    }

    /// Address of the endpoint.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Removes and adds it, which ends its paths and makes the kernel open them anew. Without
    /// effect on the operator's endpoints.
    ///
    /// # Errors
    /// If `ip` cannot be run or the kernel refuses.
    pub fn renew(&self) -> anyhow::Result<()> {
        if self.own {
            remove(self.address)?;
            self.create()?;
        }
        Ok(())
    }

    /// False if it exists.
    fn create(&self) -> anyhow::Result<bool> {
        let address = self.address.to_string();
        let mut arguments = vec!["endpoint", "add", &address];
        arguments.extend(self.interface.iter().flat_map(|name| ["dev", name]));
        arguments.push("subflow");
        arguments.extend(self.backup.then_some("backup"));
        match run(&arguments) {
            Ok(_) => Ok(true),
            Err(error) if error.to_string().contains("File exists") => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let mut added = ADDED.lock();
        let Some(users) = added.get_mut(&self.address).filter(|_| self.own) else {
            return;
        };
        *users -= 1;
        if *users == 0 {
            added.remove(&self.address);
            if let Err(error) = remove(self.address) {
                tracing::warn!("{error:#}");
            }
        }
    }
}

/// Raises the namespace's limit of paths per connection if it is lower.
///
/// # Errors
/// If `ip` cannot be run or the kernel refuses.
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

/// Makes the kernel send what is outstanding on a path over the others, and not use it, after one
/// retransmission timeout without an acknowledgement instead of four: in the whole namespace.
pub fn notice_dead_paths_early() {
    const COUNT: &str = "/proc/sys/net/mptcp/stale_loss_cnt";
    match std::fs::read_to_string(COUNT) {
        Ok(count) if count.trim() != "1" => match std::fs::write(COUNT, "1") {
            Ok(()) => tracing::info!("net.mptcp.stale_loss_cnt: 1, {} before", count.trim()),
            Err(error) => tracing::debug!("{COUNT}: {error}: a dead path costs more time"),
        },
        _ => {}
    }
}

fn remove(address: IpAddr) -> anyhow::Result<()> {
    // `id N dev IF address`, or in newer versions of ip `address id N ...`, one line each.
    let shown = run(&["endpoint", "show"])?;
    let address = address.to_string();
    let line = shown
        .lines()
        .find(|line| line.split_whitespace().any(|word| word == address));
    let Some(line) = line else { return Ok(()) };
    let id = line
        .split_whitespace()
        .skip_while(|word| *word != "id")
        .nth(1);
    let id = id.with_context(|| format!("ip mptcp endpoint show: unexpected {line:?}"))?;
    run(&["endpoint", "delete", "id", id]).map(drop)
}

/// Runs `ip mptcp`; its output.
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
