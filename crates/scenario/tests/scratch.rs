use anabranch_scenario::Scenario;
#[test]
fn show() {
    let good = std::fs::read_to_string("/tmp/scws/good.toml").unwrap();
    let cases = std::fs::read_to_string("/tmp/scws/cases.txt").unwrap();
    for line in cases.lines() {
        let (a, b) = line.split_once(" => ").unwrap();
        let b = b.replace("\\n", "\n");
        assert!(good.contains(a), "{a}");
        let text = good.replacen(a, &b, 1);
        match Scenario::parse(text.as_bytes(), "bad.toml", &[]) {
            Ok(s) => println!("{line}\n     FINE {}", s.memory_estimate()),
            Err(e) => println!("{line}\n     {e}"),
        }
    }
}
