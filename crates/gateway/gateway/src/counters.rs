//! Counters of a gateway, in one table from which metrics and status are made.

use std::sync::atomic::{AtomicU64, Ordering};

/// Kind of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// The value only grows.
    Counter,
    /// The value also falls.
    Gauge,
}

/// A counter's row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name of the metric, without prefix; several rows may share it and differ in `label`.
    pub name: &'static str,
    /// A label of the metric with its value.
    pub label: Option<(&'static str, &'static str)>,
    /// Kind of the metric.
    pub kind: CounterKind,
    /// Meaning of the value, one line.
    pub help: &'static str,
    /// Present value.
    pub value: u64,
}

/// A number that changes without locks.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Adds one until the returned value is dropped.
    pub fn hold(&self) -> Held<'_> {
        self.increment();
        Held(self)
    }

    /// Present value.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Count of [`Counter::hold`], until it is dropped.
#[derive(Debug)]
pub struct Held<'a>(&'a Counter);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

macro_rules! counters {
    ($($kind:ident $metric:literal, $help:literal: {
        $($field:ident $(= $label:literal $value:literal)?),+ $(,)?
    })+) => {
        /// Counters of a gateway.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[doc = concat!($help, $(" (", $label, " ", $value, ")",)? ".")] pub $field: Counter,)+)+
        }

        impl Counters {
            /// All counters, sorted by metric.
            pub fn table(&self) -> Vec<Row> {
                vec![$($(Row {
                    name: $metric,
                    label: counters!(@label $($label $value)?),
                    kind: CounterKind::$kind,
                    help: $help,
                    value: self.$field.value(),
                },)+)+]
            }
        }
    };
    (@label) => { None };
    (@label $label:literal $value:literal) => { Some(($label, $value)) };
}

counters! {
    Counter "connections_accepted", "Connections accepted, on far streams": {
        accepted_socks = "listener" "socks",
        accepted_forward = "listener" "forward",
        accepted_redirect = "listener" "redirect",
        accepted_dns = "listener" "dns",
        accepted_stream = "listener" "tunnel",
    }
    Counter "connections_relayed", "Connections for which the destination was reached": {
        relayed_tunnel = "via" "tunnel",
        relayed_path = "via" "path",
        relayed_direct = "via" "direct",
        relayed_far = "via" "far",
    }
    Counter "refused", "Requests and connections refused": {
        refused_client = "reason" "client",
        refused_limit = "reason" "limit",
        refused_malformed = "reason" "malformed",
        refused_command = "reason" "command",
        refused_timeout = "reason" "timeout",
        refused_left = "reason" "client_left",
        refused_rule = "reason" "rule",
        refused_loop = "reason" "loop",
        refused_destination = "reason" "destination",
        refused_no_tunnel = "reason" "no_tunnel",
        refused_unresolved = "reason" "unresolved",
        refused_unreachable = "reason" "unreachable",
        refused_by_far = "reason" "far",
    }
    Counter "connections_ended", "Relayed connections that ended": {
        ended_complete = "how" "complete",
        ended_reset = "how" "reset",
        ended_stalled = "how" "stalled",
        ended_idle = "how" "idle",
    }
    Gauge "connections_active", "Connections at present": {
        active_connections,
    }
    Gauge "associations_active", "UDP associations at present": {
        active_associations,
    }
    Gauge "tunnels_active", "Established tunnels at present": {
        active_tunnels,
    }
    Counter "bytes", "Payload of TCP connections": {
        bytes_up = "direction" "up",
        bytes_down = "direction" "down",
    }
    Counter "datagrams", "UDP datagrams carried": {
        datagrams_up = "direction" "up",
        datagrams_down = "direction" "down",
    }
    Counter "datagram_bytes", "Payload of UDP datagrams": {
        datagram_bytes_up = "direction" "up",
        datagram_bytes_down = "direction" "down",
    }
    Counter "datagrams_in_streams", "UDP datagrams above the tunnel's MTU, carried in a stream": {
        datagrams_in_streams,
    }
    Counter "datagrams_dropped", "UDP datagrams discarded": {
        dropped_malformed = "reason" "malformed",
        dropped_client = "reason" "client",
        dropped_destination = "reason" "destination",
        dropped_unknown = "reason" "no_association",
        dropped_full = "reason" "queue_full",
        dropped_unsendable = "reason" "unsendable",
    }
    Counter "dns_queries", "DNS queries": {
        dns_answered = "result" "answered",
        dns_truncated = "result" "truncated",
        dns_failed = "result" "failed",
    }
    Counter "tunnels", "Tunnels, by what became of them": {
        tunnels_established = "event" "established",
        tunnels_closed = "event" "closed",
        tunnels_failed = "event" "failed",
        tunnels_refused = "event" "refused",
    }
    Counter "handshakes_failed", "Handshakes with far that failed, such as those with other keys": {
        handshakes_failed,
    }
    Counter "accept_errors", "Errors of accept(), such as no free file descriptor": {
        accept_errors,
    }
}
