//! Changes that a reload finds, and sequences of reloads: any ends as a restart with the last file.

use anabranch_gateway::config::difference::{Differs, RESTART, difference};
use anabranch_gateway::config::read::{Either, either};
use anabranch_gateway::config::{Far, Near};
use anabranch_gateway::keys::KeyPair;
use proptest::prelude::*;
use serde::de::DeserializeOwned;

use super::tables::{far, near};
use super::{Written, folder};

/// Values of each part, of which a file has one.
const NEAR_VALUES: &[&[&str]] = &[
    &["far = '127.0.0.1:1'", "far = '127.0.0.1:2'"],
    &["", "rules = [{ to = '*', via = 'direct' }]"],
    &[
        "",
        "socks.listen = '127.0.0.1:1'",
        "dns.listen = '127.0.0.1:1'",
    ],
    &["", "limits.connections = 9", "limits.handshake_s = 3"],
    &["", "operation.drain_s = 1"],
    &["paths = [{ name = 'a', interface = 'lo' }]", "paths = []"],
    TUNNEL,
    &[
        "peers = ['ONE']",
        "peers = ['ONE', 'TWO']",
        "peers = [{ key = 'ONE', name = 'a' }]",
    ],
];

const FAR_VALUES: &[&[&str]] = &[
    &["listen = '127.0.0.1:1'", "listen = '127.0.0.1:2'"],
    &["", "allow = ['*']"],
    &["", "resolver = '9.9.9.9:53'"],
    &[
        "",
        "limits.connections = 9",
        "limits.connections_per_client = 3",
    ],
    &["", "operation.status = '127.0.0.1:1'"],
    TUNNEL,
    &[
        "peers = ['ONE']",
        "peers = ['TWO']",
        "peers = [{ key = 'ONE', allow = ['*'] }]",
    ],
];

const TUNNEL: &[&str] = &[
    "[tunnel]\nkey = 'a'\ncarrier = 'quic'\nalgorithm = 'olia'",
    "[tunnel]\nkey = 'a'\ncarrier = 'quic'\nalgorithm = 'lia'",
    "[tunnel]\nkey = 'b'\ncarrier = 'mptcp'\nalgorithm = 'lia'",
];

/// The file with these values.
fn file<C: DeserializeOwned>(values: &[&[&str]], choice: &[usize], keys: &[String; 2]) -> C {
    let lines: Vec<_> = values
        .iter()
        .zip(choice)
        .map(|(of, i)| of[i % of.len()])
        .collect();
    // With the quotation marks, because a random key may contain ONE or TWO.
    let text = lines
        .join("\n")
        .replace("'ONE'", &format!("'{}'", keys[0]))
        .replace("'TWO'", &format!("'{}'", keys[1]));
    toml::from_str(&text).expect(&text)
}

/// Reloads each file, and compares what runs and what is reported with a restart.
fn check<C: DeserializeOwned + Differs + Clone + PartialEq + std::fmt::Debug>(
    values: &[&[&str]],
    choices: &[Vec<usize>],
) {
    let keys = [0, 1].map(|_| {
        let pair = KeyPair::generate().expect("random numbers");
        pair.public().to_string()
    });
    let mut running: C = file(values, &choices[0], &keys);
    let first = running.clone();
    for choice in &choices[1..] {
        let file: C = file(values, choice, &keys);
        let before = running.clone();
        running = running.reloaded(file.clone());
        // Parts that differ from the file need a restart, and are still those of the start.
        let missing = running.parts(&file);
        assert!(
            missing.iter().all(|part| RESTART.contains(part)),
            "{missing:?}"
        );
        let changed = first.parts(&file);
        let expected: Vec<&str> = changed
            .into_iter()
            .filter(|part| RESTART.contains(part))
            .collect();
        assert_eq!(missing, expected);
        if missing.is_empty() {
            assert_eq!(running, file);
        }
        // The same signal again changes nothing and reports the same.
        assert_eq!(running.reloaded(file.clone()), running);
        // Parts reported as applied are those that changed, and none of them needs a restart.
        let applied = before.parts(&running);
        assert!(
            !applied.iter().any(|part| RESTART.contains(part)),
            "{applied:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn reloads_end_as_a_restart_with_the_last_file(
        choices in prop::collection::vec(prop::collection::vec(0_usize..6, 8), 2..6),
    ) {
        check::<Near>(NEAR_VALUES, &choices);
        check::<Far>(FAR_VALUES, &choices);
    }
}

/// Another valid value of a key, and the part of the configuration that it changes. Keys of several
/// tables are changed in the first.
const CHANGES: [(&str, &str, &str); 15] = [
    ("far", "'127.0.0.1:7441'", "far"),
    ("algorithm", "'vegas:kappa=4'", "tunnel"),
    ("guard", "true", "tunnel"),
    ("key", "'other.key'", "keys"),
    ("weight", "0.6", "paths"),
    ("clients", "['10.0.0.0/8']", "services"),
    ("to", "'example.org:2222'", "services"),
    ("via", "'refused'", "rules"),
    ("client_mbps", "20", "limits"),
    ("drain_s", "31", "operation"),
    ("status", "'127.0.0.1:9482'", "operation"),
    // Keys of far.
    ("listen", "'127.0.0.1:7441'", "listen"),
    ("allow", "['*']", "allow"),
    ("resolver", "'9.9.9.10:53'", "resolver"),
    ("name", "'office'", "peers"),
];

#[test]
fn each_change_is_found_in_its_part_alone() {
    let (folder, peer) = folder();
    let pair = KeyPair::generate().expect("random numbers");
    pair.write(&folder.path().join("other.key"))
        .expect("a new file");
    let parts = |i: usize, change: Option<(&str, &str)>| {
        let tables = if i < 11 { near() } else { far() };
        let mut written = Written::new(&tables, &peer);
        assert_eq!(written.refusal(folder.path()), Vec::<String>::new());
        let old = either(&folder.path().join("gateway.toml")).expect("valid");
        if let Some((key, value)) = change {
            let mut lines = written.lines.iter_mut();
            let line = lines.find(|line| line.starts_with(&format!("{key} = ")));
            *line.expect("the key is in the file") = format!("{key} = {value}");
        }
        assert_eq!(written.refusal(folder.path()), Vec::<String>::new());
        let new = either(&folder.path().join("gateway.toml")).expect("valid");
        match (old, new) {
            (Either::Near(old), Either::Near(new)) => difference(&old, &new),
            (Either::Far(old), Either::Far(new)) => difference(&old, &new),
            _ => panic!("the same role"),
        }
    };
    for (i, (key, value, part)) in CHANGES.into_iter().enumerate() {
        assert_eq!(parts(i, None), [""; 0]);
        assert_eq!(parts(i, Some((key, value))), [part], "{key} = {value}");
    }
}
