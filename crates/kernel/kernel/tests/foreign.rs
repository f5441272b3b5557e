//! Programs of others under our names are told apart from ours, with the command that ends them.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;

use libbpf_rs::{Link, MapCore, MapHandle, Object, ObjectBuilder, libbpf_sys};
use serde_json::Value;

use crate::common::network::{Host, Network, connect, send_for};
use crate::common::program::{own_bpf_fs, run};
use crate::common::{SEND_TIME, can_load, lock_names, wait_until};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/foreign.o"));

/// Registers `coupled` by the struct_ops map of this name. Its own id, and what keeps it.
fn register(map: &str) -> (u32, Object, Link) {
    let mut open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
    for mut other in open.maps_mut().filter(|other| other.name() != map) {
        let name = other.name().to_string_lossy().into_owned();
        if name.starts_with("by_") {
            other.set_autocreate(false).unwrap();
        }
    }
    let mut object = open.load().unwrap();
    let mut maps = object.maps_mut();
    let mut map = maps.find(|found| found.name() == map).unwrap();
    let link = map.attach_struct_ops().unwrap();
    let id = map.info().unwrap().info.id;
    drop(maps);
    (id, object, link)
}

fn refused(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch-kernel"));
    let output = command.args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(error.lines().count(), 1, "{error}");
    error.trim().to_owned()
}

/// The map's name is not the algorithm's, which alone counts in the kernel.
#[test]
fn a_program_of_others_under_our_name_is_foreign_everywhere_and_its_end_is_named() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let _pins = own_bpf_fs();
    let (id, _object, _link) = register("by_map");
    let text = format!(
        "coupled belongs to another program (struct_ops map {id}): bpftool struct_ops unregister id {id}"
    );
    for arguments in [
        &["load", "coupled"][..],
        &["load", "coupled", "--pin"],
        &["load", "coupled", "--replace"],
        &["unload", "coupled"],
    ] {
        let error = refused(arguments);
        assert_eq!(error, format!("anabranch-kernel: {text}"), "{arguments:?}");
    }
    let shown = run(&["status"]);
    assert!(shown.contains(&format!("\nforeign: {text}\n")), "{shown}");
    let status: Value = serde_json::from_str(&run(&["status", "--json"])).unwrap();
    let mut registered = status["registered"].as_array().unwrap().iter();
    let foreign = registered.find(|one| one["name"] == "coupled").unwrap();
    assert_eq!(foreign["foreign"], text, "{status}");
    let metrics = run(&["metrics", "--once"]);
    let expected = "anabranch_loaded{algorithm=\"coupled\",parameters=\"\",version=\"\",\
                    program=\"foreign\",pinned=\"false\"} 1.0\n";
    assert!(metrics.contains(expected), "{metrics}");

    let network = Network::new(1, None);
    let _sink = network.sink();
    let mut stream = network.inside(Host::Client, || connect("coupled", true));
    send_for(&mut stream, SEND_TIME);
    let shown = network.inside(Host::Client, || run(&["status"]));
    assert!(shown.contains(":5001 (foreign program)\n"), "{shown}");
    drop(stream);

    // `bpftool struct_ops unregister` deletes the map's only element.
    let map = MapHandle::from_map_id(id).unwrap();
    map.delete(&0u32.to_ne_bytes()).unwrap();
    wait_until("the name is free", || {
        !run(&["status"]).contains("foreign: ")
    });
    run(&["load", "coupled", "--pin"]);
    assert!(!run(&["status"]).contains("foreign: "));
}

#[test]
fn a_program_of_others_with_a_link_is_ended_by_its_link() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let _pins = own_bpf_fs();
    let (id, _object, _link) = register("by_link");
    let error = refused(&["load", "coupled"]);
    let (whose, link) = error.rsplit_once(' ').unwrap();
    let expected = format!(
        "anabranch-kernel: coupled belongs to another program (struct_ops map {id}): bpftool link \
         detach id"
    );
    assert_eq!(whose, expected);
    // Safety: the descriptor is new, and nothing else owns it.
    let link = unsafe {
        let fd = libbpf_sys::bpf_link_get_fd_by_id(link.parse().unwrap());
        OwnedFd::from_raw_fd(fd)
    };
    // Safety: the descriptor is open.
    let detached = unsafe { libbpf_sys::bpf_link_detach(link.as_fd().as_raw_fd()) };
    assert_eq!(detached, 0);
    wait_until("the name is free", || {
        !run(&["status"]).contains("foreign: ")
    });
    run(&["load", "coupled", "--pin"]);
}

#[test]
fn our_own_program_is_not_foreign_and_the_printed_remedy_works() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let _pins = own_bpf_fs();
    // As after a `load --all --pin` that was killed.
    run(&["load", "ewtcp", "--pin"]);
    let error = refused(&["load", "ewtcp", "semicoupled", "--pin"]);
    let expected = "ewtcp is already registered, and pinned: add --replace, or anabranch-kernel \
                    unload ewtcp";
    assert_eq!(error, format!("anabranch-kernel: {expected}"));
    let loaded = run(&["load", "ewtcp", "semicoupled", "--pin", "--replace"]);
    assert!(loaded.contains("replaced ewtcp"), "{loaded}");
    assert!(!run(&["status"]).contains("foreign"));
    // All that is loaded goes, whatever is named before it.
    let error = refused(&["unload", "rsf_lb", "ewtcp"]);
    assert_eq!(error, "anabranch-kernel: rsf_lb is not loaded");
    run(&["load", "ewtcp", "--pin"]);
    assert!(run(&["metrics", "--once"]).contains("program=\"registered\",pinned=\"true\"} 1.0"));
}

#[test]
fn a_name_that_is_none_of_ours_is_unknown_to_load_and_unload_alike() {
    for name in ["foreigncc", "cubic", "wvegsa", ""] {
        let unload = refused(&["unload", name]);
        assert!(
            unload.contains(&format!("unknown algorithm \"{name}\": ")),
            "{unload}"
        );
        assert_eq!(unload, refused(&["load", name]));
    }
}
