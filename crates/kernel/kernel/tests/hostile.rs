//! Actions of other users of the host that root must withstand.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::{self, Command};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use crate::common::network::new_namespace;
use crate::common::program::{own_bpf_fs, run};
use crate::common::{can_load, lock_names};
use anabranch_kernel::set_default;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::io::dup2;

/// Another user owns the process whose descriptor is named, and exchanges it meanwhile.
#[test]
fn nothing_but_a_network_namespace_is_opened_where_a_descriptor_is_exchanged() {
    if !can_load() {
        return;
    }
    let namespace = new_namespace(|| File::open("/proc/thread-self/ns/net").unwrap());
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let decoy = open(&fifo, OFlags::PATH, Mode::empty()).unwrap();
    let mut exchanged = rustix::io::dup(&namespace).unwrap();
    let number = exchanged.as_raw_fd();
    let path = PathBuf::from(format!("/proc/{}/fd/{number}", process::id()));
    let done = AtomicBool::new(false);
    let opened = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                dup2(&decoy, &mut exchanged).unwrap();
                dup2(&namespace, &mut exchanged).unwrap();
            }
        });
        let opened = scope.spawn(|| {
            // A FIFO can be opened to write without waiting while another has it open to read.
            let write = OFlags::WRONLY | OFlags::NONBLOCK;
            let attempts = std::iter::from_fn(|| {
                (!done.load(Relaxed)).then(|| open(&fifo, write, Mode::empty()).is_ok())
            });
            attempts.filter(|is_open| *is_open).count()
        });
        let set = (0..1000).filter(|_| set_default("reno", Some(&path)).is_ok());
        assert_ne!(set.count(), 0, "it never was the namespace");
        done.store(true, Relaxed);
        opened.join().unwrap()
    });
    assert_eq!(opened, 0, "the FIFO was opened");
}

/// The owner of the directory could rename pins, which `unload` would then not find.
#[test]
fn nothing_is_pinned_where_another_user_may_write() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let _pins = own_bpf_fs();
    let directory = "/sys/fs/bpf/anabranch";
    fs::create_dir(directory).unwrap();
    chown(directory, Some(65534), None).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch-kernel"));
    let refused = command.args(["load", "lia", "--pin"]).output().unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("rm -r /sys/fs/bpf/anabranch"), "{said}");
    fs::remove_dir(directory).unwrap();
    run(&["load", "lia", "--pin"]);
}
