//! Request of a running gateway's status.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::status::{PathStatus, Status, TunnelStatus};
use crate::config::read::{Config, Either, either};

/// Longest time of a gateway to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The largest status, bytes.
const LARGEST: u64 = 16 << 20;

/// Prints the status of the gateway at an address, or of the one with this configuration.
pub fn status(from: &str, json: bool) -> anyhow::Result<()> {
    let address = match from.parse() {
        Ok(address) => address,
        Err(_) => configured(Path::new(from))?,
    };
    let body = get(address, "/status.json")?;
    let status: Status = serde_json::from_str(&body)
        .with_context(|| format!("{address}: this is no status of anabranch-gateway"))?;
    let text = if json { body } else { table(&status) };
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

fn configured(file: &Path) -> anyhow::Result<SocketAddr> {
    let shown = file.display();
    ensure!(
        file.exists(),
        "{shown}: expected an address, such as 127.0.0.1:9480, or a configuration"
    );
    let operation = match either(file) {
        Ok(Either::Near(near)) => near.config.operation().clone(),
        Ok(Either::Far(far)) => far.config.operation().clone(),
        Err(errors) => bail!("{}", errors[0]),
    };
    let address = operation.status.with_context(|| {
        format!(
            "{shown}: missing key operation.status, such as operation.status = \"127.0.0.1:9480\""
        )
    })?;
    Ok(address)
}

/// Requests a resource of the gateway. HTTP/1.0: the body ends with the connection.
fn get(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let connect = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
        let mut answer = String::new();
        stream.take(LARGEST).read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = connect().with_context(|| {
        format!("no gateway answers at {address}: is it running, with this operation.status?")
    })?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let line = head.lines().next().unwrap_or_default();
    ensure!(line.contains(" 200 "), "{address} answered {line:?}");
    Ok(body.to_owned())
}

fn table(status: &Status) -> String {
    let mut text = format!(
        "{} {}, {}, up for {}: {}, {}, {} connections\n",
        status.role,
        status.version,
        status.phase,
        duration(status.uptime_s),
        status.carrier,
        status.algorithm,
        status.connections,
    );
    if let Some(reload) = &status.reload {
        for error in &reload.errors {
            text += &format!("the last reload was refused: {error}\n");
        }
        for part in &reload.restart {
            text += &format!("a change of {part} takes effect with a restart\n");
        }
    }
    if status.tunnels.is_empty() {
        text += "no tunnel is established\n";
    }
    for failure in &status.failures {
        text += &format!("{failure}\n");
    }
    for tunnel in &status.tunnels {
        text += &of_tunnel(tunnel);
    }
    text
}

fn of_tunnel(tunnel: &TunnelStatus) -> String {
    let mut text = format!("\ntunnel {}", tunnel.name).trim_end().to_owned();
    text += &format!(": {} unsent", bytes(tunnel.unsent_bytes));
    if let Some(kappa) = tunnel.kappa {
        text += &format!(", kappa {kappa:.2}");
    }
    let mut lines = vec![String::new(); 1 + tunnel.paths.len()];
    for (i, (heading, cell)) in COLUMNS.iter().enumerate() {
        let mut cells = vec![(*heading).to_owned()];
        cells.extend(tunnel.paths.iter().map(cell));
        let widths = cells.iter().map(|cell| cell.chars().count());
        let width = widths.max().unwrap_or_default();
        for (line, cell) in lines.iter_mut().zip(&cells) {
            // Names to the left, numbers to the right.
            *line += &match i {
                0..=2 => format!("{cell:<width$}  "),
                _ => format!("{cell:>width$}  "),
            };
        }
    }
    text.push('\n');
    for line in lines {
        text += line.trim_end();
        text.push('\n');
    }
    for path in &tunnel.paths {
        if let Some(reason) = &path.reason {
            text += &format!("{}: {}: {reason}\n", path.name, path.condition);
        }
    }
    text
}

/// Interface and address of a path.
fn link(path: &PathStatus) -> String {
    let parts = [&path.interface, &path.local];
    let known: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    match known[..] {
        [] => "-".to_owned(),
        _ => known.join(" "),
    }
}

fn percent(part: Option<f64>, decimals: usize) -> String {
    part.map_or("-".to_owned(), |part| {
        format!("{:.decimals$} %", 100.0 * part)
    })
}

/// A column of the table: its heading, and its cell for a path.
type Column = (&'static str, fn(&PathStatus) -> String);

const COLUMNS: [Column; 11] = [
    ("path", |path| path.name.clone()),
    ("state", |path| path.condition.to_string()),
    ("link", link),
    ("recv Mbit/s", |path| format!("{:.2}", path.received_mbps)),
    ("sent Mbit/s", |path| format!("{:.2}", path.sent_mbps)),
    ("share", |path| percent(path.share, 0)),
    ("RTT ms", |path| {
        path.rtt_ms.map_or("-".to_owned(), |ms| format!("{ms:.1}"))
    }),
    ("loss", |path| percent(path.loss, 2)),
    ("window", |path| format!("{:.0}", path.window_packets)),
    ("MTU", |path| path.mtu_bytes.to_string()),
    ("carried", |path| {
        bytes(path.sent_bytes + path.received_bytes)
    }),
];

/// Formats a duration by its two largest units: 90061 s is `1 d 1 h`.
fn duration(seconds: u64) -> String {
    let units = [("d", 86400), ("h", 3600), ("min", 60), ("s", 1)];
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (unit, size) in units {
        if rest >= size || (unit == "s" && parts.is_empty()) {
            parts.push(format!("{} {unit}", rest / size));
        }
        rest %= size;
    }
    parts.truncate(2);
    parts.join(" ")
}

/// Formats bytes: 1_500_000 is `1.5 MB`.
fn bytes(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && value < 100.0);
    format!("{value:.decimals$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::Condition;
    use crate::operation::status::Reload;

    #[test]
    fn durations_and_sizes_are_short() {
        assert_eq!(duration(0), "0 s");
        assert_eq!(duration(61), "1 min 1 s");
        assert_eq!(duration(90_061), "1 d 1 h");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_500_000), "1.5 MB");
        assert_eq!(bytes(250_000_000_000), "250 GB");
    }

    #[test]
    fn the_table_is_aligned_and_says_what_a_reload_did_not_apply() {
        let path = |name: &str, received_mbps| PathStatus {
            name: name.to_owned(),
            condition: Condition::Up,
            sent_mbps: 0.5,
            received_mbps,
            share: Some(0.75),
            rtt_ms: Some(20.04),
            loss: Some(0.0123),
            local: Some("192.0.2.7".to_owned()),
            interface: Some("eth0".to_owned()),
            reason: (name == "lte").then(|| "its role is backup".to_owned()),
            window_packets: 12.4,
            mtu_bytes: 1452,
            sent_bytes: 1_000_000,
            received_bytes: 500_000,
            ..PathStatus::default()
        };
        let status = Status {
            role: "near".to_owned(),
            carrier: "quic".to_owned(),
            algorithm: "olia".to_owned(),
            version: "1.2.3".to_owned(),
            uptime_s: 61,
            reload: Some(Reload {
                restart: vec!["paths".to_owned()],
                ..Reload::default()
            }),
            tunnels: vec![TunnelStatus {
                kappa: Some(1.5),
                paths: vec![path("fibre", 123.456), path("lte", 9.0)],
                ..TunnelStatus::default()
            }],
            ..Status::default()
        };
        let expected = "\
near 1.2.3, starting, up for 1 min 1 s: quic, olia, 0 connections
a change of paths takes effect with a restart

tunnel: 0 B unsent, kappa 1.50
path   state  link            recv Mbit/s  sent Mbit/s  share  RTT ms    loss  window   MTU  carried
fibre  up     eth0 192.0.2.7       123.46         0.50   75 %    20.0  1.23 %      12  1452   1.5 MB
lte    up     eth0 192.0.2.7         9.00         0.50   75 %    20.0  1.23 %      12  1452   1.5 MB
lte: up: its role is backup
";
        assert_eq!(table(&status), expected);
    }
}
