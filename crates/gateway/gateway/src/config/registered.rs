//! Congestion controls of the running kernel.

/// Whether the running kernel has registered this congestion control, as far as can be known.
pub(super) fn kernel_has(name: &str) -> bool {
    let available = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    std::fs::read_to_string(available).map_or(true, |names| {
        names.split_whitespace().any(|other| other == name)
    })
}
