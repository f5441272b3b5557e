//! The estimate of memory beside what runs use. A process of its own, for its allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch_net::Dice;
use anabranch_scenario::{Scenario, Virtual};
use anabranch_sim::Simulation;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which counts. A block that grows is there twice.
struct Counting;

// SAFETY: all calls are passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(held, Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The estimate of a scenario over the most that its run holds at once.
fn ratio(text: &str) -> f64 {
    let scenario = Scenario::parse(text.as_bytes(), "memory.toml", &[]).expect("it is good");
    let before = HELD.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let record = Simulation::new(&scenario, 1).finish();
    let used = PEAK.load(Ordering::Relaxed) - before;
    assert!(!record.flows.is_empty());
    scenario.memory_estimate() as f64 / used as f64
}

struct Random(Dice);

impl Random {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.0.uniform() * of.len() as f64) as usize]
    }

    /// A number between powers of ten.
    fn power(&mut self, low: f64, high: f64) -> f64 {
        10_f64.powf(low + self.0.uniform() * (high - low))
    }

    /// One to three links of 20 to 300 Mbps with queues of 0.5 to 2 bandwidth-delay products, which
    /// lose packets at random if so; some users over all of them, and some over the first.
    fn network(&mut self, rules: &[&str], profile: &str, loses: bool) -> String {
        let count = self.one(&[1, 2, 3]);
        let links = (0..count).map(|i| {
            let (mbps, delay_ms) = (self.power(1.3, 2.5), self.power(0.7, 1.7));
            let packets = mbps * delay_ms / 6.0 * self.power(-0.3, 0.3);
            let p = self.power(-4.0, -2.0) * f64::from(u8::from(loses));
            format!(
                "[links.l{i}]\nrate_mbps = {mbps}\ndelay_ms = {delay_ms}\n\
                 queue.drop_tail.packets = {}\nloss.bernoulli.probability = {p}\n",
                packets.max(20.0) as u32
            )
        });
        let links: String = links.collect();
        let paths: Vec<String> = (0..count).map(|i| format!("['l{i}']")).collect();
        format!(
            "algorithm = '{}'\nmeasure = {{ duration_s = 6, sample_ms = 500 }}\n\
             tcp.profile = '{profile}'\n{links}\
             [[flows]]\nname = 'a'\ncount = {}\npaths = [{}]\n\
             [[flows]]\nname = 'b'\ncount = {}\npaths = [['l0']]\n",
            self.one(rules),
            self.one(&[1, 5, 20]),
            paths.join(", "),
            self.one(&[1, 3, 20]),
        )
    }
}

/// Users of one or several paths with a packet or two each, or files that arrive at random.
fn crowd(rule: &str, profile: &str, paths: usize, workload: &str) -> String {
    let links = (0..paths).map(|i| format!("[links.l{i}]\nrate_mbps = 200\ndelay_ms = 10\n"));
    let paths: Vec<String> = (0..paths).map(|i| format!("['l{i}']")).collect();
    format!(
        "algorithm = '{rule}'\nmeasure = {{ duration_s = 3, sample_ms = 100000 }}\n\
         tcp.profile = '{profile}'\n{}\
         [[flows]]\nname = 'a'\npaths = [{}]\n{workload}\n",
        links.collect::<String>(),
        paths.join(", "),
    )
}

/// One test, because others would allocate at the same time. The estimate is near twice the use at
/// most where windows end slow start at a full queue. A rule by delivery rates may lose packets
/// again and again, or not; with random loss slow start may end early, or late (`before_losses`).
#[test]
fn the_estimate_is_never_below_the_use_and_near_it() {
    let windows = ["reno", "lia", "olia", "balia", "cubic"];
    let mut random = Random(Dice::new(1));
    for (rules, profile, loses, most) in [
        (&windows[..], "rfc", false, 2.3),
        (&windows[..], "linux", false, 3.0),
        (&["bbr", "bbr3"], "rfc", false, 9.0),
        (&windows[..], "rfc", true, 9.0),
    ] {
        for _ in 0..8 {
            let text = random.network(rules, profile, loses);
            let ratio = ratio(&text);
            println!("{ratio:.2} {profile} {loses}");
            assert!((1.0..most).contains(&ratio), "{ratio}:\n{text}");
        }
    }
    let many = "count = 20000";
    let arriving = "workload.poisson = { rate_per_s = 3000, size.exponential.mean_bytes = 9e3 }";
    for (rule, profile, paths, workload, most) in [
        ("reno", "rfc", 1, many, 1.4),
        ("lia", "rfc", 2, many, 1.4),
        ("balia", "rfc", 4, many, 1.4),
        ("lia", "linux", 2, many, 1.4),
        ("cubic", "linux", 4, many, 1.4),
        ("bbr", "rfc", 1, many, 1.6),
        ("bbr3", "linux", 2, many, 9.0),
        ("reno", "rfc", 1, arriving, 9.0),
        ("lia", "linux", 2, arriving, 9.0),
    ] {
        let text = crowd(rule, profile, paths, workload);
        let ratio = ratio(&text);
        println!("{ratio:.2} {rule} {profile} {paths} {workload}");
        assert!((1.0..most).contains(&ratio), "{ratio}:\n{text}");
    }
}
