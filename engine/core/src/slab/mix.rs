//! Numbers that are hard to guess: a cache's secret, the order of a new slab's objects, the words that prove others.

/// One round of a generator whose outputs do not show its input at a glance (splitmix64).
pub(super) fn mix(seed: u64) -> u64 {
    let mut value = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures are those of the generator's authors, for a seed of 1234567: each output moves the seed on.
    #[test]
    fn mixing_is_that_of_the_generator() {
        let outputs = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        for (at, output) in (0..).zip(outputs) {
            assert_eq!(mix(1_234_567_u64.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(at))), output);
        }
    }
}
