//! Values that are legal and probably not meant.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

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
    let far = |allow: &str| {
        warnings(&format!(
            "listen = '127.0.0.1:7440'\nallow = {allow}\ntunnel = {{ carrier = 'quic', \
             algorithm = 'olia', key = 'own.key', peers = ['PEER'] }}"
        ))
    };
    assert!(far("['*', '10.0.0.0/8']").is_empty());
    assert!(far("['127.0.0.1:80']").is_empty());
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
        (
            near("olia", "paths = [{ name = 'a', interface = 'wwan7' }]"),
            "the kernel numbers wwan7 in the order in which it finds the interfaces",
        ),
        (
            near("olia", "paths = [{ name = 'a', address = '192.0.2.77' }]"),
            "this host has no address 192.0.2.77 now",
        ),
        (
            warnings(
                "far = '192.0.2.1:7440'\npaths = [{ name = 'a', address = '2001:db8::7' }]\n\
                 tunnel = { carrier = 'quic', algorithm = 'olia', key = 'own.key', \
                 peers = ['PEER'] }",
            ),
            "192.0.2.1:7440 has no address of this family: the path stays off",
        ),
        (
            warnings(
                "far = '127.0.0.1:1080'\nsocks.listen = '127.0.0.1:1080'\n\
                 paths = [{ name = 'a', address = '127.0.0.1' }]\n\
                 tunnel = { carrier = 'quic', algorithm = 'olia', key = 'own.key', \
                 peers = ['PEER'] }",
            ),
            "this is the address of socks of near itself",
        ),
        (
            far("['*', '127.0.0.0/8:8080']"),
            "allow[1]: whoever may use \"*\" also reaches services of far's own host by 127.0.0.0/8",
        ),
        (
            far("['169.254.169.254', '*:443']"),
            "allow[0]: whoever may use",
        ),
        (far("['*', 'fe80::/10']"), "allow[1]: whoever may use"),
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

/// Whoever may write a file, its folder or the key's folder decides where traffic goes.
#[test]
fn files_that_others_can_change_are_a_warning() {
    let (folder, peer) = folder();
    let file = folder.path().join("gateway.toml");
    let text = format!(
        "listen = '127.0.0.1:7440'\nallow = ['*']\ntunnel = {{ carrier = 'quic', \
         algorithm = 'olia', key = 'own.key', peers = ['{peer}'] }}\n"
    );
    fs::write(&file, text).expect("own folder");
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("own file");
    };
    let warnings = || {
        either(&file)
            .expect("a valid configuration")
            .warnings()
            .join("\n")
    };
    mode(&file, 0o644);
    assert_eq!(warnings(), "");
    for shared in [0o646, 0o664] {
        mode(&file, shared);
        assert!(
            warnings().contains("others may write this file"),
            "{shared:o}"
        );
    }
    mode(&file, 0o644);
    mode(folder.path(), 0o777);
    assert!(warnings().contains("others may write the folder of this configuration"));
    // As in /tmp, where nobody replaces the files of others.
    mode(folder.path(), 0o1777);
    assert_eq!(warnings(), "");
    mode(folder.path(), 0o700);
    let key = folder.path().join("own.key");
    if std::os::unix::fs::chown(&key, Some(54_321), None).is_ok() {
        assert!(
            warnings().contains("tunnel.key belongs to user 54321"),
            "{}",
            warnings()
        );
    }
    let fifo = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo").success());
    let errors = either(&fifo).expect_err("refused");
    assert!(
        errors[0].to_string().contains("expected a regular file"),
        "{}",
        errors[0]
    );
}
