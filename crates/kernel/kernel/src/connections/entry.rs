//! Output of the program `bpf/connections.bpf.c` about a socket.

/// `struct entry` of `bpf/connections.bpf.c`.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub cookie: u64,
    pub state: State,
    pub algorithm: [u8; 16],
    pub local: [u8; 16],
    pub remote: [u8; 16],
    pub token: u32,
    pub window: u32,
    pub ssthresh: u32,
    pub srtt_us: u32,
    pub mss: u32,
    pub packets_sent: u32,
    pub packets_lost: u32,
    pub rate_packets: u32,
    pub rate_interval_us: u32,
    pub rate_age_us: u32,
    pub registration: u32,
    pub family: u16,
    pub local_port: u16,
    pub remote_port: u16,
    pub backup: u16,
}

/// Fields that are read of `struct subflow` of `bpf/subflow.h`.
#[derive(Clone, Copy)]
pub(super) struct State {
    pub magic: u32,
    pub fraction: u32,
    pub base_rtt_us: u32,
    pub memory: u64,
    pub increase: i64,
}

impl Entry {
    /// Size of the structure: 212 bytes of fields, and 4 that align the next one.
    pub const SIZE: usize = 216;

    /// Reads a chunk of [`SIZE`](Entry::SIZE) bytes, field by field.
    pub fn read(mut chunk: &[u8]) -> Entry {
        let from = &mut chunk;
        Entry {
            cookie: u64::from_ne_bytes(next(from)),
            state: State::read(from),
            algorithm: next(from),
            local: next(from),
            remote: next(from),
            token: word(from),
            window: word(from),
            ssthresh: word(from),
            srtt_us: word(from),
            mss: word(from),
            packets_sent: word(from),
            packets_lost: word(from),
            rate_packets: word(from),
            rate_interval_us: word(from),
            rate_age_us: word(from),
            registration: word(from),
            family: short(from),
            local_port: short(from),
            remote_port: short(from),
            backup: short(from),
        }
    }
}

impl State {
    fn read(from: &mut &[u8]) -> State {
        let [magic, fraction, base_rtt_us] = [(); 3].map(|()| word(from));
        // Since and between losses, the round, its sum and RTT, the loss interval.
        let _: [u8; 2 * 4 + 3 * 4 + 3 * 8] = next(from);
        let memory = u64::from_ne_bytes(next(from));
        // The rest of the memory, and the prior.
        let _: [u8; 2 * 8 + 2 * 8] = next(from);
        State {
            magic,
            fraction,
            base_rtt_us,
            memory,
            increase: i64::from_ne_bytes(next(from)),
        }
    }
}

/// Takes the next bytes.
fn next<const N: usize>(from: &mut &[u8]) -> [u8; N] {
    let (first, rest) = from.split_first_chunk().expect("a chunk is an entry");
    *from = rest;
    *first
}

fn word(from: &mut &[u8]) -> u32 {
    u32::from_ne_bytes(next(from))
}

fn short(from: &mut &[u8]) -> u16 {
    u16::from_ne_bytes(next(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offsets of C's rules of alignment: 8 bytes, then 5 + 3 words and 9 longs of the state,
    /// three arrays, 11 words, 4 shorts.
    #[test]
    fn an_entry_is_read_at_the_offsets_of_its_structure() {
        let chunk: Vec<u8> = (0..Entry::SIZE).map(|i| i as u8).collect();
        let entry = Entry::read(&chunk);
        let first = |bytes: &[u8]| bytes[0];
        assert_eq!(first(&entry.cookie.to_ne_bytes()), 0);
        assert_eq!(first(&entry.state.magic.to_ne_bytes()), 8);
        assert_eq!(first(&entry.state.base_rtt_us.to_ne_bytes()), 16);
        assert_eq!(first(&entry.state.memory.to_ne_bytes()), 64);
        assert_eq!(first(&entry.state.increase.to_ne_bytes()), 104);
        assert_eq!(entry.algorithm[0], 112);
        assert_eq!(entry.remote[15], 159);
        assert_eq!(first(&entry.token.to_ne_bytes()), 160);
        assert_eq!(first(&entry.registration.to_ne_bytes()), 200);
        assert_eq!(first(&entry.family.to_ne_bytes()), 204);
        assert_eq!(first(&entry.backup.to_ne_bytes()), 210);
        assert_eq!(entry.backup.to_ne_bytes(), [210, 211]);
    }
}
