//! Mean time of one `Link::offer`. Run with `cargo bench -p anabranch-net`.

use std::hint::black_box;
use std::time::Instant;

use anabranch_net::{Link, LinkConfig, Loss, MILLISECOND, Queue, Rate, Red, Time, Trace};

const OFFERS: u32 = 20_000_000;

fn main() {
    let drop_tail = LinkConfig {
        queue: Queue::DropTail {
            packets: Some(100),
            bytes: None,
        },
        ..LinkConfig::constant(10e6, 60 * MILLISECOND)
    };
    let red = Red::scaled(10.0);
    let averaged = Red {
        average_weight: Some(0.002),
        ..red.clone()
    };
    let bursts = Loss::GilbertElliott {
        good_to_bad: 0.01,
        bad_to_good: 0.1,
        loss_good: 0.0,
        loss_bad: 1.0,
    };
    let trace: String = (1..=1000).map(|i| format!("{}\n", i * 6 / 5)).collect();
    let trace = Trace::parse(&trace).expect("the trace is well formed");

    measure("drop-tail", &drop_tail);
    measure_sizes("two sizes", &drop_tail, [1500, 52]);
    measure(
        "red",
        &LinkConfig {
            queue: Queue::Red(red),
            ..drop_tail.clone()
        },
    );
    measure(
        "red, averaged",
        &LinkConfig {
            queue: Queue::Red(averaged),
            ..drop_tail.clone()
        },
    );
    measure(
        "gilbert-elliott",
        &LinkConfig {
            loss: bursts,
            ..drop_tail.clone()
        },
    );
    measure(
        "trace",
        &LinkConfig {
            rate: Rate::Trace(trace),
            ..drop_tail
        },
    );
}

/// Packets of 1500 bytes.
fn measure(name: &str, config: &LinkConfig) {
    measure_sizes(name, config, [1500, 1500]);
}

/// Offers packets of two sizes in turn, in bursts of 32 every 39 ms: below 10 Mbps in the mean, so
/// that the queue of a link of 10 Mbps fills and empties.
fn measure_sizes(name: &str, config: &LinkConfig, sizes: [u32; 2]) {
    let mut link = Link::new(config.clone(), 1);
    let mut now: Time = 0;
    let started = Instant::now();
    for i in 0..OFFERS {
        now += if i % 32 == 0 {
            39_000_000_000
        } else {
            5_000_000
        };
        black_box(link.offer(black_box(now), black_box(sizes[i as usize % 2])));
    }
    let ns = started.elapsed().as_secs_f64() * 1e9 / f64::from(OFFERS);
    println!("{name:>16}: {ns:5.2} ns per offer");
}
