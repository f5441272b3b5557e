//! Kernels differ in the fields of their types: the programs load without those added later.

use std::fs;
use std::io::Write;

use crate::common::can_load;
use anabranch_kernel::PROGRAMS;
use libbpf_rs::ObjectBuilder;
use tempfile::NamedTempFile;

/// The types of this kernel without this name.
fn types_without(name: &str) -> NamedTempFile {
    let mut types = fs::read("/sys/kernel/btf/vmlinux").unwrap();
    let wanted = [b"\0", name.as_bytes(), b"\0"].concat();
    let places: Vec<usize> = (0..types.len() - wanted.len())
        .filter(|&at| types[at..].starts_with(&wanted))
        .collect();
    assert!(!places.is_empty(), "this kernel has no {name}");
    for at in places {
        types[at + 1..][..name.len()].fill(b'_');
    }
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(&types).unwrap();
    file
}

/// `mptcp_subflow_context.closing` was added in Linux 6.19 and backported to some 6.18.
#[test]
fn the_programs_load_without_the_field_closing() {
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
