//! `init`: the files of a pair from nothing, and what it prints for their hosts.

use std::fs;
use std::path::Path;
use std::process::Command;

use anabranch_gateway::config::read::either;
use anabranch_gateway::keys::KeyPair;

use super::pair::{gateway, keygen, text};

/// Output of a command that succeeds.
fn init(folder: &Path, arguments: &str) -> String {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let done = gateway(&arguments, folder);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    text(&done.stdout)
}

/// The printed command for the other host.
fn command(output: &str) -> &str {
    let line = output
        .lines()
        .find(|it| it.contains("anabranch-gateway init"));
    let line = line.unwrap_or_else(|| panic!("{output}"));
    line.trim()
        .strip_prefix("anabranch-gateway ")
        .expect("found")
}

fn key(folder: &Path, file: &str) -> String {
    let pair = KeyPair::read(&folder.join(file)).expect("written");
    pair.public().to_string()
}

#[test]
fn the_printed_commands_make_a_valid_pair_and_nothing_is_overwritten() {
    let [near, far] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let (near, far) = (near.path(), far.path());
    let paths = "--path one=127.0.0.1 --path two=lo";
    let first = format!("init near --far [::1]:7441 {paths}");
    let printed = init(near, &first);
    assert!(!near.join("near.toml").exists(), "no peer is known yet");
    let printed = init(far, command(&printed));
    // The command of far has the links of an example.
    let (other, _) = command(&printed).split_once(" --path").expect("links");
    init(near, &format!("{other} {paths}"));
    for (folder, file, peer) in [
        (near, "near.toml", key(far, "far.key")),
        (far, "far.toml", key(near, "near.key")),
    ] {
        let checked = init(folder, &format!("check {file}"));
        assert!(checked.contains("a valid configuration"), "{checked}");
        let written = fs::read_to_string(folder.join(file)).expect("written");
        assert!(written.contains(&peer), "{written}");
        assert!(
            written.contains("[::1]:7441") || written.contains("[::]:7441"),
            "{written}"
        );
    }
    let before = fs::read(near.join("near.toml")).expect("written");
    let again = format!("{other} --path other=lo");
    let again = gateway(&again.split(' ').collect::<Vec<_>>(), near);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        text(&again.stderr).contains("not overwritten"),
        "{}",
        text(&again.stderr)
    );
    assert_eq!(fs::read(near.join("near.toml")).expect("written"), before);
}

#[test]
fn routes_that_were_changed_are_kept_until_they_are_to_be_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let peer = keygen(folder, "other.key");
    let first = "init near --far a.org:1 --path a=lo --path b=not-there";
    let whole = format!("{first} --peer {peer}");
    let printed = init(folder, &whole);
    let routes = folder.join("near.routes");
    let before = fs::read_to_string(&routes).expect("written");
    assert!(
        before.contains("this again with --force, without --peer"),
        "{before}"
    );
    assert!(printed.contains(&format!(
        "written, for the unit, or sh as root at each start:\n{before}"
    )));
    // As printed, once the link is up and the configuration has been written.
    fs::write(&routes, "# changed\n").expect("own folder");
    let printed = init(folder, first);
    assert!(
        printed.contains("near.routes: kept; with --force"),
        "{printed}"
    );
    assert_eq!(fs::read_to_string(&routes).expect("kept"), "# changed\n");
    let printed = init(folder, &format!("{first} --force"));
    assert!(printed.contains("near.routes: written"), "{printed}");
    assert_eq!(fs::read_to_string(&routes).expect("written"), before);
}

#[test]
fn what_is_missing_or_wrong_is_named_and_no_configuration_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let peer = keygen(folder, "other.key");
    let far = format!("init near --far a.org:1 --peer {peer}");
    for (arguments, says) in [
        ("init near".to_owned(), "--far: missing argument"),
        (
            "init near --far a.org:1".to_owned(),
            "--path: missing argument",
        ),
        ("init near --far a.org".to_owned(), "no port"),
        (format!("{far} --path eth0"), "such as fibre=eth0"),
        (
            format!("{far} --path a=lo --path a=127.0.0.1"),
            "the name of an earlier path",
        ),
        (format!("{far} --path a\"=lo"), "paths[0].name"),
        (
            format!("{far} --path a=lo --algorithm olai"),
            "(did you mean olia?)",
        ),
        (
            format!("init far --peer {peer} --allow *.*"),
            "expected a host",
        ),
        ("init far --peer abc".to_owned(), "keygen prints one"),
    ] {
        let done = gateway(&arguments.split(' ').collect::<Vec<_>>(), folder);
        assert_eq!(done.status.code(), Some(2), "{arguments}");
        assert!(
            text(&done.stderr).contains(says),
            "{arguments}: {}",
            text(&done.stderr)
        );
    }
    assert!(!folder.join("near.toml").exists() && !folder.join("far.toml").exists());
}

#[test]
fn a_network_of_clients_has_listeners_and_a_table_that_nft_accepts() {
    let nft = |rules: &str| {
        let script = "nft -c -f \"$0\"";
        let done = Command::new("unshare")
            .args(["-rn", "sh", "-c", script, rules])
            .output();
        done.is_ok_and(|done| done.status.success())
    };
    for (lan, network) in [
        ("192.168.7.1/24", "192.168.7.0/24"),
        ("fd09::1/64", "fd09::/64"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let peer = keygen(folder, "other.key");
        let printed = init(
            folder,
            &format!(
                "init near --far a.org:1 --path a=lo --path b=127.0.0.1 --lan {lan} --peer {peer}"
            ),
        );
        assert!(either(&folder.join("near.toml")).is_ok());
        let written = fs::read_to_string(folder.join("near.toml")).expect("written");
        assert_eq!(
            written
                .matches(&format!("clients = [\"{network}\"]"))
                .count(),
            3,
            "{written}"
        );
        let (_, table) = printed.split_once("    table ").expect("a table");
        fs::write(folder.join("empty"), "").expect("own folder");
        fs::write(folder.join("table"), format!("table {table}")).expect("own folder");
        let file = |name: &str| folder.join(name).display().to_string();
        assert!(!nft(&file("empty")) || nft(&file("table")), "{table}");
    }
}
