//! Addresses of the kernel's code, as a set: where an interrupt came, or could have come.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::arch;

/// Bytes of code that may be in a set.
const CODE_MAX: usize = 1 << 20;

/// A set of addresses: a bit a byte of code.
pub struct AddressSet([AtomicU32; CODE_MAX / 32]);

impl AddressSet {
    /// None.
    pub const fn new() -> AddressSet {
        AddressSet([const { AtomicU32::new(0) }; CODE_MAX / 32])
    }

    /// Adds an address; what is no code of the kernel is left out.
    pub fn insert(&self, address: usize) {
        let place = address.wrapping_sub(arch::text().start);
        if let Some(word) = self.0.get(place / 32) {
            word.fetch_or(1 << (place % 32), Relaxed);
        }
    }

    /// None any more.
    pub fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// Adds those of another set.
    pub fn add(&self, others: &AddressSet) {
        self.0.iter().zip(others.words()).for_each(|(word, others)| _ = word.fetch_or(others, Relaxed));
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.words().map(u32::count_ones).sum()
    }

    /// How many of these are in another set, too.
    pub fn count_in(&self, others: &AddressSet) -> u32 {
        self.words().zip(others.words()).map(|(these, others)| (these & others).count_ones()).sum()
    }

    fn words(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|word| word.load(Relaxed))
    }
}
