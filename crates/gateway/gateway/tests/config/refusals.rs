//! A wrong value of each key is refused with file, line, key and remedy;
//! docs/reference/gateway.md has each.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anabranch_gateway::config::read::either;
use anabranch_gateway::keys::KeyPair;

use super::tables::{far, near};
use super::{Written, folder};

const PAGE: &str = "docs/reference/gateway.md";

/// The dotted key of an entry: `paths[0].name`.
fn dotted(header: &str, key: &str) -> String {
    let table = header.trim_matches(['[', ']']);
    match (table, header.starts_with("[[")) {
        ("", _) => key.to_owned(),
        (table, true) => format!("{table}[0].{key}"),
        (table, false) => format!("{table}.{key}"),
    }
}

#[test]
fn a_wrong_value_of_each_key_is_refused_at_its_line() {
    let (folder, peer) = folder();
    for tables in [near(), far()] {
        let valid = Written::new(&tables, &peer);
        assert_eq!(valid.refusal(folder.path()), Vec::<String>::new());
        let mut at = 0;
        for (header, keys) in &tables {
            at += usize::from(!header.is_empty());
            for [key, _, wrong, says] in keys {
                let mut lines = valid.lines.clone();
                lines[at] = format!("{key} = {wrong}");
                at += 1;
                let refusal = Written { lines }.refusal(folder.path());
                let start = format!("gateway.toml:{at}: {}", dotted(header, key));
                assert!(
                    refusal
                        .iter()
                        .any(|line| line.starts_with(&start) && line.contains(says)),
                    "{key} = {wrong}: expected {start}: {says}, got {refusal:#?}"
                );
            }
        }
    }
}

#[test]
fn the_cases_above_have_every_key_and_so_has_the_documentation() {
    let (folder, peer) = folder();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let page = fs::read_to_string(root.join(PAGE)).expect(PAGE);
    for (role, tables) in [("near", near()), ("far", far())] {
        for (i, (header, keys)) in tables.iter().enumerate() {
            let known = known(&Written::new(&tables, &peer), header, folder.path());
            let tested: BTreeSet<String> = keys.iter().map(|row| row[0].to_owned()).collect();
            let tables: BTreeSet<String> = tables[i + 1..]
                .iter()
                .filter_map(|(below, _)| nested(header, below))
                .collect();
            assert_eq!(
                known,
                tested.union(&tables).cloned().collect(),
                "{role} {header}"
            );
            for key in tested {
                let name = dotted(header, &key).replace("[0]", "[]");
                assert!(
                    page.contains(&format!("| `{name}` |")),
                    "{PAGE}: {name} of {role}"
                );
            }
        }
    }
}

/// The name of a table directly within another: of `[tunnel.itcp]` in `[tunnel]` it is `itcp`.
fn nested(outer: &str, inner: &str) -> Option<String> {
    let inner = inner.trim_matches(['[', ']']);
    let rest = match outer.trim_matches(['[', ']']) {
        "" => inner,
        outer => inner.strip_prefix(outer)?.strip_prefix('.')?,
    };
    (!rest.contains('.')).then(|| rest.to_owned())
}

/// The keys that a table can have, from the message about one that it cannot have.
fn known(valid: &Written, header: &str, folder: &Path) -> BTreeSet<String> {
    let mut lines = valid.lines.clone();
    let at = lines
        .iter()
        .position(|line| line == header)
        .map_or(0, |at| at + 1);
    lines.insert(at, "nonsense = 1".to_owned());
    let refusal = Written { lines }.refusal(folder);
    let (_, names) = refusal[0]
        .split_once("unknown key, expected one of ")
        .unwrap_or_else(|| {
            panic!("{header}: {refusal:?}");
        });
    names.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_examples_are_valid_but_for_their_keys() {
    let (folder, peer) = folder();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let examples = fs::read_dir(root.join("examples/gateway")).expect("examples/gateway");
    let texts: Vec<String> = examples
        .map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("an example"))
        .collect();
    assert_eq!(texts.len(), 2);
    for text in texts {
        let lines = text.lines().map(|line| match line.split_once(" = ") {
            Some(("key", _)) => "key = 'own.key'".to_owned(),
            Some(("peers", _)) => format!("peers = ['{peer}']"),
            _ => line.to_owned(),
        });
        let lines = lines.collect();
        assert_eq!(
            Written { lines }.refusal(folder.path()),
            Vec::<String>::new()
        );
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let (folder, peer) = folder();
    let refusal = |text: &str| {
        let lines = text
            .replace("PEER", &peer)
            .lines()
            .map(str::to_owned)
            .collect();
        Written { lines }.refusal(folder.path()).join("\n")
    };
    let near = |rest: &str| {
        let paths = if rest.contains("paths") {
            ""
        } else {
            "paths = [{ name = 'a', address = '127.0.0.1' }]\n"
        };
        refusal(&format!(
            "far = 'example.org:7440'\n\
             tunnel = {{ carrier = 'quic', algorithm = 'olia', key = 'own.key', peers = ['PEER'] }}\n\
             {paths}{rest}"
        ))
    };
    assert_eq!(near(""), "");
    // Connections and datagrams at one address are no conflict.
    let one = "{ listen = '127.0.0.1:53', to = 'a.org:1', udp = UDP }";
    let both = ["true", "false"]
        .map(|udp| one.replace("UDP", udp))
        .join(", ");
    assert_eq!(near(&format!("forwards = [{both}]")), "");
    let cases = "\
paths = [] | gateway.toml:3: paths: expected at least one path
paths = [{ name = 'a' }] | paths[0]: expected address, interface or both
paths = [{ name = 'a', address = '::1', role = 'never' }] | every path has the role never
paths = [{ name = 'a', address = '::1' }, { name = 'a', interface = 'lo' }] | paths[1].name: \
\"a\" is the name of an earlier path
paths = [{ name = 'a', interface = 'lo' }, { name = 'b', interface = 'lo' }] | paths[1]: path \
\"a\" has the same address and interface
tunnel.itcp = {} | tunnel
socks.listen = '0.0.0.0:1080' | socks.clients: missing key: 0.0.0.0:1080 can be reached
socks.listen = '127.0.0.1:1080';dns.listen = '127.0.0.1:1080' | dns.listen: 127.0.0.1:1080 is \
the address of socks.listen, too
dns.listen = '127.0.0.1:53';forwards = [{ listen = '127.0.0.1:53', to = 'a.org:1', udp = true }] | \
forwards[0].listen: 127.0.0.1:53 is the address of dns.listen, too
forwards = [{ listen = '127.0.0.1:0', to = 'a.org:1', udp = true }] | forwards[0].listen: expected a
listen = '127.0.0.1:7440' | expected the key far
socks.listn = '127.0.0.1:1080' | (did you mean listen?)";
    for case in cases.lines() {
        let (rest, says) = case.split_once(" | ").expect(case);
        let refusal = near(&rest.replace(';', "\n"));
        assert!(refusal.contains(says), "{rest}: {refusal}");
    }
    let own = KeyPair::read(&folder.path().join("own.key")).expect("the key");
    let abe = refusal(
        "listen = '127.0.0.1:7440'\n\
         tunnel = { carrier = 'quic', algorithm = 'olia:beta_ecn=0.8', key = 'own.key', peers = [] }",
    );
    assert!(
        abe.contains("tunnel.algorithm: beta_ecn has no effect: tunnels have no ECN"),
        "{abe}"
    );
    let refusal = refusal(&format!(
        "listen = '127.0.0.1:7440'\n\
         tunnel = {{ carrier = 'quic', algorithm = 'olia', key = 'own.key', peers = ['{}'], \
         itcp = {{ max_kappa = 'active', back_pressure = true }} }}",
        own.public()
    ));
    assert!(
        refusal.contains("tunnel.peers[0]: this is the public key of tunnel.key"),
        "{refusal}"
    );
    assert!(
        refusal.contains("tunnel.itcp: I-TCP adjusts the weight of a rule"),
        "{refusal}"
    );
    assert!(
        refusal.contains("tunnel.itcp.max_kappa: expected a number"),
        "{refusal}"
    );
    assert!(
        refusal.contains("tunnel.itcp.back_pressure: has no effect"),
        "{refusal}"
    );
}

#[test]
fn a_list_of_destinations_for_a_peer_counts_on_far_alone() {
    let (folder, peer) = folder();
    let refusal = |role: &str| {
        let text = format!(
            "{role}\ntunnel = {{ carrier = 'quic', algorithm = 'reno', key = 'own.key', \
             peers = [{{ key = '{peer}', allow = ['*'] }}, '{peer}'] }}"
        );
        let lines = text.lines().map(str::to_owned).collect();
        Written { lines }.refusal(folder.path())
    };
    let twice = "gateway.toml:2: tunnel.peers[1]: this key is listed twice";
    assert_eq!(refusal("listen = '127.0.0.1:7440'"), [twice]);
    let near = refusal("far = '127.0.0.1:1'\npaths = [{ name = 'a', interface = 'lo' }]");
    let message = "tunnel.peers[0].allow: near connects to far alone";
    assert!(near.iter().any(|line| line.contains(message)), "{near:?}");
}

#[test]
fn what_is_no_configuration_is_refused_in_one_line() {
    let (folder, _) = folder();
    let file = folder.path().join("gateway.toml");
    let cases: [(&[u8], &str); 4] = [
        (b"", "expected a configuration, got an empty file"),
        (b"\xff", "expected UTF-8"),
        (b"far = ", "gateway.toml:1: far: "),
        (b"[tunnel]\ncarrier = 'quic'\n", "expected the key far"),
    ];
    for (text, says) in cases {
        fs::write(&file, text).expect("own folder");
        let errors = either(&file).expect_err("no configuration");
        assert!(errors[0].to_string().contains(says), "{}", errors[0]);
    }
    fs::remove_file(&file).expect("own file");
    let missing = either(&file).expect_err("no file");
    assert!(
        missing[0]
            .to_string()
            .ends_with("gateway.toml: file not found")
    );
    let folder = either(folder.path()).expect_err("a folder");
    assert!(
        folder[0]
            .to_string()
            .contains("expected a file, got a directory")
    );
}
