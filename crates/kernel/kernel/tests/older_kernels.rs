//! Kernels differ in the fields of their types: the programs load without those added later.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;

use crate::common::can_load;
use anabranch_kernel::PROGRAMS;
use libbpf_rs::ObjectBuilder;
use libbpf_rs::libbpf_sys::bpf_insn;
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

/// Codes of instructions (RFC 9669), and the register that points to the end of the frame.
const CALL: u8 = 0x85;
const MOVE: u8 = 0xbf;
const ADD: u8 = 0x07;
const FRAME: u8 = 10;
const PSEUDO_CALL: u8 = 1;

/// Most bytes of stack of the function that begins at this instruction, and of those that it calls.
fn stack(instructions: &[bpf_insn], starts: &BTreeSet<usize>, start: usize) -> usize {
    let end = starts.range(start + 1..).next().copied();
    let body = start..end.unwrap_or(instructions.len());
    let (mut own, mut deepest) = (1, 0);
    for at in body {
        let one = &instructions[at];
        // The base is the source of a load and the destination of a store.
        let base = match one.code & 7 {
            1 => one.src_reg(),
            2 | 3 => one.dst_reg(),
            _ => 0,
        };
        if base == FRAME {
            own = own.max(usize::from(one.off.unsigned_abs()));
        }
        if one.code == MOVE && one.src_reg() == FRAME && instructions[at + 1].code == ADD {
            own = own.max(instructions[at + 1].imm.unsigned_abs() as usize);
        }
        if let Some(called) = callee(instructions, at) {
            deepest = deepest.max(stack(instructions, starts, called));
        }
    }
    own.next_multiple_of(32) + deepest
}

fn callee(instructions: &[bpf_insn], at: usize) -> Option<usize> {
    let one = &instructions[at];
    (one.code == CALL && one.src_reg() == PSEUDO_CALL)
        .then(|| (at as isize + 1 + one.imm as isize) as usize)
}

/// Linux 6.8 rounds each frame up to 32 bytes, 6.12 to 16; the stack has 512.
#[test]
fn the_frames_fit_the_stack_as_linux_6_8_counts_it() {
    if !can_load() {
        return;
    }
    for program in PROGRAMS {
        let object = ObjectBuilder::default().open_memory(program.object);
        let object = object.unwrap().load().unwrap();
        for part in object.progs() {
            let instructions = part.insns();
            let called = (0..instructions.len()).filter_map(|at| callee(instructions, at));
            let starts = called.collect();
            let bytes = stack(instructions, &starts, 0);
            assert!(
                bytes <= 512,
                "{} {:?}: {bytes} bytes",
                program.name,
                part.name()
            );
        }
    }
}
