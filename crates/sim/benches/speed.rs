use std::time::Instant;
fn main() {
    for f in std::env::args().skip(1).filter(|a| a.ends_with(".toml")) {
        let sc = anabranch_scenario::Scenario::load(std::path::Path::new(&f), &[]).unwrap();
        for _ in 0..5 {
        let t = Instant::now();
        let r = anabranch_sim::Simulation::new(&sc, 1).finish();
        let dt = t.elapsed();
        let n: u64 = r.links.arrived_packets.iter().sum();
        println!("{f} {n} packets {:.1} ns/packet {:?} goodput {:?} loss {:?}", dt.as_secs_f64()*1e9/n as f64, dt, r.links.utilization, r.links.loss_probability);
        }
    }
}
