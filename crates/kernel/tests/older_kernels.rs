//! Kernels differ in the fields of their types: the programs load also where one is not there yet.

mod common;

use std::fs;
use std::io::Write;

use anabranch_kernel::PROGRAMS;
use common::can_load;
use libbpf_rs::ObjectBuilder;
use tempfile::NamedTempFile;

/// The types of this kernel, in which nothing is called so.
fn types_without(name: &str) -> NamedTempFile {
    let mut types = fs::read("/sys/kernel/btf/vmlinux").unwrap();
    let wanted = [b"\0", name.as_bytes(), b"\0"].concat();
    let places: Vec<usize> = (0..types.len() - wanted.len())
        .filter(|&at| types[at..].starts_with(&wanted))
        .collect();
    assert!(!places.is_empty(), "this kernel has no {name} either");
    for at in places {
        types[at + 1..][..name.len()].fill(b'_');
    }
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(&types).unwrap();
    file
}

/// `mptcp_subflow_context.closing` came with Linux 6.19, and went back to some 6.18.
#[test]
fn subflows_that_can_not_say_that_they_close_are_no_obstacle() {
    if !can_load() {
        return;
    }
    let types = types_without("closing");
    for program in PROGRAMS {
        let mut builder = ObjectBuilder::default();
        builder.btf_custom_path(types.path()).unwrap();
        let object = builder.open_memory(program.object).unwrap();
        assert!(object.load().is_ok(), "{}", program.name);
    }
}
