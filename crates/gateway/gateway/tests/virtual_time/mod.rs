//! Near and far as a whole, in virtual time: over links of the crate `net` with losses and outages,
//! with clients and servers in memory. All that happens follows from a seed.
//!
//! `SEED=n cargo test -p anabranch-gateway one_story -- --ignored --nocapture` tells a story again,
//! with RUST_LOG=debug also what the gateways log.

use std::num::NonZero;
use std::ops::Range;
use std::process::Command;
use std::sync::Mutex;

use tokio::runtime::Runtime;
use tokio::time::Instant;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

mod ends;
mod gateways;
mod host;
mod internet;
mod plan;
mod random;
mod reloads;
mod silence;
mod story;
mod tcp;

/// A story told by a process of its own: tokio's random numbers follow from the system's and from
/// a counter of the process.
fn told(seed: u64) -> (bool, String) {
    let path = module_path!().split_once("::").expect("a module").1;
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--nocapture", "--exact"])
        .arg(format!("{path}::one_story"))
        .env("SEED", seed.to_string())
        .output()
        .expect("it starts");
    let lines = String::from_utf8_lossy(&child.stdout);
    let story = lines.lines().skip_while(|line| !line.starts_with("seed "));
    let story = story.take_while(|line| !line.starts_with("test "));
    let mut story: Vec<_> = story.map(str::to_owned).collect();
    if !child.status.success() {
        story.push(String::from_utf8_lossy(&child.stderr).into_owned());
    }
    (child.status.success(), story.join("\n"))
}

/// Virtual time since the start, for the log.
struct Clock(Instant);

impl FormatTime for Clock {
    fn format_time(&self, to: &mut Writer<'_>) -> std::fmt::Result {
        write!(to, "{:?}", self.0.elapsed())
    }
}

/// A runtime whose time advances when nothing else is to be done.
fn virtual_runtime() -> Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build();
    runtime.expect("a runtime")
}

/// Tells stories, as many at a time as there are processors.
fn check(seeds: Range<u64>) {
    let seeds = Mutex::new(seeds);
    let failed = Mutex::new(Vec::new());
    let tell = || {
        let next = || seeds.lock().expect("no panic").next();
        while let Some(seed) = next() {
            let (is_right, story) = told(seed);
            if !is_right {
                println!("{story}\n");
                failed.lock().expect("no panic").push(seed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(tell);
        }
    });
    let failed = failed.into_inner().expect("no panic");
    assert!(failed.is_empty(), "seeds {failed:?}");
}

#[test]
#[ignore = "started by the other tests, with SEED=n"]
fn one_story() {
    let seed = std::env::var("SEED").map_or(0, |seed| seed.parse().expect("a number"));
    println!("\nseed {seed}");
    let lines = story::Lines::default();
    let mut faults = random::seeded(seed, || {
        virtual_runtime().block_on(async {
            let log = tracing_subscriber::fmt::layer().with_timer(Clock(Instant::now()));
            let log = log.with_filter(EnvFilter::from_default_env());
            let counted = lines.clone().with_filter(LevelFilter::INFO);
            tracing_subscriber::registry()
                .with(log)
                .with(counted)
                .init();
            story::tell(seed).await
        })
    });
    faults.extend(lines.faults());
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn an_end_means_that_every_byte_has_arrived_whatever_happens_to_the_gateways() {
    check(0..8);
}

#[test]
#[ignore = "slow: make test-all"]
fn an_end_means_that_every_byte_has_arrived_in_many_stories() {
    check(8..2000);
}

#[test]
fn a_seed_tells_the_same_story_each_time() {
    for seed in [1, 3] {
        let (first, second) = (told(seed).1, told(seed).1);
        assert!(first.contains("trace"), "{first}");
        assert_eq!(first, second);
    }
}
