//! Parts of a configuration that a reload finds changed.

use anabranch_gateway::config::difference::difference;
use anabranch_gateway::config::read::{Either, either};
use anabranch_gateway::keys::KeyPair;

use super::tables::{FAR, NEAR, Table};
use super::{Written, folder};

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
    let parts = |tables: &[Table], change: Option<(&str, &str)>| {
        let mut written = Written::new(tables, &peer);
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
        let tables = if i < 11 { NEAR } else { FAR };
        assert_eq!(parts(tables, None), [""; 0]);
        assert_eq!(parts(tables, Some((key, value))), [part], "{key} = {value}");
    }
}
