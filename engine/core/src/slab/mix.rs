//! Generator of numbers that are hard to guess: secrets of caches, the object order of new slabs, and check words.

/// Computes one round of splitmix64, a generator whose output does not reveal its input at a glance.
pub(super) fn mix(seed: u64) -> u64 {
    let mut value = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are those of the generator's authors for the seed 1234567. Each output advances the seed.
    #[test]
    fn mix_matches_the_reference_generator() {
        let outputs = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        for (at, output) in (0..).zip(outputs) {
            assert_eq!(mix(1_234_567_u64.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(at))), output);
        }
    }
}
