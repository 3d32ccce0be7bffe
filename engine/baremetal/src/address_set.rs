//! Sets of addresses in the kernel's code, such as those at which interrupts came.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::arch;

/// Maximum size of the code in bytes.
const CODE_MAX: usize = 1 << 20;

/// A set of addresses: one bit per byte of code.
pub struct AddressSet([AtomicU32; CODE_MAX / 32]);

impl AddressSet {
    /// Creates an empty set.
    pub const fn new() -> AddressSet {
        AddressSet([const { AtomicU32::new(0) }; CODE_MAX / 32])
    }

    /// Adds an address; addresses outside the kernel's code are ignored.
    pub fn insert(&self, address: usize) {
        let place = address.wrapping_sub(arch::text().start);
        if let Some(word) = self.0.get(place / 32) {
            word.fetch_or(1 << (place % 32), Relaxed);
        }
    }

    /// Removes all addresses.
    pub fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// Adds all addresses of another set.
    pub fn add(&self, others: &AddressSet) {
        self.0.iter().zip(others.words()).for_each(|(word, others)| _ = word.fetch_or(others, Relaxed));
    }

    /// Returns the number of addresses.
    pub fn count(&self) -> u32 {
        self.words().map(u32::count_ones).sum()
    }

    /// Returns the number of addresses that are also in another set.
    pub fn count_in(&self, others: &AddressSet) -> u32 {
        self.words().zip(others.words()).map(|(these, others)| (these & others).count_ones()).sum()
    }

    fn words(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|word| word.load(Relaxed))
    }
}
