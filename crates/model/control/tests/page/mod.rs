//! `docs/reference/rules.md`, the page that lists every rule of the table.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anabranch_control::{BETA_ECN, Coupling, Info, Parameter, RULES};

pub const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../docs/reference/rules.md"
);
const KERNEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel/kernel/bpf/rules");

const HEADER: &str = "\
# The rules

This page lists every rule, its parameters and its properties. It is generated from
`crates/model/control/src/rules.rs`; after a change to a rule:

```
UPDATE_GOLDEN=1 cargo test -p anabranch-control
```

A specification is a name, or a name with parameters: `lia`, `generalized:beta=0.5:norm=2`.

| rule | also | what it does | source | kernel program |
|---|---|---|---|---|
";

const PARAMETERS: &str = "
## Parameters

| rule | parameter | default | allowed | unit | meaning |
|---|---|--:|---|---|---|
";

const ABE: &str = "(ABE, RFC 8511: 0.8 for Reno, 0.85 for CUBIC), on sim and quic";

const COUPLING: &str = "
## Coupling

Every rule also takes `coupling`, such as `lia:coupling=shared`: a layer above the rule that divides
a connection's paths into groups, each a connection of its own to the rule. The kernel's programs
have all but `rfc8382` ([kernel.md](kernel.md)), theory `always` alone. No path counts a sibling
that is silent: two timeouts in a row, closed, or in the equations in an outage.

| coupling | meaning |
|---|---|
";

const DETECTOR: &str = "
**`shared`** takes for each pair of paths their mean delays in intervals of 200 ms, and the
correlation of these with weights that fall over 10 s: packets in one queue wait at the same times.
A pair becomes shared above 0.5 and separate below 0.4, from 3 s on; until then all are coupled.
Samples weigh less the longer a delayed ACK may have waited. On 500 generated networks (26 November
2026, [records](records.md), `shared-bottlenecks`) it separates 0.5 % of shared pairs with the
endpoints of RFCs and 2.6 % with Linux', and couples 0.9 and 1.6 % of separate ones, 8 % with a
user that pauses, which fills both queues at the same times, and 11 % with PIE. With FQ-CoDel it
separates 58 %: each flow has a queue of its own there. `rfc8382` is an approximation of RFC 8382
without its removal of oscillation noise; it separates 50 % of shared pairs.
";

const PROPERTIES: &str = "
## Properties

What a rule says of itself; tests and studies of all rules go by it.

| property | rules |
|---|---|
";

/// Sentence about a property of rules, and whether a rule has it.
type Property = (&'static str, fn(&Info) -> bool);
const PROPERTY: [Property; 6] = [
    (
        "acts once per round trip, on delay, not once per acknowledged packet",
        |info| info.delay_based,
    ),
    (
        "acts at every acknowledgement and loss, on delivery rates, and paces",
        |info| info.by_rate,
    ),
    (
        "reduces at marks by the share of packets that are marked, not as at a loss",
        |info| info.scalable,
    ),
    (
        "has no fluid model: increase and decrease at a state do not describe it",
        |info| !info.fluid,
    ),
    ("with its defaults is not NewReno over one path", |info| {
        !info.reno_on_one_path
    }),
    (
        "has an equilibrium whose loss probability windows and RTTs alone do not give",
        |info| !info.equilibrium_by_loss,
    ),
];

const CAPACITY: &str = "
Alone on clean paths, with queues of one bandwidth-delay product, every rule uses at least 95 % of
their capacity (`crates/model/sim/tests/fill.rs`), except where its own equations prevent it:

";

const OVERSHOOT: &str = "
An overshoot of slow start lasts for minutes with these rules, whose windows shrink by at most one
packet per round trip where nothing is lost. A run without `tcp.initial_ssthresh_packets` warns:

";

const CAUTION: &str = "
Expect much less goodput than from other rules in these cases. `vegas` alone over two clean paths of
20 Mbps with RTTs of 20 and 60 ms has 4 of 38 Mbps in the simulator with `tcp.profile = \"linux\"`
and `tcp.kernel_programs = false`, and 38 without delayed ACKs; `wvegas` over two paths beside Reno
has 0.28 of a link of 12 Mbps with a queue of 60 packets, 0.14 with 120, and 0.65 with 30.
[competitors.md](../notebook/competitors.md) has the shares beside BBR.

| caution | rules |
|---|---|
";

/// The page as the table has it.
pub fn page() -> String {
    let mut page = String::from(HEADER);
    for info in RULES {
        let (name, summary, source) = (info.name, info.summary, info.source);
        let (aliases, linux) = (info.aliases.join(", "), linux_name(info));
        writeln!(
            page,
            "| `{name}` | {aliases} | {summary} | {source} | {linux} |"
        )
        .unwrap();
    }
    page += PARAMETERS;
    for info in RULES {
        for parameter in info.parameters {
            let Parameter {
                name,
                default,
                unit,
                meaning,
                ..
            } = parameter;
            let (rule, allowed) = (info.name, allowed(parameter));
            writeln!(
                page,
                "| `{rule}` | `{name}` | {default} | {allowed} | {unit} | {meaning} |"
            )
            .unwrap();
        }
    }
    writeln!(
        page,
        "| those that take a mark as a loss | `{}` | as at a loss | {} | | {} {ABE} |",
        BETA_ECN.name,
        allowed(&BETA_ECN),
        BETA_ECN.meaning
    )
    .unwrap();
    page += COUPLING;
    for coupling in Coupling::ALL {
        writeln!(page, "| `{coupling}` | {} |", coupling.meaning()).unwrap();
    }
    page += DETECTOR;
    page += PROPERTIES;
    for (says, has) in PROPERTY {
        let names = RULES.iter().filter(|info| has(info)).map(quoted);
        writeln!(
            page,
            "| {says} | {} |",
            names.collect::<Vec<_>>().join(", ")
        )
        .unwrap();
    }
    page.push('\n');
    for info in RULES {
        let name = info.name;
        if let Some(weight) = info.weight {
            writeln!(page, "- `{name}`: `{weight}` is a connection's weight.").unwrap();
        }
        match info.variant_of {
            Some(other) => writeln!(page, "- `{name}` is a variant of `{other}`.").unwrap(),
            None if info.studied_as != name => {
                writeln!(page, "- `{name}` is studied as `{}`.", info.studied_as).unwrap();
            }
            None => {}
        }
    }
    page += CAPACITY;
    for info in RULES {
        if let Some(why) = info.leaves_capacity {
            writeln!(page, "- `{}`: {why}.", info.name).unwrap();
        }
    }
    page += CAUTION;
    let mut cautions: Vec<(&str, Vec<String>)> = Vec::new();
    for info in RULES {
        let name = quoted(info);
        let Some(caution) = info.caution else {
            continue;
        };
        match cautions.iter_mut().find(|(said, _)| *said == caution) {
            Some((_, names)) => names.push(name),
            None => cautions.push((caution, vec![name])),
        }
    }
    for (caution, names) in cautions {
        writeln!(page, "| {caution} | {} |", names.join(", ")).unwrap();
    }
    page += OVERSHOOT;
    for info in RULES.iter().filter(|info| info.keeps_overshoot) {
        writeln!(page, "- `{}`", info.name).unwrap();
    }
    page
}

fn quoted(info: &Info) -> String {
    format!("`{}`", info.name)
}

/// The rule's name in Linux, if `crates/kernel/kernel` has a header for it.
fn linux_name(info: &Info) -> String {
    let name = info.linux_name();
    let header = Path::new(KERNEL).join(&name).with_extension("h");
    if fs::exists(header).unwrap() {
        format!("`{name}`")
    } else {
        String::new()
    }
}

fn allowed(parameter: &Parameter) -> String {
    if parameter.choices.is_empty() {
        return format!("{} to {}", parameter.min, parameter.max);
    }
    let choices: Vec<String> = parameter.choices.iter().map(f64::to_string).collect();
    choices.join(", ")
}
