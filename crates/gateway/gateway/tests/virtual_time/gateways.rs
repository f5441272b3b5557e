//! The two gateways as processes: started, reloaded, drained, killed.

use std::sync::Arc;
use std::time::Duration;

use anabranch_gateway::config;
use anabranch_gateway::counters::{CounterKind, Counters};
use anabranch_gateway::far::Far;
use anabranch_gateway::gateway::Gateway;
use anabranch_gateway::keys::KeyPair;
use anabranch_gateway::near::Near;
use anabranch_gateway::tls::Identity;
use tokio::time::{Instant, sleep, timeout};

use super::ends::{NEAR, SERVER};
use super::host::{Process, path_address};
use super::internet::Internet;
use super::plan::Which;

/// Address on which far listens.
pub const FAR: &str = "192.0.2.1:443";

/// Interval at which a process that drains checks for connections, as in `operation::run`.
const DRAIN_CHECK: Duration = Duration::from_millis(50);

/// Time that the process then takes at most, as in `operation::run`.
const CLOSE: Duration = Duration::from_secs(3);

/// Both gateways. One of them may not run.
pub struct Gateways {
    internet: Arc<Internet>,
    keys: [KeyPair; 2],
    identities: [Arc<Identity>; 2],
    pub near: Option<Running<Near>>,
    pub far: Option<Running<Far>>,
}

/// A gateway and its process.
pub struct Running<G> {
    pub gateway: G,
    process: Process,
    counters: Arc<Counters>,
}

/// The configuration of near with these lines, and two paths.
pub fn near_config(lines: &str) -> config::Near {
    near_with_paths(2, lines)
}

/// The configuration of near with these lines, and this many paths.
pub fn near_with_paths(paths: usize, lines: &str) -> config::Near {
    let paths: Vec<String> = (0..paths)
        .map(|i| format!("{{ name = 'path{i}', address = '{}' }}", path_address(i)))
        .collect();
    let forwards = match lines.contains("forwards") {
        true => String::new(),
        false => format!("forwards = [{{ listen = '{NEAR}', to = '{SERVER}' }}]\n"),
    };
    let text = format!(
        "far = '{FAR}'\n{lines}\npaths = [{}]\n{forwards}\
         tunnel = {{ carrier = 'quic', algorithm = 'olia', key = 'key', peers = [] }}\n",
        paths.join(", ")
    );
    toml::from_str(&text).expect(&text)
}

/// The configuration of far with these lines.
pub fn far_config(lines: &str) -> config::Far {
    let allow = match lines.contains("allow") {
        true => String::new(),
        false => format!("allow = ['{}']\n", SERVER.ip()),
    };
    let text = format!(
        "listen = '{FAR}'\n{lines}\n{allow}\
         tunnel = {{ carrier = 'quic', algorithm = 'olia', key = 'key', peers = [] }}\n"
    );
    toml::from_str(&text).expect(&text)
}

impl Gateways {
    /// Starts both.
    pub async fn start(internet: &Arc<Internet>) -> Gateways {
        Gateways::with(internet, near_config(""), far_config("")).await
    }

    /// Starts both with these configurations.
    pub async fn with(internet: &Arc<Internet>, near: config::Near, far: config::Far) -> Gateways {
        let keys = [(); 2].map(|()| KeyPair::generate().expect("random numbers"));
        let identity = |own: usize| {
            let peer = keys[1 - own].public().clone();
            Identity::new(&keys[own], vec![peer])
        };
        let mut gateways = Gateways {
            internet: internet.clone(),
            identities: [identity(0), identity(1)],
            keys,
            near: None,
            far: None,
        };
        gateways.start_far(far).await;
        gateways.start_near(near).await;
        gateways
    }

    async fn start_near(&mut self, config: config::Near) {
        let process = Process::new(&self.internet);
        let (network, counters) = (Arc::new(process.clone()), Arc::<Counters>::default());
        let near = Near::start_on(
            network,
            config,
            self.identities[0].clone(),
            counters.clone(),
        );
        self.near = Some(Running {
            gateway: near.await.expect("near starts"),
            process,
            counters,
        });
    }

    async fn start_far(&mut self, config: config::Far) {
        let process = Process::new(&self.internet);
        let (network, counters) = (Arc::new(process.clone()), Arc::<Counters>::default());
        let far = Far::start_on(
            network,
            config,
            self.identities[1].clone(),
            counters.clone(),
        );
        self.far = Some(Running {
            gateway: far.await.expect("far starts"),
            process,
            counters,
        });
    }

    /// Starts a gateway that does not run.
    pub async fn restart(&mut self, which: Which) {
        match which {
            Which::Near => self.start_near(near_config("")).await,
            Which::Far => self.start_far(far_config("")).await,
        }
    }

    /// Reads a file with these lines.
    pub async fn reload(&mut self, which: Which, lines: &str) {
        let faults = match which {
            Which::Near => apply(self.near.as_ref(), near_config(lines)).await,
            Which::Far => apply(self.far.as_ref(), far_config(lines)).await,
        };
        assert!(faults.is_empty(), "{faults:?}");
    }

    /// Makes far accept near's key, or no key.
    pub async fn accept_near(&mut self, accept: bool) {
        let near = self.keys[0].public().clone();
        let peers = if accept { vec![near] } else { Vec::new() };
        self.identities[1].replace(&self.keys[1], peers);
        self.reload(Which::Far, "").await;
    }

    /// Kills a gateway.
    pub async fn kill(&mut self, which: Which) {
        match which {
            Which::Near => kill(self.near.take()).await,
            Which::Far => kill(self.far.take()).await,
        }
    }

    /// Drains a gateway, as after SIGTERM, and ends it. Returns whether its connections ended in
    /// time.
    pub async fn drain(&mut self, which: Which, patience: Duration) -> bool {
        match which {
            Which::Near => drain(self.near.take(), patience).await,
            Which::Far => drain(self.far.take(), patience).await,
        }
    }

    /// Ends a gateway at once.
    pub async fn end(&mut self, which: Which) {
        self.drain(which, Duration::ZERO).await;
    }
}

async fn apply<G: Gateway>(running: Option<&Running<G>>, new: G::Config) -> Vec<String> {
    running.expect("it runs").gateway.apply(new).await.1
}

async fn kill(running: Option<Running<impl Gateway>>) {
    let running = running.expect("it runs");
    running.process.kill();
    running.gateway.close_all().await;
}

async fn drain(running: Option<Running<impl Gateway>>, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    let Running {
        gateway,
        process,
        counters,
    } = running.expect("it runs");
    gateway.stop_accepting().await;
    while gateway.active() > 0 && Instant::now() < deadline {
        sleep(DRAIN_CHECK).await;
    }
    let in_time = gateway.active() == 0;
    let closed = timeout(CLOSE, gateway.close_all()).await;
    closed.expect("its tasks end");
    process.kill();
    // Nothing of it is left.
    assert_eq!(gateway.active(), 0);
    for row in counters.table() {
        let is_over = row.kind == CounterKind::Counter || row.value == 0;
        assert!(is_over, "{} is {}", row.name, row.value);
    }
    in_time
}
