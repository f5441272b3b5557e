//! All keys, with a valid and a wrong value.

/// A table's header in the file, and its keys, each with a valid value, a wrong one, and the error
/// of the latter.
pub type Table = (&'static str, Vec<[&'static str; 4]>);

/// Tables of near's file.
pub fn near() -> Vec<Table> {
    tables(&[NEAR, TUNNEL_OF_NEAR, TUNNEL, ITCP, LOCAL, LIMITS, OPERATION])
}

/// Tables of far's file, with a table for each peer.
pub fn far() -> Vec<Table> {
    tables(&[FAR, "= [tunnel]", TUNNEL, ITCP, PEERS, LIMITS, OPERATION])
}

fn tables(texts: &[&'static str]) -> Vec<Table> {
    let mut tables: Vec<Table> = vec![("", Vec::new())];
    for line in texts.iter().flat_map(|text| text.lines()) {
        match line.strip_prefix("= ") {
            Some(header) => tables.push((header, Vec::new())),
            None => {
                let cells: Vec<_> = line.split('|').map(str::trim).collect();
                let row = cells.try_into().expect(line);
                tables.last_mut().expect("one").1.push(row);
            }
        }
    }
    tables
}

const NEAR: &str = "\
far | '127.0.0.1:7440' | '127.0.0.1' | expected a host and a port
";

const FAR: &str = "\
listen | '127.0.0.1:7440' | 7440 | expected
allow | ['*', '10.0.0.0/8:22', { to = 'a.org', private = true }] | ['10.0.0.1/8'] | no bits set beyond the prefix
resolver | '9.9.9.9:53' | '9.9.9.9:0' | expected a port from 1 to 65535
";

const TUNNEL_OF_NEAR: &str = "\
= [tunnel]
peers | ['PEER'] | ['abc'] | keygen prints one
";

const TUNNEL: &str = "\
carrier | 'quic' | 'quick' | (did you mean quic?)
algorithm | 'vegas:kappa=3' | 'vega' | (did you mean vegas?)
key | 'own.key' | 'none.key' | anabranch-gateway keygen
";

const PEERS: &str = "\
= [[tunnel.peers]]
key | 'PEER' | 'abc' | keygen prints one
name | 'branch' | 'a b' | expected 1 to 32 letters, digits
allow | ['10.1.0.0/16'] | ['*.*'] | expected a host
";

const ITCP: &str = "\
= [tunnel.itcp]
samples | 180 | 1 | expected 2 to 1000000 samples
period_s | 0.5 | 0.0005 | expected a number from 0.001
max_kappa | 10 | 0.5 | expected 1 to 1000000 packets
max_queue_packets | 200000 | 0 | expected a number above 0
epsilon | 0.1 | -0.1 | expected a number of at least 0
gamma | 0.2 | 1.2 | expected a probability from 0 to 1
low_threshold | 0.2 | -1 | expected a number of at least 0
high_threshold | 1.0 | -1 | expected a number of at least 0
guard | false | 0 | expected
back_pressure | false | 0 | expected
";

/// Paths, services and rules.
const LOCAL: &str = "\
= [[paths]]
name | 'fibre' | 'a b' | expected 1 to 32 letters, digits
address | '127.0.0.1' | '0.0.0.0' | expected an address of this host
interface | 'lo' | 'a/b' | expected the name of an interface
role | 'backup' | 'backups' | (did you mean backup?)
weight | 0.5 | 1.5 | expected a number above 0, at most 1, got 1.5
rate_mbps | 10 | 0 | expected a number from 0.01 to 1000000, got 0
cap_bytes | 1000000000 | 0 | role = \"never\" turns a path off
= [socks]
listen | '127.0.0.1:1080' | '127.0.0.1' | invalid socket address
clients | ['192.168.1.0/24'] | ['192.168.1.0/33'] | invalid IP address
= [[forwards]]
listen | '127.0.0.1:8022' | '127.0.0.1:0' | expected a port from 1 to 65535
to | 'example.org:22' | 'example.org:' | such as example.org:443
clients | ['192.168.1.0/24'] | ['192.168.1.0/33'] | invalid IP address
udp | false | 1 | expected
= [redirect]
listen | '127.0.0.1:1081' | 1081 | expected
clients | ['192.168.1.0/24'] | ['192.168.1.0/33'] | invalid IP address
= [dns]
listen | '127.0.0.1:5353' | 'localhost:53' | invalid socket address
clients | ['192.168.1.0/24'] | ['192.168.1.0/33'] | invalid IP address
= [[rules]]
to | '*.example.org:443' | '*.*' | expected a host
via | 'path:fibre' | 'path:fiber' | (did you mean fibre?)
";

const LIMITS: &str = "\
= [limits]
connections | 100 | 0 | expected a number from 1
connections_per_client | 100 | -1 | expected a whole number
tunnels_per_client | 16 | 0 | expected a number from 1
buffer_bytes | 262144 | 1 | expected a number from 4096
tunnel_buffer_bytes | 67108864 | 1 | expected a number from 65536
client_mbps | 10 | 0 | expected a number from 0.01
handshake_s | 10 | 0 | expected a number from 0.1
idle_s | 86400 | 0 | expected a number from 1
half_closed_s | 3600 | 0 | expected a number from 1
";

const OPERATION: &str = "\
= [operation]
status | '127.0.0.1:9480' | '9480' | invalid socket address
drain_s | 30 | -1 | expected a number from 0
";
