//! Values that are legal and probably not meant.

use std::fs;

use anabranch_gateway::config::read::either;

use super::folder;

#[test]
fn what_is_probably_not_meant_is_a_warning() {
    let (folder, peer) = folder();
    let file = folder.path().join("gateway.toml");
    let warnings = |text: &str| {
        fs::write(&file, text.replace("PEER", &peer)).expect("own folder");
        let valid = either(&file).expect("a valid configuration");
        valid.warnings().join("\n")
    };
    let near = |algorithm: &str, rest: &str| {
        warnings(&format!(
            "far = 'example.org:7440'\n\
             tunnel = {{ carrier = 'quic', algorithm = '{algorithm}', key = 'own.key', \
             peers = ['PEER'] }}\n{rest}"
        ))
    };
    let two =
        "paths = [{ name = 'a', interface = 'lo' }, { name = 'b', interface = 'nowhere7' }]\n";
    let cases = [
        (
            near("olia", "paths = [{ name = 'a', interface = 'lo' }]"),
            "nothing to couple",
        ),
        (
            near("wvegas", two),
            "acknowledgements of all paths return on one",
        ),
        (near("olia", two), "this host has no interface nowhere7 now"),
        (near("olia", two), "it accepts no connections"),
        (
            near(
                "olia",
                "paths = [{ name = 'a', interface = 'lo', role = 'backup' }]",
            ),
            "every path is a backup",
        ),
        (
            near("reno", &format!("{two}operation.status = '0.0.0.0:9480'")),
            "everyone who reaches 0.0.0.0:9480 can read it",
        ),
        (
            near(
                "reno",
                &format!("{two}socks = {{ listen = '0.0.0.0:1080', clients = ['0.0.0.0/0'] }}"),
            ),
            "lets everyone who reaches this address use the gateway",
        ),
        (
            near(
                "reno",
                &format!(
                    "{two}rules = [{{ to = '*', via = 'direct' }}, {{ to = 'a.org', via = 'tunnel' }}]"
                ),
            ),
            "the rules after this one never match",
        ),
        (
            warnings(
                "far = 'example.org:7440'\npaths = [{ name = 'a', interface = 'lo', weight = 0.5 }]\n\
                 tunnel = { carrier = 'mptcp', algorithm = 'olia', key = 'own.key', \
                 peers = ['PEER'] }",
            ),
            "paths[0].weight: ignored for streams with the carrier mptcp",
        ),
        (
            warnings(
                "listen = '127.0.0.1:7440'\ntunnel = { carrier = 'quic', algorithm = 'olia', \
                 key = 'own.key', peers = ['PEER'] }",
            ),
            "nothing is allowed",
        ),
    ];
    for (warnings, says) in cases {
        assert!(warnings.contains(says), "expected {says}, got {warnings}");
        assert!(warnings.contains("gateway.toml:"), "{warnings}");
    }
}

/// BBR is no rule of the table: the library has it, and kernels have others of their own. Every
/// kernel has `reno`, which is also a rule; the name of none is refused.
#[test]
fn a_congestion_control_that_only_the_carrier_has_is_valid() {
    let (folder, peer) = folder();
    let file = folder.path().join("gateway.toml");
    let refusals = |carrier: &str, algorithm: &str| {
        let text = format!(
            "listen = '127.0.0.1:7440'\n\
             tunnel = {{ carrier = '{carrier}', algorithm = '{algorithm}', key = 'own.key', \
             peers = ['{peer}'] }}\n"
        );
        fs::write(&file, text).expect("own folder");
        either(&file).err().unwrap_or_default().len()
    };
    assert_eq!(refusals("quic", "bbr"), 0);
    assert_eq!(refusals("quic", "bbrr"), 1);
    assert_eq!(refusals("mptcp", "reno"), 0);
    assert_eq!(refusals("mptcp", "no-such-rule"), 1);
}
