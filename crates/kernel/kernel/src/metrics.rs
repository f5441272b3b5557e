//! `metrics`: gauges for monitoring, in the text format of Prometheus.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anabranch_http::{Answer, StatusCode, answer, line};
use anabranch_kernel::{Connection, connections, namespaces, registrations};
use anyhow::{Context, Result};
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::runtime;

/// Media type of [`text`].
const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Time for which values that were read are served.
const PERIOD: Duration = Duration::from_secs(1);

type Gauges<Labels> = Family<Labels, Gauge<f64, AtomicU64>>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Loaded {
    algorithm: String,
    parameters: String,
    version: String,
    /// `registered`; `earlier`: replaced or unloaded, and still in use; `foreign`: registered by
    /// another program.
    program: &'static str,
    pinned: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Program {
    algorithm: String,
    program: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Algorithm {
    algorithm: String,
}

/// Present values. All are gauges: the text format has no names for what has been closed.
pub fn text() -> Result<String> {
    let connections = connections()?;
    let known = registrations();
    let program = |id| match known.iter().find(|one| one.id == id) {
        Some(one) if one.foreign => "foreign",
        Some(one) if !one.registered => "earlier",
        _ => "registered",
    };
    let mut registry = Registry::with_prefix("anabranch");

    let loaded = Gauges::<Loaded>::default();
    let [begun, refused] = [(); 2].map(|()| Gauges::<Program>::default());
    for one in &known {
        let labels = Loaded {
            algorithm: one.name.to_owned(),
            parameters: one.parameters.clone().unwrap_or_default(),
            version: one.version.clone().unwrap_or_default(),
            program: program(one.id),
            pinned: one.pinned.to_string(),
        };
        loaded.get_or_create(&labels).inc();
        let Some(holds) = one.holds else { continue };
        let labels = Program {
            algorithm: labels.algorithm,
            program: labels.program,
        };
        begun.get_or_create(&labels).inc_by(holds.begun as f64);
        refused.get_or_create(&labels).inc_by(holds.refused as f64);
    }
    registry.register("loaded", "Programs in the kernel", loaded);
    registry.register("holds_begun", "Times that a path was held back", begun);
    let help = "Times that the kernel refused to hold a path back";
    registry.register("holds_refused", help, refused);

    let defaults = Gauges::<Program>::default();
    for one in namespaces()? {
        let labels = Program {
            algorithm: one.algorithm,
            program: program(one.registration),
        };
        defaults.get_or_create(&labels).inc();
    }
    let help = "Network namespaces by default congestion control";
    registry.register("network_namespaces", help, defaults);

    register_connections(&mut registry, &connections, program);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// Sums over the subflows of each algorithm.
fn register_connections(
    registry: &mut Registry,
    connections: &[Connection],
    program: impl Fn(u32) -> &'static str,
) {
    let subflows = Gauges::<Program>::default();
    let [rate, stale, window] = [(); 3].map(|()| Gauges::<Algorithm>::default());
    for subflow in connections.iter().flat_map(|one| &one.subflows) {
        let algorithm = subflow.algorithm.clone();
        let labels = Program {
            algorithm: algorithm.clone(),
            program: subflow.registration.map_or("registered", &program),
        };
        subflows.get_or_create(&labels).inc();
        let labels = Algorithm { algorithm };
        let add = |gauges: &Gauges<Algorithm>, value| {
            gauges.get_or_create(&labels).inc_by(value);
        };
        add(&rate, subflow.present_rate_mbps() * 1e6);
        add(&stale, f64::from(u8::from(subflow.is_stale())));
        add(&window, subflow.window);
    }
    registry.register(
        "subflows",
        "Subflows of Multipath TCP, and sockets of plain TCP with one of the algorithms",
        subflows,
    );
    registry.register(
        "delivery_rate_bits_per_second",
        "Sum of the delivery rates of subflows that deliver",
        rate,
    );
    registry.register(
        "stale_subflows",
        "Subflows of which nothing was acknowledged for a second",
        stale,
    );
    registry.register("window_packets", "Sum of the congestion windows", window);
}

/// Serves the metrics at /metrics, until the process ends.
pub fn serve(address: SocketAddr) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await.context("cannot listen")?;
        eprintln!(
            "metrics at http://{}/metrics, until Ctrl-C",
            listener.local_addr()?
        );
        let recent = Arc::new(Mutex::new(Recent::default()));
        let resource = move |path: &str| match path {
            "/metrics" => recent.lock().expect("no holder panics").answer(),
            _ => line(StatusCode::NOT_FOUND, "metrics are at /metrics"),
        };
        anabranch_http::serve(listener, resource).await;
        Ok(())
    })
}

/// Values of the last [`PERIOD`], however many clients ask: reading them loads programs into the
/// kernel.
#[derive(Default)]
struct Recent(Option<(Instant, Result<String>)>);

impl Recent {
    fn answer(&mut self) -> Answer {
        let recent = self.0.take().filter(|(read, _)| read.elapsed() < PERIOD);
        let (_, text) = self
            .0
            .insert(recent.unwrap_or_else(|| (Instant::now(), text())));
        match text {
            Ok(text) => answer(StatusCode::OK, KIND, text.clone()),
            Err(error) => line(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error:#}")),
        }
    }
}
