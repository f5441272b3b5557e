//! A wrong value of each key is refused with file, line, key and remedy; docs/gateway.md has each.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anabranch_gateway::config::read::either;
use anabranch_gateway::keys::KeyPair;

/// A table's header in the file, and its keys with a valid value, a wrong one, and what the error
/// says.
type Table = (
    &'static str,
    &'static [(&'static str, &'static str, &'static str, &'static str)],
);

const NEAR: &[Table] = &[
    (
        "",
        &[(
            "far",
            "'127.0.0.1:7440'",
            "'127.0.0.1'",
            "expected a host and a port",
        )],
    ),
    TUNNEL,
    ITCP,
    (
        "[[paths]]",
        &[
            (
                "name",
                "'fibre'",
                "'a b'",
                "expected 1 to 32 letters, digits",
            ),
            (
                "address",
                "'127.0.0.1'",
                "'0.0.0.0'",
                "expected an address of this host",
            ),
            (
                "interface",
                "'lo'",
                "'a/b'",
                "expected the name of an interface",
            ),
            ("role", "'backup'", "'backups'", "(did you mean backup?)"),
            (
                "weight",
                "0.5",
                "1.5",
                "expected a number above 0, at most 1, got 1.5",
            ),
            (
                "rate_mbps",
                "10",
                "0",
                "expected a number from 0.01 to 1000000, got 0",
            ),
            (
                "cap_bytes",
                "1000000000",
                "0",
                "role = \"never\" turns a path off",
            ),
        ],
    ),
    ("[socks]", &[LISTEN, CLIENTS]),
    (
        "[[forwards]]",
        &[
            (
                "listen",
                "'127.0.0.1:8022'",
                "'127.0.0.1:0'",
                "expected a port from 1 to 65535",
            ),
            (
                "to",
                "'example.org:22'",
                "'example.org:'",
                "such as example.org:443",
            ),
            CLIENTS,
        ],
    ),
    (
        "[redirect]",
        &[("listen", "'127.0.0.1:1081'", "1081", "expected"), CLIENTS],
    ),
    (
        "[dns]",
        &[
            (
                "listen",
                "'127.0.0.1:5353'",
                "'localhost:53'",
                "invalid socket address",
            ),
            CLIENTS,
        ],
    ),
    (
        "[[rules]]",
        &[
            ("to", "'*.example.org:443'", "'*.*'", "expected a host"),
            (
                "via",
                "'path:fibre'",
                "'path:fiber'",
                "(did you mean fibre?)",
            ),
        ],
    ),
    LIMITS,
    OPERATION,
];

const FAR: &[Table] = &[
    (
        "",
        &[
            ("listen", "'127.0.0.1:7440'", "7440", "expected"),
            (
                "allow",
                "['*', '10.0.0.0/8:22']",
                "['10.0.0.1/8']",
                "no bits set beyond the prefix",
            ),
            (
                "resolver",
                "'9.9.9.9:53'",
                "'9.9.9.9:0'",
                "expected a port from 1 to 65535",
            ),
        ],
    ),
    TUNNEL,
    ITCP,
    LIMITS,
    OPERATION,
];

const TUNNEL: Table = (
    "[tunnel]",
    &[
        ("carrier", "'quic'", "'quick'", "(did you mean quic?)"),
        (
            "algorithm",
            "'vegas:kappa=3'",
            "'vega'",
            "(did you mean vegas?)",
        ),
        ("key", "'own.key'", "'none.key'", "anabranch-gateway keygen"),
        ("peers", "['PEER']", "['abc']", "keygen prints one"),
    ],
);

const ITCP: Table = (
    "[tunnel.itcp]",
    &[
        ("samples", "180", "1", "expected a number from 2"),
        ("period_s", "0.5", "0", "expected a number from 0.001"),
        ("max_kappa", "10", "0.5", "expected a number from 1"),
        (
            "max_queue_packets",
            "200000",
            "0",
            "expected a number from 1",
        ),
        ("epsilon", "0.1", "-0.1", "expected a number from 0"),
        ("gamma", "0.2", "1.2", "expected a number from 0 to 1"),
        ("low_threshold", "0.2", "-1", "expected a number from 0"),
        ("high_threshold", "1.0", "0.1", "expected a number from 0.2"),
        ("guard", "false", "0", "expected"),
    ],
);

const LISTEN: (&str, &str, &str, &str) = (
    "listen",
    "'127.0.0.1:1080'",
    "'127.0.0.1'",
    "invalid socket address",
);

const CLIENTS: (&str, &str, &str, &str) = (
    "clients",
    "['192.168.1.0/24']",
    "['192.168.1.0/33']",
    "invalid IP address",
);

const LIMITS: Table = (
    "[limits]",
    &[
        ("connections", "100", "0", "expected a number from 1"),
        (
            "connections_per_client",
            "100",
            "-1",
            "expected a whole number",
        ),
        ("buffer_bytes", "262144", "1", "expected a number from 4096"),
        (
            "tunnel_buffer_bytes",
            "67108864",
            "1",
            "expected a number from 65536",
        ),
        ("client_mbps", "10", "0", "expected a number from 0.01"),
        ("handshake_s", "10", "0", "expected a number from 0.1"),
    ],
);

const OPERATION: Table = (
    "[operation]",
    &[
        (
            "status",
            "'127.0.0.1:9480'",
            "'9480'",
            "invalid socket address",
        ),
        (
            "metrics",
            "'127.0.0.1:9481'",
            "'127.0.0.1:9480'",
            "operation.status, too",
        ),
        ("drain_s", "30", "-1", "expected a number from 0"),
    ],
);

/// The file of a role, with one value replaced, and with the name of the table's key of each line.
struct Written {
    lines: Vec<String>,
}

impl Written {
    fn new(tables: &[Table], peer: &str) -> Written {
        let mut lines = Vec::new();
        for (header, keys) in tables {
            if !header.is_empty() {
                lines.push((*header).to_owned());
            }
            for (key, valid, ..) in *keys {
                lines.push(format!("{key} = {valid}").replace("PEER", peer));
            }
        }
        Written { lines }
    }

    fn refusal(&self, folder: &Path) -> Vec<String> {
        let file = folder.join("gateway.toml");
        fs::write(&file, self.lines.join("\n")).expect("own folder");
        let errors = either(&file).err().unwrap_or_default();
        let prefix = format!("{}/", folder.display());
        errors
            .iter()
            .map(|error| error.to_string().replace(&prefix, ""))
            .collect()
    }
}

fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let pair = || KeyPair::generate().expect("random numbers");
    pair()
        .write(&folder.path().join("own.key"))
        .expect("a new file");
    (folder, pair().public().to_string())
}

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
    for tables in [NEAR, FAR] {
        let valid = Written::new(tables, &peer);
        assert_eq!(valid.refusal(folder.path()), Vec::<String>::new());
        let mut at = 0;
        for (header, keys) in tables {
            at += usize::from(!header.is_empty());
            for (key, _, wrong, says) in *keys {
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/gateway.md")).expect("docs/gateway.md");
    for (role, tables) in [("near", NEAR), ("far", FAR)] {
        for (i, (header, keys)) in tables.iter().enumerate() {
            let known = known(&Written::new(tables, &peer), header, folder.path());
            let tested: BTreeSet<String> = keys.iter().map(|(key, ..)| (*key).to_owned()).collect();
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
                    "docs/gateway.md: {name} of {role}"
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
    let cases = [
        (
            "paths = []",
            "gateway.toml:3: paths: expected at least one path",
        ),
        (
            "paths = [{ name = 'a' }]",
            "paths[0]: expected address, interface or both",
        ),
        (
            "paths = [{ name = 'a', address = '::1', role = 'never' }]",
            "every path has the role never",
        ),
        (
            "paths = [{ name = 'a', address = '::1' }, { name = 'a', interface = 'lo' }]",
            "paths[1].name: \"a\" is the name of an earlier path",
        ),
        (
            "paths = [{ name = 'a', interface = 'lo' }, { name = 'b', interface = 'lo' }]",
            "paths[1]: path \"a\" has the same address and interface",
        ),
        ("tunnel.itcp = {}", "tunnel"),
        (
            "socks.listen = '0.0.0.0:1080'",
            "socks.clients: missing key: 0.0.0.0:1080 can be reached",
        ),
        (
            "socks.listen = '127.0.0.1:1080'\ndns.listen = '127.0.0.1:1080'",
            "dns.listen: 127.0.0.1:1080 is the address of socks.listen, too",
        ),
        ("listen = '127.0.0.1:7440'", "expected the key far"),
        ("socks.listn = '127.0.0.1:1080'", "(did you mean listen?)"),
    ];
    for (rest, says) in cases {
        let refusal = near(rest);
        assert!(refusal.contains(says), "{rest}: {refusal}");
    }
    let own = KeyPair::read(&folder.path().join("own.key")).expect("the key");
    let refusal = refusal(&format!(
        "listen = '127.0.0.1:7440'\n\
         tunnel = {{ carrier = 'quic', algorithm = 'olia', key = 'own.key', peers = ['{}'], \
         itcp = {{}} }}",
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
            .contains("expected a file of at most 1 MiB")
    );
}

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

#[test]
fn the_examples_and_those_of_the_documentation_are_valid_but_for_their_keys() {
    let (folder, peer) = folder();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let examples = fs::read_dir(root.join("examples/gateway")).expect("examples/gateway");
    let mut texts: Vec<String> = examples
        .map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("an example"))
        .collect();
    let page = fs::read_to_string(root.join("docs/gateway.md")).expect("docs/gateway.md");
    let blocks = page.split("```toml\n").skip(1);
    texts.extend(blocks.map(|block| block.split("```").next().unwrap_or_default().to_owned()));
    assert_eq!(texts.len(), 4);
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
