//! Seeds of the random elements of a run.

/// Kinds of random elements, each with its own seeds.
pub mod kind {
    /// Links.
    pub const LINKS: u64 = 0;
    /// Users.
    pub const USERS: u64 = 1;
    /// Waiting times of gateways that adjust their weight.
    pub const ADJUSTERS: u64 = 2;
    /// Delays of packets in the hosts of users.
    pub const HOSTS: u64 = 3;
    /// Random numbers of QUIC connections.
    pub const QUIC: u64 = 4;
}

/// The seed of a random element of a run (SplitMix64's finaliser).
pub fn element_seed(seed: u64, kind: u64, index: usize) -> u64 {
    let mut z = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(kind << 32)
        .wrapping_add(index as u64 + 1)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_a_seed_of_its_own() {
        let seeds: std::collections::BTreeSet<u64> = (0..3)
            .flat_map(|seed| (0..2).flat_map(move |kind| (0..50).map(move |i| (seed, kind, i))))
            .map(|(seed, kind, index)| element_seed(seed, kind, index))
            .collect();
        assert_eq!(seeds.len(), 300);
    }
}
