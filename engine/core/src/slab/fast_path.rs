//! Fast paths of allocation and free: an allocation takes an object from the CPU's slot of a cache; a free puts it back
//! there, or onto a list of its slab.
//!
//! The cache's fast path is chosen when the cache is created ([`Path`]). [`AnyFastPath`] looks that choice up for each
//! object: the common path first and inline, all others in outlined functions, so that the common path costs one
//! comparison and no register. A [`Frontend`] is compiled for one fast path and looks up nothing. It serves programs
//! that know the policy at compile time, and benchmarks that compare fast paths without the cost of the lookup.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::address::ObjectAddress;
use super::bits::Bits;
use super::cache::Path;
use super::cpu::{CpuLocal, FreedObject, PushOutcome, Slots};
use super::freelist::sealed::Sealed;
use super::freelist::{FixedLinks, Mangled, Plain};
use super::hot::Hot;
use super::{ObjectError, ObjectFreeError, SlabAllocator};
use crate::base::Gfp;
use crate::platform::Platform;
use crate::policy::Policy;
use crate::policy::slab::{SlabGuard, SlabLinks, SlabPolicy};

/// Fast path, as a type. The trait is sealed, since popped objects are handed out unchecked.
pub trait FastPath: Copy + Sealed {
    /// Returns whether the caches of an allocator with this policy use this fast path.
    fn serves(policy: &Policy) -> bool;

    /// Takes an object from the CPU's slot; returns `None` if the slot has none.
    fn pop<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot) -> Option<ObjectAddress>;

    /// Puts an object into the CPU's slot, or onto a list of its slab.
    fn push<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot, freed: FreedObject<'_>) -> PushOutcome;
}

fn are_links_of<L: FixedLinks>(policy: &Policy) -> bool {
    L::MANGLED == (policy.slab.links == SlabLinks::Mangled)
}

/// Fast path of [`SlabPolicy::Tagged`]: lists that end in their slab's end mark.
#[derive(Clone, Copy, Debug)]
pub struct Tagged<L>(PhantomData<L>);

impl<L: FixedLinks> Sealed for Tagged<L> {}

impl<L: FixedLinks> FastPath for Tagged<L> {
    fn serves(policy: &Policy) -> bool {
        policy.slab.objects == SlabPolicy::Tagged && are_links_of::<L>(policy)
    }

    #[inline(always)]
    fn pop<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot) -> Option<ObjectAddress> {
        local.pop(slots, hot.links::<L>())
    }

    #[inline(always)]
    fn push<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot, freed: FreedObject<'_>) -> PushOutcome {
        local.push(slots, freed, hot.links::<L>())
    }
}

/// Fast path of [`SlabPolicy::PageField`], without disabling preemption.
#[derive(Clone, Copy, Debug)]
pub struct PageField<L>(PhantomData<L>);

impl<L: FixedLinks> Sealed for PageField<L> {}

impl<L: FixedLinks> FastPath for PageField<L> {
    fn serves(policy: &Policy) -> bool {
        let is_bare = policy.slab.guard == SlabGuard::None;
        policy.slab.objects == SlabPolicy::PageField && is_bare && are_links_of::<L>(policy)
    }

    #[inline(always)]
    fn pop<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot) -> Option<ObjectAddress> {
        local.pop(slots, hot.links::<L>())
    }

    #[inline(always)]
    fn push<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot, freed: FreedObject<'_>) -> PushOutcome {
        local.push_paired(slots, freed, hot.links::<L>())
    }
}

/// Fast path of [`SlabPolicy::PageField`], with preemption disabled around each section.
#[derive(Clone, Copy, Debug)]
pub struct PageFieldGuarded<L>(PhantomData<L>);

impl<L: FixedLinks> Sealed for PageFieldGuarded<L> {}

impl<L: FixedLinks> FastPath for PageFieldGuarded<L> {
    fn serves(policy: &Policy) -> bool {
        let is_guarded = policy.slab.guard == SlabGuard::Preempt;
        policy.slab.objects == SlabPolicy::PageField && is_guarded && are_links_of::<L>(policy)
    }

    #[inline(always)]
    fn pop<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot) -> Option<ObjectAddress> {
        local.preempt_disable();
        let object = PageField::<L>::pop::<P, C>(local, slots, hot);
        local.preempt_enable();
        object
    }

    #[inline(always)]
    fn push<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot, freed: FreedObject<'_>) -> PushOutcome {
        local.preempt_disable();
        let pushed = PageField::<L>::push::<P, C>(local, slots, hot, freed);
        local.preempt_enable();
        pushed
    }
}

/// Fast path of [`SlabPolicy::Sheaves`] and [`SlabPolicy::SheavesBitmap`]. The two policies differ in their slabs only.
#[derive(Clone, Copy, Debug)]
pub struct Sheaves;

impl Sealed for Sheaves {}

impl FastPath for Sheaves {
    fn serves(policy: &Policy) -> bool {
        policy.slab.objects.has_sheaves()
    }

    #[inline(always)]
    fn pop<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, _: &Hot) -> Option<ObjectAddress> {
        local.pop_sheaf(slots)
    }

    #[inline(always)]
    fn push<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, _: &Hot, freed: FreedObject<'_>) -> PushOutcome {
        // SAFETY: `FreedObject` owns the object, which was allocated from the cache of these slots.
        unsafe { local.push_sheaf(slots, freed.object()) }
    }
}

/// Fast path of [`SlabPolicy::Bitmap`]: bits for larger objects, [`Tagged`] lists for smaller ones, by cache.
#[derive(Clone, Copy, Debug)]
pub struct Bitmap<L>(PhantomData<L>);

impl<L: FixedLinks> Sealed for Bitmap<L> {}

impl<L: FixedLinks> FastPath for Bitmap<L> {
    fn serves(policy: &Policy) -> bool {
        policy.slab.objects == SlabPolicy::Bitmap && are_links_of::<L>(policy)
    }

    #[inline(always)]
    fn pop<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot) -> Option<ObjectAddress> {
        if !hot.has_bits() {
            return Tagged::<L>::pop::<P, C>(local, slots, hot);
        }
        local.pop_bits(slots).map(|(slab, index)| hot.object_at(slab, index))
    }

    #[inline(always)]
    fn push<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot, freed: FreedObject<'_>) -> PushOutcome {
        if !hot.has_bits() {
            return Tagged::<L>::push::<P, C>(local, slots, hot, freed);
        }
        local.push_bits(slots, freed, Bits::single(hot.index_of(freed.object())), hot.all_bits())
    }
}

/// Fast path that looks up the cache's own fast path for each object. The common path is tested first.
#[derive(Clone, Copy, Debug)]
pub struct AnyFastPath;

impl AnyFastPath {
    #[inline(never)]
    fn pop_other<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot) -> Option<ObjectAddress> {
        match hot.written {
            SlabLinks::Plain => pop_from::<P, C, Plain>(local, slots, hot),
            SlabLinks::Mangled => pop_from::<P, C, Mangled>(local, slots, hot),
        }
    }

    #[inline(never)]
    fn push_other<P: Platform, C: CpuLocal>(
        local: &C,
        slots: Slots<'_>,
        hot: &Hot,
        freed: FreedObject<'_>,
    ) -> PushOutcome {
        match hot.written {
            SlabLinks::Plain => push_to::<P, C, Plain>(local, slots, hot, freed),
            SlabLinks::Mangled => push_to::<P, C, Mangled>(local, slots, hot, freed),
        }
    }
}

/// Returns whether the platform fixes a policy with sheaves, so that the fast path of sheaves serves all caches. This
/// includes checked caches: their slots have no sheaf, so a pop finds no object and a push is refused.
pub(super) const fn only_sheaves<P: Platform>() -> bool {
    matches!(P::POLICY, Some(policy) if policy.slab.objects.has_sheaves())
}

fn pop_from<P: Platform, C: CpuLocal, L: FixedLinks>(local: &C, slots: Slots<'_>, hot: &Hot) -> Option<ObjectAddress> {
    match hot.path {
        Path::Tagged => Tagged::<L>::pop::<P, C>(local, slots, hot),
        Path::PageField => PageField::<L>::pop::<P, C>(local, slots, hot),
        Path::PageFieldGuarded => PageFieldGuarded::<L>::pop::<P, C>(local, slots, hot),
        Path::Sheaves => Sheaves::pop::<P, C>(local, slots, hot),
        Path::Bitmap => Bitmap::<L>::pop::<P, C>(local, slots, hot),
        Path::Checked => None,
    }
}

fn push_to<P: Platform, C: CpuLocal, L: FixedLinks>(
    local: &C,
    slots: Slots<'_>,
    hot: &Hot,
    freed: FreedObject<'_>,
) -> PushOutcome {
    match hot.path {
        Path::Tagged => Tagged::<L>::push::<P, C>(local, slots, hot, freed),
        Path::PageField => PageField::<L>::push::<P, C>(local, slots, hot, freed),
        Path::PageFieldGuarded => PageFieldGuarded::<L>::push::<P, C>(local, slots, hot, freed),
        Path::Sheaves => Sheaves::push::<P, C>(local, slots, hot, freed),
        Path::Bitmap => Bitmap::<L>::push::<P, C>(local, slots, hot, freed),
        Path::Checked => PushOutcome::Refused,
    }
}

impl Sealed for AnyFastPath {}

impl FastPath for AnyFastPath {
    fn serves(_: &Policy) -> bool {
        true
    }

    #[inline(always)]
    fn pop<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot) -> Option<ObjectAddress> {
        if only_sheaves::<P>() || hot.is_common {
            Sheaves::pop::<P, C>(local, slots, hot)
        } else {
            AnyFastPath::pop_other::<P, C>(local, slots, hot)
        }
    }

    #[inline(always)]
    fn push<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot, freed: FreedObject<'_>) -> PushOutcome {
        if only_sheaves::<P>() || hot.is_common {
            Sheaves::push::<P, C>(local, slots, hot, freed)
        } else {
            AnyFastPath::push_other::<P, C>(local, slots, hot, freed)
        }
    }
}

/// An allocator's interface compiled for one fast path, which all its caches use.
pub struct Frontend<'k, 's, 'm, P: Platform, C, F> {
    slab: &'k SlabAllocator<'s, 'm, P, C>,
    fast_path: PhantomData<F>,
}

impl<P: Platform, C, F> fmt::Debug for Frontend<'_, '_, '_, P, C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Frontend")
    }
}

impl<P: Platform, C, F> Clone for Frontend<'_, '_, '_, P, C, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform, C, F> Copy for Frontend<'_, '_, '_, P, C, F> {}

impl<'s, 'm, P: Platform, C: CpuLocal> SlabAllocator<'s, 'm, P, C> {
    /// Returns the allocator's interface for one fast path, or `None` if the allocator's policy uses another one.
    pub fn frontend<F: FastPath>(&self) -> Option<Frontend<'_, 's, 'm, P, C, F>> {
        F::serves(self.pages.rules()).then_some(Frontend { slab: self, fast_path: PhantomData })
    }
}

impl<P: Platform, C: CpuLocal, F: FastPath> Frontend<'_, '_, '_, P, C, F> {
    /// Allocates memory as malloc of C does: returns null if there is none, and a distinct address for 0 bytes.
    #[inline(always)]
    pub fn malloc(self, size: usize) -> *mut u8 {
        match self.alloc_fast(size) {
            Some(object) => object.as_ptr(),
            None => self.slab.malloc_slow(size),
        }
    }

    /// Allocates an object of `size` bytes, if this CPU's slot has one. This is the inline part of
    /// [`malloc`](Self::malloc), for callers with their own slow path.
    #[inline(always)]
    pub fn alloc_fast(self, size: usize) -> Option<NonNull<u8>> {
        // SAFETY: objects are in `Memory`, which does not begin at address 0, so the pointer is not null.
        self.slab.alloc_fast::<F>(size).map(|object| unsafe { NonNull::new_unchecked(object.as_ptr()) })
    }

    /// Frees memory as free of C does: ignores null, and reports a refused free to the platform.
    ///
    /// # Safety
    /// As for [`kfree`](Self::kfree).
    #[inline(always)]
    pub unsafe fn free(self, object: *mut u8) {
        // SAFETY: the caller promises about `object` what `free_fast` demands.
        if unsafe { self.free_fast(object) } == PushOutcome::Refused {
            self.slab.free_or_report(object);
        }
    }

    /// Frees an object into this CPU's slot or onto a list of its slab, if a section can. This is the inline part of
    /// [`free`](Self::free).
    ///
    /// # Safety
    /// As for [`kfree`](Self::kfree), unless the object is refused.
    #[inline(always)]
    pub unsafe fn free_fast(self, object: *mut u8) -> PushOutcome {
        // SAFETY: the caller gives the object up, as `free_fast` of the allocator demands.
        unsafe { self.slab.free_fast::<F>(ObjectAddress::from_ptr(object)) }
    }

    /// See [`SlabAllocator::object_bytes`]; `None` for null as well.
    #[inline(always)]
    pub fn object_bytes(self, object: *mut u8) -> Option<usize> {
        self.slab.bytes_at(ObjectAddress::from_ptr(object))
    }

    /// See [`SlabAllocator::kmalloc`].
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    #[track_caller]
    pub fn kmalloc(self, size: usize, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
        self.slab.kmalloc_with::<F>(size, gfp)
    }

    /// See [`SlabAllocator::kfree`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn kfree(self, object: NonNull<u8>) -> Result<(), ObjectFreeError> {
        // SAFETY: the caller promises about `object` what `kfree_with` demands.
        unsafe { self.slab.kfree_with::<F>(object) }
    }
}
