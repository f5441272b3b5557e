//! The status page. It needs nothing from elsewhere, and works without scripts.

use std::fmt::Write;

use super::history::History;
use super::plot::{COLOURS, QUANTITIES, svg};
use super::status::{PathStatus, Reload, Status, TunnelStatus, condition};

/// The page's style and script, served beside it, because its security policy forbids inline ones.
pub const STYLE: &str = include_str!("page.css");
/// Replaces the live parts by what the server sends.
pub const SCRIPT: &str = include_str!("page.js");

/// Sizes of a plot on a wide and on a narrow page, px.
const SIZES: [(&str, u32, u32); 2] = [("wide", 1000, 170), ("narrow", 380, 170)];

/// The whole page, of [`live`] and [`plots`].
pub fn page(status: &Status, live: &str, plots: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Anabranch {role}</title><link rel=\"stylesheet\" href=\"/page.css\">\
         <script src=\"/page.js\" defer></script></head>\n<body>\
         <h1>Anabranch gateway <b>{role}</b></h1>\n\
         <p id=\"connection\" role=\"status\">Not live: reload the page.</p>\n\
         <main><div id=\"live\">{live}</div>\n<div id=\"plots\">{plots}</div></main>\n\
         <footer><a href=\"/status.json\">JSON</a></footer></body></html>\n",
        role = escape(&status.role),
    )
}

/// The part that changes every second.
pub fn live(status: &Status, history: &History) -> String {
    let names: Vec<&str> = history.paths().map(|(name, _)| name).collect();
    let mut html = String::new();
    let facts = [
        ("State", status.phase.name().to_owned()),
        ("Up for", duration(status.uptime_s)),
        ("Carrier", status.carrier.clone()),
        ("Rule", status.algorithm.clone()),
        ("Connections", status.connections.to_string()),
        ("Version", status.version.clone()),
    ];
    html += "<dl>";
    for (name, value) in facts {
        let _ = write!(
            html,
            "<div><dt>{name}</dt><dd>{}</dd></div>",
            escape(&value)
        );
    }
    html += "</dl>";
    if let Some(reload) = &status.reload {
        html += &reloaded(reload);
    }
    if status.tunnels.is_empty() {
        html += "<p class=\"none\">No tunnel is established.</p>";
    }
    for tunnel in &status.tunnels {
        html += &of_tunnel(tunnel, &names);
    }
    html += &counters(status);
    html
}

/// The last hour.
pub fn plots(history: &History) -> String {
    let mut html = String::new();
    for quantity in &QUANTITIES {
        let drawn = SIZES.map(|(class, width, height)| {
            let svg = svg(history, quantity, width, height)?;
            Some(format!("<div class=\"{class}\">{svg}</div>"))
        });
        if let [Some(wide), Some(narrow)] = drawn {
            let _ = write!(
                html,
                "<section class=\"plot\"><h2>{}, {}</h2>{wide}{narrow}</section>",
                quantity.title, quantity.unit
            );
        }
    }
    html
}

fn reloaded(reload: &Reload) -> String {
    let mut html = String::from("<ul class=\"reload\">");
    let mut items = |class: &str, text: &str, all: &[String]| {
        for item in all {
            let _ = write!(html, "<li class=\"{class}\">{text}{}</li>", escape(item));
        }
    };
    items("fault", "Reload refused: ", &reload.errors);
    items("fault", "Takes effect with a restart: ", &reload.restart);
    items("", "Reloaded: ", &reload.applied);
    html + "</ul>"
}

fn of_tunnel(tunnel: &TunnelStatus, names: &[&str]) -> String {
    let mut html = String::from("<section class=\"tunnel\"><h2>Tunnel");
    if !tunnel.name.is_empty() {
        let _ = write!(html, " {}", escape(&tunnel.name));
    }
    let _ = write!(html, "</h2><p>{} unsent", bytes(tunnel.unsent_bytes));
    if let Some(kappa) = tunnel.kappa {
        let _ = write!(html, ", kappa {kappa:.2}");
    }
    html += ".</p><div class=\"scroll\"><table><thead><tr>";
    for heading in HEADINGS {
        let _ = write!(html, "<th>{heading}</th>");
    }
    html += "</tr></thead><tbody>";
    for path in &tunnel.paths {
        html += &row(tunnel, path, names);
    }
    html + "</tbody></table></div></section>"
}

const HEADINGS: [&str; 12] = [
    "Path",
    "State",
    "Received Mbit/s",
    "Sent Mbit/s",
    "Share",
    "RTT ms",
    "Smallest",
    "Loss",
    "Window packets",
    "MTU",
    "Carried",
    "Deaths",
];

fn row(tunnel: &TunnelStatus, path: &PathStatus, names: &[&str]) -> String {
    let history = format!("{} {}", tunnel.name, path.name);
    let colour = names.iter().position(|name| *name == history.trim_start());
    let swatch = colour.map_or(String::new(), |i| {
        format!("<i class=\"path{}\"></i>", i % COLOURS)
    });
    let ms = |value: Option<f64>| value.map_or("–".to_owned(), |ms| format!("{ms:.1}"));
    let state = condition(path.condition);
    let cells = [
        format!("{:.2}", path.received_mbps),
        format!("{:.2}", path.sent_mbps),
        format!("{:.0} %", 100.0 * path.share),
        ms(path.rtt_ms),
        ms(path.base_rtt_ms),
        format!("{:.2} %", 100.0 * path.loss),
        format!("{:.0}", path.window_packets),
        path.mtu_bytes.to_string(),
        bytes(path.sent_bytes + path.received_bytes),
        path.deaths.to_string(),
    ];
    let cells: String = cells
        .iter()
        .map(|cell| format!("<td>{cell}</td>"))
        .collect();
    format!(
        "<tr><th>{swatch}{}</th><td class=\"{state}\">{state}</td>{cells}</tr>",
        escape(&path.name)
    )
}

/// What has been counted, without zeros.
fn counters(status: &Status) -> String {
    let mut html = String::from("<details><summary>Counters</summary><table><tbody>");
    for counted in status.counters.iter().filter(|counted| counted.value > 0) {
        let label = counted
            .label
            .as_ref()
            .map_or(String::new(), |(name, value)| format!(" ({name} {value})"));
        let what = escape(&format!("{}{label}", counted.help));
        let _ = write!(html, "<tr><th>{what}</th><td>{}</td></tr>", counted.value);
    }
    html + "</tbody></table></details>"
}

/// 90061 s is `1 d 1 h`: the two largest units.
pub(super) fn duration(seconds: u64) -> String {
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

/// 1_500_000 is `1.5 MB`.
pub(super) fn bytes(bytes: u64) -> String {
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

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn names_from_elsewhere_are_escaped() {
        let status = Status {
            algorithm: "<script>\"'&".to_owned(),
            ..Status::default()
        };
        let html = page(&status, &live(&status, &History::default()), "");
        assert!(html.contains("&lt;script&gt;&quot;&#39;&amp;"), "{html}");
        assert_eq!(html.matches("<script").count(), 1);
    }
}
