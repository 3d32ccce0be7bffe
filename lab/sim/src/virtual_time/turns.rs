//! Order of turns: the keys of all suspended CPUs that do not wait for a lock, in a binary heap.
//!
//! A key is the time at which a CPU continues and its number in one word, so no two keys are equal, and the smallest
//! key belongs to the next CPU. A CPU that lets another one run first replaces that key in one walk down the heap
//! ([`Turns::exchange`]), which takes a step for each doubling of the number of CPUs. The keys in use take eight bytes
//! per CPU and are contiguous.
//!
//! A CPU that sleeps until some time may be woken earlier. Only then is its key searched for, which takes a step per
//! CPU.

use std::cell::Cell;

/// Bits of a key that hold the CPU's number.
const CPU_BITS: u32 = 10;
/// Maximum number of keys: CPUs and background tasks.
pub(super) const SLOTS: usize = 1 << CPU_BITS;
/// Latest time that a key can hold.
pub(super) const TIME_MAX: u64 = (1 << (64 - CPU_BITS)) - 1;

/// Time at which a CPU continues, and its number; ordered by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(u64);

impl Key {
    /// The largest key, which belongs to no CPU.
    pub const NEVER: Key = Key(u64::MAX);

    /// Creates the key of a CPU at this time.
    #[inline]
    pub fn new(time: u64, cpu: u16) -> Key {
        debug_assert!(time <= TIME_MAX && usize::from(cpu) < SLOTS);
        Key(time << CPU_BITS | u64::from(cpu))
    }

    /// Returns the time.
    #[inline]
    pub fn time(self) -> u64 {
        self.0 >> CPU_BITS
    }

    /// Returns the number of the CPU.
    #[inline]
    pub fn cpu(self) -> u16 {
        (self.0 & (SLOTS as u64 - 1)) as u16
    }
}

/// Number of places in the heap, counted from 1. The children of every place in use are places too, so no bounds check
/// is needed, and a mask limits the index.
const PLACES: usize = 2 * SLOTS;

/// The keys. The children of place n are 2n and 2n + 1, and their keys are larger. An empty place has [`Key::NEVER`].
pub(super) struct Turns {
    keys: [Cell<Key>; PLACES],
    len: Cell<usize>,
}

impl Turns {
    /// Creates an empty heap.
    pub(super) const fn new() -> Turns {
        Turns { keys: [const { Cell::new(Key::NEVER) }; PLACES], len: Cell::new(0) }
    }

    /// Removes all keys.
    pub(super) fn clear(&self) {
        self.keys.iter().for_each(|key| key.set(Key::NEVER));
        self.len.set(0);
    }

    /// Returns the smallest key.
    #[inline]
    pub(super) fn first(&self) -> Key {
        self.keys[1].get()
    }

    /// Adds the key of a CPU that has none.
    ///
    /// # Panics
    /// Panics if all possible CPUs have a key.
    pub(super) fn enter(&self, key: Key) {
        let place = self.len.get() + 1;
        assert!(place < SLOTS, "all {SLOTS} slots are in use: some CPU has two keys");
        self.len.set(place);
        self.rise(place, key);
    }

    /// Takes the smallest key; [`Key::NEVER`] if there is none.
    pub(super) fn take(&self) -> Key {
        let first = self.first();
        let last = self.len.get();
        if last > 0 {
            self.len.set(last - 1);
            let key = self.key(last).replace(Key::NEVER);
            if last > 1 {
                self.sink(1, key);
            }
        }
        first
    }

    /// Adds this key and takes the smallest key, which may be this one.
    #[inline]
    pub(super) fn exchange(&self, key: Key) -> Key {
        let first = self.first();
        if key < first {
            return key;
        }
        self.sink(1, key);
        first
    }

    /// Replaces the key of the same CPU, or adds the key if there is none. Takes a step per CPU.
    pub(super) fn change(&self, key: Key) {
        let taken = &self.keys[1..=self.len.get()];
        match taken.iter().position(|other| other.get().cpu() == key.cpu()) {
            None => self.enter(key),
            Some(index) if key < taken[index].get() => self.rise(index + 1, key),
            Some(index) => self.sink(index + 1, key),
        }
    }

    /// Writes a key at this place, or above it while the parent is larger.
    fn rise(&self, place: usize, key: Key) {
        let mut place = place;
        while place > 1 && key < self.key(place / 2).get() {
            self.key(place).set(self.key(place / 2).get());
            place /= 2;
        }
        self.key(place).set(key);
    }

    /// Writes a key at this place, or below it while a child is smaller. An empty place is never smaller than a key.
    #[inline]
    fn sink(&self, place: usize, key: Key) {
        let mut place = place;
        loop {
            let [left, right] = [self.key(2 * place).get(), self.key(2 * place + 1).get()];
            let smaller = left.min(right);
            if key <= smaller {
                break self.key(place).set(key);
            }
            self.key(place).set(smaller);
            place = 2 * place + usize::from(right < left);
        }
    }

    #[inline]
    fn key(&self, place: usize) -> &Cell<Key> {
        &self.keys[place % PLACES]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Compares the heap with a sorted set, over every operation.
    #[test]
    fn turns_match_a_sorted_set() {
        let mut rng = fastrand::Rng::with_seed(1);
        for cpus in [1, 2, 3, 7, 512, SLOTS as u16 - 1] {
            let (turns, mut set) = (Turns::new(), BTreeSet::new());
            for _ in 0..4000 {
                let (cpu, time) = (rng.u16(..cpus), rng.u64(..1000));
                let key = Key::new(time, cpu);
                assert_eq!((key.time(), key.cpu()), (time, cpu));
                let old = set.iter().copied().find(|other: &Key| other.cpu() == cpu);
                match (rng.u8(..4), old) {
                    (0 | 1, None) => turns.enter(key),
                    (2, None) => {
                        set.insert(key);
                        assert_eq!(turns.exchange(key), set.pop_first().unwrap());
                        continue;
                    }
                    (3, _) => {
                        assert_eq!(turns.take(), set.pop_first().unwrap_or(Key::NEVER));
                        continue;
                    }
                    _ => turns.change(key),
                }
                old.into_iter().for_each(|old| _ = set.remove(&old));
                set.insert(key);
                assert_eq!(turns.first(), *set.first().unwrap());
            }
            let rest: Vec<Key> = std::iter::from_fn(|| Some(turns.take()).filter(|&key| key != Key::NEVER)).collect();
            assert_eq!(rest, set.into_iter().collect::<Vec<_>>());
        }
    }
}
