//! Properties of machines that are constants of the program.
//!
//! The engine is compiled once more for each variant, which takes seconds. A property that can be chosen at run time is
//! a [hook](super::hooks) instead.

use freehold::policy::Policy;
use freehold::policy::slab::{SlabChoices, SlabPolicy};
use freehold::slab::cpu::CACHES_MAX;

/// Constants of a [`Machine`](super::machine::Machine). The defaults are those of [`Cpu`](freehold::kernel::Cpu) and
/// [`Promises`](freehold::kernel::Promises), whose constants have the same names.
pub(crate) trait Variant: 'static {
    const CPUS: u16;
    const POLICY: Policy = Policy::FREEHOLD;
    const CACHES: u16 = CACHES_MAX as u16;
    const SLAB_DEBUG: bool = false;
    const PAGE_SIZE: u32 = 4096;
    const MIGRATES: bool = false;
    const CALL_ROUNDS_MAX: u64 = 1 << 28;
    const CALL_NANOS_MAX: u64 = 10_000_000_000;
}

/// A machine of one CPU, which waits for no other.
pub(crate) struct OneCpu;

impl Variant for OneCpu {
    const CPUS: u16 = 1;
}

/// A machine of four CPUs. Only a clock ends the wait for an answer, and only a test of that has a clock.
pub(crate) struct FourCpus;

impl Variant for FourCpus {
    const CPUS: u16 = 4;
    const CALL_ROUNDS_MAX: u64 = u64::MAX;
    const CALL_NANOS_MAX: u64 = 5_000;
}

/// A machine with all optional parts: callbacks can move blocks, and caches can be checked.
pub(crate) struct Equipped;

impl Variant for Equipped {
    const CPUS: u16 = 3;
    const SLAB_DEBUG: bool = true;
    const MIGRATES: bool = true;
}

/// A machine without a slab.
pub(crate) struct PagesAlone;

impl Variant for PagesAlone {
    const CPUS: u16 = 2;
    const CACHES: u16 = 0;
}

/// A machine on which a call counts as unanswered after a few rounds.
pub(crate) struct Impatient;

impl Variant for Impatient {
    const CPUS: u16 = 2;
    const CALL_ROUNDS_MAX: u64 = 50;
}

/// An impatient machine whose CPUs own slabs.
pub(crate) struct ImpatientOwner;

impl Variant for ImpatientOwner {
    const CPUS: u16 = 2;
    const POLICY: Policy = Policy::LINUX_6_12;
    const CALL_ROUNDS_MAX: u64 = 50;
}

/// A machine with pages of 16 KiB.
pub(crate) struct LargePages;

impl Variant for LargePages {
    const CPUS: u16 = 1;
    const PAGE_SIZE: u32 = 16 << 10;
}

/// A machine under `slab.objects=bitmap`.
pub(crate) struct BitmapSlab;

impl Variant for BitmapSlab {
    const CPUS: u16 = 1;
    const POLICY: Policy =
        Policy { slab: SlabChoices { objects: SlabPolicy::Bitmap, ..Policy::FREEHOLD.slab }, ..Policy::FREEHOLD };
}
