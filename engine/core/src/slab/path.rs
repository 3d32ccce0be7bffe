//! The ways of objects to and from a CPU, each as code that is built for it alone.
//!
//! Which way a cache goes was decided when it was made ([`Path`]). [`AnyWay`] looks that up for each object: the common
//! way first and inline, all others in functions of their own, so that the common one pays a comparison and no
//! register. A [`Front`] is built for one way, and looks up nothing: for a program that knows the policy when it is
//! compiled, and for comparing ways without comparing how they are found.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::address::ObjectAddress;
use super::bits::Bits;
use super::cache::Path;
use super::cpu::{CpuLocal, Freed, Pushed, Slots};
use super::freelist::sealed::Sealed;
use super::freelist::{FixedLinks, Mangled, Plain};
use super::hot::Hot;
use super::{ObjectError, ObjectFreeError, SlabAllocator};
use crate::base::Gfp;
use crate::platform::Platform;
use crate::policy::Policy;
use crate::policy::slab::{SlabGuard, SlabLinks, SlabPolicy};

/// A way. Nobody has one of their own, since what it pops is handed out as it is:
///
/// ```compile_fail,E0277
/// use freehold::Policy;
/// use freehold::slab::address::ObjectAddress;
/// use freehold::slab::cpu::{CpuLocal, Freed, Pushed, Slots};
/// use freehold::slab::{hot::Hot, path::Way};
/// #[derive(Clone, Copy)]
/// struct Mine;
/// impl Way for Mine {
///     fn serves(_: &Policy) -> bool {
///         true
///     }
///     fn pop<P: Platform, C: CpuLocal>(_: &C, _: Slots<'_>, _: &Hot) -> Option<ObjectAddress> {
///         Some(ObjectAddress::new(0xdead_0000))
///     }
///     fn push<P: Platform, C: CpuLocal>(_: &C, _: Slots<'_>, _: &Hot, _: Freed<'_>) -> Pushed {
///         Pushed::Refused
///     }
/// }
/// ```
pub trait Way: Copy + Sealed {
    /// Whether it is the way of an allocator's caches.
    fn serves(policy: &Policy) -> bool;

    /// Takes an object from the CPU's slot; `None` if it has none.
    fn pop<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot) -> Option<ObjectAddress>;

    /// Leaves an object with the CPU.
    fn push<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot, freed: Freed<'_>) -> Pushed;
}

fn links_serve<L: FixedLinks>(policy: &Policy) -> bool {
    L::MANGLED == (policy.slab.links == SlabLinks::Mangled)
}

/// The way of [`SlabPolicy::Tagged`]: lists that end in a mark.
#[derive(Clone, Copy, Debug)]
pub struct Tagged<L>(PhantomData<L>);

impl<L: FixedLinks> Sealed for Tagged<L> {}

impl<L: FixedLinks> Way for Tagged<L> {
    fn serves(policy: &Policy) -> bool {
        policy.slab.objects == SlabPolicy::Tagged && links_serve::<L>(policy)
    }

    #[inline(always)]
    fn pop<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot) -> Option<ObjectAddress> {
        local.pop(slots, hot.links::<L>())
    }

    #[inline(always)]
    fn push<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot, freed: Freed<'_>) -> Pushed {
        local.push(slots, freed, hot.links::<L>())
    }
}

/// See [`SlabPolicy::PageField`]; nothing is paid for preemption.
#[derive(Clone, Copy, Debug)]
pub struct PageField<L>(PhantomData<L>);

impl<L: FixedLinks> Sealed for PageField<L> {}

impl<L: FixedLinks> Way for PageField<L> {
    fn serves(policy: &Policy) -> bool {
        let is_bare = policy.slab.guard == SlabGuard::None;
        policy.slab.objects == SlabPolicy::PageField && is_bare && links_serve::<L>(policy)
    }

    #[inline(always)]
    fn pop<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot) -> Option<ObjectAddress> {
        local.pop(slots, hot.links::<L>())
    }

    #[inline(always)]
    fn push<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot, freed: Freed<'_>) -> Pushed {
        local.push_paired(slots, freed, hot.links::<L>())
    }
}

/// The same, as a preemptible kernel pays for it.
#[derive(Clone, Copy, Debug)]
pub struct Guarded<L>(PhantomData<L>);

impl<L: FixedLinks> Sealed for Guarded<L> {}

impl<L: FixedLinks> Way for Guarded<L> {
    fn serves(policy: &Policy) -> bool {
        let is_guarded = policy.slab.guard == SlabGuard::Preempt;
        policy.slab.objects == SlabPolicy::PageField && is_guarded && links_serve::<L>(policy)
    }

    #[inline(always)]
    fn pop<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot) -> Option<ObjectAddress> {
        local.preempt_disable();
        let object = PageField::<L>::pop::<P, C>(local, slots, hot);
        local.preempt_enable();
        object
    }

    #[inline(always)]
    fn push<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot, freed: Freed<'_>) -> Pushed {
        local.preempt_disable();
        let pushed = PageField::<L>::push::<P, C>(local, slots, hot, freed);
        local.preempt_enable();
        pushed
    }
}

/// See [`SlabPolicy::Sheaves`] and [`SlabPolicy::SheavesBitmap`]: what their slabs are like is no matter here.
#[derive(Clone, Copy, Debug)]
pub struct Sheaves;

impl Sealed for Sheaves {}

impl Way for Sheaves {
    fn serves(policy: &Policy) -> bool {
        policy.slab.objects.has_sheaves()
    }

    #[inline(always)]
    fn pop<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, _: &Hot) -> Option<ObjectAddress> {
        local.pop_sheaf(slots)
    }

    #[inline(always)]
    fn push<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, _: &Hot, freed: Freed<'_>) -> Pushed {
        // SAFETY: `Freed` owns the object, which is of this cache.
        unsafe { local.push_sheaf(slots, freed.object()) }
    }
}

/// See [`SlabPolicy::Bitmap`]: larger objects as bits, smaller ones as [`Tagged`], which looks at the cache.
#[derive(Clone, Copy, Debug)]
pub struct Bitmap<L>(PhantomData<L>);

impl<L: FixedLinks> Sealed for Bitmap<L> {}

impl<L: FixedLinks> Way for Bitmap<L> {
    fn serves(policy: &Policy) -> bool {
        policy.slab.objects == SlabPolicy::Bitmap && links_serve::<L>(policy)
    }

    #[inline(always)]
    fn pop<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot) -> Option<ObjectAddress> {
        if !hot.has_bits() {
            return Tagged::<L>::pop::<P, C>(local, slots, hot);
        }
        local.pop_bits(slots).map(|(slab, index)| hot.object_at(slab, index))
    }

    #[inline(always)]
    fn push<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot, freed: Freed<'_>) -> Pushed {
        if !hot.has_bits() {
            return Tagged::<L>::push::<P, C>(local, slots, hot, freed);
        }
        local.push_bits(slots, freed, Bits::one(hot.index_of(freed.object())), hot.all_bits())
    }
}

/// The way that a cache says: the common one is found first.
#[derive(Clone, Copy, Debug)]
pub struct AnyWay;

impl AnyWay {
    #[inline(never)]
    fn pop_other<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot) -> Option<ObjectAddress> {
        match hot.written {
            SlabLinks::Plain => pop_by::<P, C, Plain>(local, slots, hot),
            SlabLinks::Mangled => pop_by::<P, C, Mangled>(local, slots, hot),
        }
    }

    #[inline(never)]
    fn push_other<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot, freed: Freed<'_>) -> Pushed {
        match hot.written {
            SlabLinks::Plain => push_by::<P, C, Plain>(local, slots, hot, freed),
            SlabLinks::Mangled => push_by::<P, C, Mangled>(local, slots, hot, freed),
        }
    }
}

/// Whether no cache goes any other way: one that is checked finds nothing this way, and is refused.
const fn only_sheaves<P: Platform>() -> bool {
    matches!(P::POLICY, Some(policy) if policy.slab.objects.has_sheaves())
}

fn pop_by<P: Platform, C: CpuLocal, L: FixedLinks>(local: &C, slots: Slots<'_>, hot: &Hot) -> Option<ObjectAddress> {
    match hot.path {
        Path::Tagged => Tagged::<L>::pop::<P, C>(local, slots, hot),
        Path::PageField => PageField::<L>::pop::<P, C>(local, slots, hot),
        Path::PageFieldGuarded => Guarded::<L>::pop::<P, C>(local, slots, hot),
        Path::Sheaves => Sheaves::pop::<P, C>(local, slots, hot),
        Path::Bitmap => Bitmap::<L>::pop::<P, C>(local, slots, hot),
        Path::Checked => None,
    }
}

fn push_by<P: Platform, C: CpuLocal, L: FixedLinks>(
    local: &C,
    slots: Slots<'_>,
    hot: &Hot,
    freed: Freed<'_>,
) -> Pushed {
    match hot.path {
        Path::Tagged => Tagged::<L>::push::<P, C>(local, slots, hot, freed),
        Path::PageField => PageField::<L>::push::<P, C>(local, slots, hot, freed),
        Path::PageFieldGuarded => Guarded::<L>::push::<P, C>(local, slots, hot, freed),
        Path::Sheaves => Sheaves::push::<P, C>(local, slots, hot, freed),
        Path::Bitmap => Bitmap::<L>::push::<P, C>(local, slots, hot, freed),
        Path::Checked => Pushed::Refused,
    }
}

impl Sealed for AnyWay {}

impl Way for AnyWay {
    fn serves(_: &Policy) -> bool {
        true
    }

    #[inline(always)]
    fn pop<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot) -> Option<ObjectAddress> {
        if only_sheaves::<P>() || hot.is_common {
            Sheaves::pop::<P, C>(local, slots, hot)
        } else {
            AnyWay::pop_other::<P, C>(local, slots, hot)
        }
    }

    #[inline(always)]
    fn push<P: Platform, C: CpuLocal>(local: &C, slots: Slots<'_>, hot: &Hot, freed: Freed<'_>) -> Pushed {
        if only_sheaves::<P>() || hot.is_common {
            Sheaves::push::<P, C>(local, slots, hot, freed)
        } else {
            AnyWay::push_other::<P, C>(local, slots, hot, freed)
        }
    }
}

/// An allocator seen through one way, which is that of all its caches.
pub struct Front<'k, 's, 'm, P: Platform, C, W> {
    slab: &'k SlabAllocator<'s, 'm, P, C>,
    way: PhantomData<W>,
}

impl<P: Platform, C, W> fmt::Debug for Front<'_, '_, '_, P, C, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Front")
    }
}

impl<P: Platform, C, W> Clone for Front<'_, '_, '_, P, C, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform, C, W> Copy for Front<'_, '_, '_, P, C, W> {}

impl<'s, 'm, P: Platform, C: CpuLocal> SlabAllocator<'s, 'm, P, C> {
    /// The allocator through one way, if that is its own.
    pub fn front<W: Way>(&self) -> Option<Front<'_, 's, 'm, P, C, W>> {
        W::serves(self.pages.rules()).then_some(Front { slab: self, way: PhantomData })
    }
}

impl<P: Platform, C: CpuLocal, W: Way> Front<'_, '_, '_, P, C, W> {
    /// Memory as C's malloc gives it: null if there is none, an address of its own for no bytes.
    #[inline(always)]
    pub fn malloc(self, size: usize) -> *mut u8 {
        match self.at_hand(size) {
            Some(object) => object.as_ptr(),
            None => self.slab.malloc_slow(size),
        }
    }

    /// An object of so many bytes, if this CPU has one at hand: the part of [`malloc`](Self::malloc) that is worth
    /// having inline, for those who have more to do where it finds nothing.
    #[inline(always)]
    pub fn at_hand(self, size: usize) -> Option<NonNull<u8>> {
        // SAFETY: objects lie in `Memory`, which does not begin at address 0.
        self.slab.fast_alloc::<W>(size).map(|object| unsafe { NonNull::new_unchecked(object.as_ptr()) })
    }

    /// Gives it back as C's free does: nothing for null, and an address that is no object's is reported to the
    /// platform.
    ///
    /// # Safety
    /// As for [`kfree`](Self::kfree).
    #[inline(always)]
    pub unsafe fn free(self, object: *mut u8) {
        // SAFETY: the caller promises the same of the object.
        if unsafe { self.put_back(object) } == Pushed::Refused {
            self.slab.free_slowly(object);
        }
    }

    /// Takes an object back if that is no more than to leave it with this CPU: likewise of [`free`](Self::free).
    ///
    /// # Safety
    /// As for [`kfree`](Self::kfree), unless it is refused.
    #[inline(always)]
    pub unsafe fn put_back(self, object: *mut u8) -> Pushed {
        // SAFETY: the caller gives the object up, as `fast_free` demands.
        unsafe { self.slab.fast_free::<W>(ObjectAddress::of(object)) }
    }

    /// See [`SlabAllocator::kmalloc`].
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    #[track_caller]
    pub fn kmalloc(self, size: usize, gfp: Gfp) -> Result<NonNull<u8>, ObjectError> {
        self.slab.kmalloc_by::<W>(size, gfp)
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
        // SAFETY: the caller promises the same of the object.
        unsafe { self.slab.kfree_by::<W>(object) }
    }
}
