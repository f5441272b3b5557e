//! The tables of a Result: every backend fills the same columns.
//!
//! Flows and links are indexes into [`Scenario::flows`](crate::Scenario::flows) and
//! [`Scenario::links`](crate::Scenario::links); users count from 0 within their flow. All totals
//! are over the measurement window, from `warmup_s` to `duration_s`. Goodput counts payload
//! delivered in order to the application, at most what arrived in the window, so that no window's
//! is above what its links carry; throughput counts every byte of every packet. A sample counts
//! what was delivered in order since the one before, also where a hole is closed and much is
//! delivered at once. A value that was never measured, such as the RTT of a path without an ACK, is
//! NaN.

use serde::Serialize;

/// One column of a table; as JSON `{"f64": [...]}`, with null for a value that was never measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Column {
    /// Indexes.
    U32(Vec<u32>),
    /// Counts.
    U64(Vec<u64>),
    /// Measurements.
    F64(Vec<f64>),
}

impl From<Vec<u32>> for Column {
    fn from(values: Vec<u32>) -> Self {
        Column::U32(values)
    }
}

impl From<Vec<u64>> for Column {
    fn from(values: Vec<u64>) -> Self {
        Column::U64(values)
    }
}

impl From<Vec<f64>> for Column {
    fn from(values: Vec<f64>) -> Self {
        Column::F64(values)
    }
}

/// The name, type and meaning of a column.
pub type Description = (&'static str, &'static str, &'static str);

/// From one declaration: the table (a vector per column), its row, and what its columns mean.
macro_rules! table {
    ($(#[$doc:meta])* $table:ident of $row:ident { $($column:ident: $type:ty, $meaning:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $table {
            $(#[doc = $meaning] pub $column: Vec<$type>,)+
        }

        #[doc = concat!("One row of [`", stringify!($table), "`].")]
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $row {
            $(#[doc = $meaning] pub $column: $type,)+
        }

        impl $table {
            /// Appends a row.
            pub fn push(&mut self, row: $row) {
                $(self.$column.push(row.$column);)+
            }

            /// The number of rows.
            pub fn len(&self) -> usize {
                [$(self.$column.len()),+][0]
            }

            /// Whether there is no row.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// The rows from this one on.
            pub fn since(&self, first: usize) -> $table {
                $table { $($column: self.$column[first..].to_vec(),)+ }
            }

            /// The columns by name, in the order of the declaration.
            pub fn columns(self) -> Vec<(&'static str, Column)> {
                vec![$((stringify!($column), self.$column.into())),+]
            }

            /// Each column's name, type (`u32`, `u64` or `f64`) and meaning.
            pub fn describe() -> &'static [Description] {
                &[$((stringify!($column), stringify!($type), $meaning)),+]
            }
        }
    };
}

table! {
    /// Totals per user.
    Flows of FlowRow {
        flow: u32, "index of the flow";
        user: u32, "number of the user within the flow";
        start_s: f64, "when the user started, s";
        stop_s: f64, "when the user stopped or finished, at most the end of the run, s";
        goodput_mbps: f64, "delivered_bytes over the measurement window, Mbps";
        delivered_bytes: u64, "payload delivered in order to the application, at most what arrived within the window, bytes";
        sent_packets: u64, "data packets sent, retransmissions included";
        lost_packets: u64, "data packets that a link dropped";
        marked_packets: u64, "data packets that arrived marked by a link (ECN)";
        retransmitted_packets: u64, "data packets sent again, on the same or another path";
        timeouts: u64, "retransmission timeouts";
        spurious_timeouts: u64, "timeouts undone because nothing was lost; 0 on kernel, which does not report them";
        transfers_done: u64, "files whose last byte was delivered";
    }
}

table! {
    /// Totals per user and path.
    Paths of PathRow {
        flow: u32, "index of the flow";
        user: u32, "number of the user within the flow";
        path: u32, "index of the path within the flow";
        goodput_mbps: f64, "delivered_bytes over the measurement window, Mbps";
        delivered_bytes: u64, "payload that first arrived over this path, bytes";
        sent_packets: u64, "data packets sent, retransmissions included";
        lost_overflow: u64, "packets dropped by a full queue or a policer";
        lost_red: u64, "packets dropped early by RED";
        lost_random: u64, "packets lost at random";
        lost_down: u64, "packets lost to a link that was down";
        lost_aqm: u64, "packets dropped by CoDel, FQ-CoDel, PIE or DualPI2 to hold a queue's delay";
        loss_probability: f64, "lost packets of every cause over sent packets";
        loss_events: u64, "reductions of the window after losses, at most one per round trip";
        marked_packets: u64, "data packets that arrived marked by a link (ECN)";
        mark_events: u64, "reductions of the window after marks, at most one per round trip; on kernel of classic ECN";
        retransmitted_packets: u64, "data packets sent again over this path";
        timeouts: u64, "retransmission timeouts";
        spurious_timeouts: u64, "timeouts undone because nothing was lost; 0 on kernel, which does not report them";
        window_packets: f64, "congestion window, mean of the valid samples, packets";
        rtt_ms: f64, "round-trip time, mean over the ACKs, ms";
        one_way_delay_ms: f64, "delay of data packets, mean over those delivered, ms";
    }
}

table! {
    /// Totals per link.
    Links of LinkRow {
        link: u32, "index of the link";
        rate_mbps: f64, "the link's rate, or the mean rate of its trace, Mbps";
        throughput_mbps: f64, "bits of delivered packets transmitted over the measurement window, Mbps";
        utilization: f64, "throughput_mbps over the link's mean rate within the measurement window";
        arrived_packets: u64, "packets offered to the link";
        dropped_overflow: u64, "packets dropped by a full queue or a policer";
        dropped_red: u64, "packets dropped early by RED";
        dropped_random: u64, "packets lost at random";
        dropped_down: u64, "packets lost because the link was down";
        dropped_aqm: u64, "packets dropped by CoDel, FQ-CoDel, PIE or DualPI2 to hold the queue's delay";
        marked_packets: u64, "packets marked instead of dropped (ECN)";
        loss_probability: f64, "dropped packets of every cause over arrived packets";
        queue_packets: f64, "packets that wait, mean of the samples";
        queue_ms: f64, "time in the queue, mean over the packets not dropped, ms";
    }
}

table! {
    /// Files whose last byte was delivered.
    Transfers of TransferRow {
        flow: u32, "index of the flow";
        user: u32, "number of the user within the flow";
        start_s: f64, "when the file arrived at the sender, s";
        bytes: u64, "its size, bytes of payload";
        duration_s: f64, "from its arrival at the sender to its last byte at the receiver, s";
    }
}

table! {
    /// Users that send media: their frames and packets that were sent in the measurement window.
    Media of MediaRow {
        flow: u32, "index of the flow";
        user: u32, "number of the user within the flow";
        rate_mbps: f64, "rate of the source, mean over its frames, headers excluded, Mbps";
        packets: u64, "packets sent";
        lost_packets: u64, "packets that a link dropped";
        delay_median_ms: f64, "delay of a packet from sender to receiver, the median, ms";
        delay_p99_ms: f64, "the 99th percentile, ms";
        frames: u64, "frames sent that were due by the end of the run";
        late_frames: u64, "frames whose last byte arrived after late_ms";
        lost_frames: u64, "frames of which a packet was lost";
        freezes: u64, "frames late or lost";
    }
}

table! {
    /// Users over time.
    FlowSamples of FlowSample {
        time_s: f64, "end of the sample, s";
        flow: u32, "index of the flow";
        user: u32, "number of the user within the flow";
        delivered_bytes: u64, "payload delivered in order since the start, bytes";
        goodput_mbps: f64, "payload delivered within the sample, Mbps";
        kappa: f64, "weight of weighted Vegas, packets; 0 unless the user has one connection that runs it";
        buffer_packets: u64, "data in a gateway that was never sent, packets; 0 without a gateway";
    }
}

table! {
    /// Paths over time.
    PathSamples of PathSample {
        time_s: f64, "end of the sample, s";
        flow: u32, "index of the flow";
        user: u32, "number of the user within the flow";
        path: u32, "index of the path within the flow";
        window_packets: f64, "congestion window, packets; NaN for a discarded sample";
        rtt_ms: f64, "smoothed round-trip time, ms";
        one_way_delay_ms: f64, "delay of data packets, mean over those delivered within the sample, ms";
        in_flight_packets: u64, "packets sent and neither acknowledged nor declared lost";
        goodput_mbps: f64, "payload that first arrived over this path within the sample, Mbps";
        lost_packets: u64, "packets that a link dropped within the sample";
        group: u32, "lowest path with which the newest connection couples this one; 0 on other backends";
    }
}

table! {
    /// Links over time.
    LinkSamples of LinkSample {
        time_s: f64, "end of the sample, s";
        link: u32, "index of the link";
        queue_packets: u64, "packets that wait";
        queue_bytes: u64, "bytes that wait";
        throughput_mbps: f64, "bits of delivered packets transmitted within the sample, Mbps";
        dropped_packets: u64, "packets dropped within the sample, of every cause";
    }
}

/// Everything one run measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Totals per user.
    pub flows: Flows,
    /// Totals per user and path.
    pub paths: Paths,
    /// Totals per link.
    pub links: Links,
    /// Finished files.
    pub transfers: Transfers,
    /// Users over time.
    pub flow_samples: FlowSamples,
    /// Paths over time.
    pub path_samples: PathSamples,
    /// Links over time.
    pub link_samples: LinkSamples,
    /// Users that send media.
    pub media: Media,
}

impl Record {
    /// The samples that follow the given number of rows of `flow_samples`, `path_samples` and
    /// `link_samples`, without totals.
    pub fn samples_since(&self, [flows, paths, links]: [usize; 3]) -> Record {
        Record {
            flow_samples: self.flow_samples.since(flows),
            path_samples: self.path_samples.since(paths),
            link_samples: self.link_samples.since(links),
            ..Record::default()
        }
    }

    /// The number of rows of `flow_samples`, `path_samples` and `link_samples`.
    pub fn sample_rows(&self) -> [usize; 3] {
        [
            self.flow_samples.len(),
            self.path_samples.len(),
            self.link_samples.len(),
        ]
    }

    /// The columns of the tables, by the name of the table.
    pub fn describe() -> [(&'static str, &'static [Description]); 8] {
        [
            ("flows", Flows::describe()),
            ("paths", Paths::describe()),
            ("links", Links::describe()),
            ("transfers", Transfers::describe()),
            ("flow_samples", FlowSamples::describe()),
            ("path_samples", PathSamples::describe()),
            ("link_samples", LinkSamples::describe()),
            ("media", Media::describe()),
        ]
    }

    /// The tables by name; that of media if a flow sends any.
    pub fn tables(self) -> Vec<(&'static str, Vec<(&'static str, Column)>)> {
        let media = (!self.media.is_empty()).then(|| ("media", self.media.columns()));
        let always = [
            ("flows", self.flows.columns()),
            ("paths", self.paths.columns()),
            ("links", self.links.columns()),
            ("transfers", self.transfers.columns()),
            ("flow_samples", self.flow_samples.columns()),
            ("path_samples", self.path_samples.columns()),
            ("link_samples", self.link_samples.columns()),
        ];
        always.into_iter().chain(media).collect()
    }
}
