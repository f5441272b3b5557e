use anabranch_scenario::Scenario;
#[test]
fn show() {
    println!("{}", anabranch_scenario::schema());
    for f in ["two_links","shared_bottleneck","wireless","web_traffic"] {
        let s = Scenario::load(format!("../../examples/{f}.toml").as_ref(), &[]);
        match s { Ok(s) => {println!("{f} {}\n{}", s.memory_estimate(), s.to_toml());}, Err(e) => println!("{e}") }
    }
}
