//! Asks a running gateway for its status.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::page::{bytes, duration};
use super::status::{Status, TunnelStatus, condition};
use crate::config::read::{Config, Either, either};

/// How long a gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The largest status, bytes.
const LARGEST: u64 = 16 << 20;

/// Prints the status of the gateway at an address, or of the one with this configuration.
///
/// # Errors
/// If no gateway answers there.
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

/// A resource of the gateway. HTTP/1.0: the body ends with the connection.
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
        status.phase.name(),
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
    let ms = |value: Option<f64>| value.map_or("-".to_owned(), |ms| format!("{ms:.1}"));
    let heading = [
        "path",
        "state",
        "recv Mbit/s",
        "sent Mbit/s",
        "share",
        "RTT ms",
        "loss",
        "window",
        "MTU",
        "carried",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    for path in &tunnel.paths {
        rows.push([
            path.name.clone(),
            condition(path.condition).to_owned(),
            format!("{:.2}", path.received_mbps),
            format!("{:.2}", path.sent_mbps),
            format!("{:.0} %", 100.0 * path.share),
            ms(path.rtt_ms),
            format!("{:.2} %", 100.0 * path.loss),
            format!("{:.0}", path.window_packets),
            path.mtu_bytes.to_string(),
            bytes(path.sent_bytes + path.received_bytes),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..heading.len()).filter_map(width).collect();
    text.push('\n');
    for row in &rows {
        // Names to the left, numbers to the right.
        let cells = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(i, (cell, &width))| match i {
                0 | 1 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::Condition;
    use crate::operation::status::{PathStatus, Reload};

    #[test]
    fn the_table_is_aligned_and_says_what_a_reload_did_not_apply() {
        let path = |name: &str, received_mbps| PathStatus {
            name: name.to_owned(),
            condition: Condition::Up,
            local: None,
            sent_mbps: 0.5,
            received_mbps,
            share: 0.75,
            rtt_ms: Some(20.04),
            base_rtt_ms: None,
            loss: 0.0123,
            window_packets: 12.4,
            mtu_bytes: 1452,
            sent_bytes: 1_000_000,
            received_bytes: 500_000,
            sent_packets: 0,
            lost_packets: 0,
            deaths: 0,
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
path   state  recv Mbit/s  sent Mbit/s  share  RTT ms    loss  window   MTU  carried
fibre  up          123.46         0.50   75 %    20.0  1.23 %      12  1452   1.5 MB
lte    up            9.00         0.50   75 %    20.0  1.23 %      12  1452   1.5 MB
";
        assert_eq!(table(&status), expected);
    }
}
