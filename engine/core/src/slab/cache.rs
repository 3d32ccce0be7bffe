//! Caches: the properties of a cache's objects, and the decisions made when the cache is created.
//!
//! # Design
//!
//! The path of a cache's objects is a function of the policy ([`Path`]). If the platform fixes the policy, the compiler
//! removes all other paths. Under `freehold` all objects use sheaves. The caches that sheaves are allocated from have
//! no sheaves themselves; their objects go to slabs one by one. Earlier these caches had lists per CPU. All code for
//! slabs that CPUs own was then part of every kernel with the policy `freehold`, for these caches alone.

use core::ops::Range;

use super::SlabAllocator;
use super::cpu::CpuLocal;
use super::error::CreateError;
use super::freelist::{CacheLinks, Mangled, Plain};
use super::layout::{BITMAP_OBJECTS_MAX, Layout, ObjectLayout, WORD, is_for_bits};
use super::word::OBJECTS_MAX;
use crate::base::{Gfp, Order, Pfn};
use crate::platform::Platform;
use crate::policy::Policy;
use crate::policy::slab::{
    BARN_SHEAVES_MAX, PinBound, SlabGuard, SlabLinks, SlabOrder, SlabPolicy, SlabSizing, sheaf_capacity,
};

pub use super::config::{CacheConfig, CacheFlags};
pub use super::id::CacheId;

/// Bytes of a cache's name that are kept.
const NAME_MAX: usize = 31;
/// Value of `slab.cpu_free` in KiB that limits waiting slabs if the setting is absent: 16 times the largest slab of
/// Linux's rules with pages of 4 KiB.
const CPU_FREE_KIB: u32 = 512;

/// Name of a cache, stored in the cache. Longer names are cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    len: u8,
    bytes: [u8; NAME_MAX],
}

impl Name {
    fn new(name: &str) -> Name {
        let mut len = name.len().min(NAME_MAX);
        while !name.is_char_boundary(len) {
            len -= 1;
        }
        let mut bytes = [0; NAME_MAX];
        bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
        Name { len: len as u8, bytes }
    }

    /// Returns the name as text, without the padding.
    pub fn as_str(&self) -> &str {
        // SAFETY: the bytes were copied from a text in `new`, up to the end of a character, and are never changed.
        unsafe { core::str::from_utf8_unchecked(&self.bytes[..usize::from(self.len)]) }
    }
}

/// Form in which a CPU holds a cache's free objects. It is determined when the cache is created, so that fast paths
/// need not read the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// CPUs own slabs, and have lists with end marks: [`SlabPolicy::Tagged`], and smaller objects under
    /// [`SlabPolicy::Bitmap`].
    Tagged,
    /// CPUs own slabs, and have lists with a word that names the slab: [`SlabPolicy::PageField`].
    PageField,
    /// As [`PageField`](Self::PageField), with preemption disabled around each section, as in a preemptible kernel.
    PageFieldGuarded,
    /// CPUs have arrays of objects: [`SlabPolicy::Sheaves`] and [`SlabPolicy::SheavesBitmap`].
    Sheaves,
    /// CPUs own slabs, and have words of bits: larger objects under [`SlabPolicy::Bitmap`].
    Bitmap,
    /// CPUs hold no objects. Each allocation and free is checked under the node's lock.
    Checked,
}

/// Limits on unused slabs of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Wholly free slabs that a node keeps. With sheaves, CPUs have no slabs, and a node keeps `slab.cpu_free` KiB of
    /// slabs, if that is more. linux: mm/slub.c:do_kmem_cache_create
    pub node_free: u32,
    /// Wholly free slabs that a CPU keeps. linux: mm/slub.c:set_cpu_partial, whose slabs need not be wholly free
    pub cpu_free: u32,
    /// Slabs with remote frees that may wait for a CPU: this many on its list, and as many on its stack. The CPU that
    /// frees into one slab more moves the waiting slabs to the node. linux: as for `cpu_free`
    pub cpu_waiting: u32,
    /// Maximum number of slabs that are made at once from one block: with sheaves, as many as `slab.cpu_free` holds, at
    /// least one and at most those of the largest block; otherwise one, as in Linux.
    pub made_at_once: u32,
}

impl Limits {
    /// Returns the maximum number of slabs without objects in use that a CPU keeps: the slab that it allocates from,
    /// slabs that it emptied, and slabs that other CPUs freed into.
    pub const fn kept_by_cpu(&self) -> u64 {
        1 + self.cpu_free as u64 + 2 * self.cpu_waiting as u64
    }
}

/// Cache, as it was created. The fields that fast paths need are in [`Hot`](super::hot::Hot).
#[derive(Clone, Copy, Debug)]
pub struct Cache {
    /// Number of the cache.
    pub id: CacheId,
    /// Form in which CPUs hold free objects: sheaves, lists or words of bits.
    pub path: Path,
    /// Secret that mangles links and determines the order of shuffled objects.
    pub(super) secret: u64,
    /// Size, order and mask of the cache's slabs, and the offsets of an object's parts.
    pub layout: Layout,
    /// True if a slab's free objects are bits of a word; otherwise they are linked.
    pub has_bits: bool,
    /// Encoding of the links of free objects.
    pub links: CacheLinks,
    /// Order in which the objects of a new slab are handed out.
    pub order: SlabOrder,
    /// Flags that the creator gave, with the checks that all caches make; without any checks if the platform has no
    /// checked caches. Caches of sheaves get no checks.
    pub flags: CacheFlags,
    /// Function that prepares each object once, when its slab is made.
    pub constructor: Option<fn(core::ptr::NonNull<u8>)>,
    /// Flags of requests for slabs, in addition to those of the request for an object.
    pub gfp: Gfp,
    /// Limits on slabs that a node keeps, and on slabs that wait for a CPU.
    pub limits: Limits,
    /// Number of objects that a sheaf of the cache has room for; 0 for the caches that sheaves are allocated from.
    pub sheaf: u16,
    /// Number of sheaves with objects that a barn of the cache has room for.
    pub full_sheaves: usize,
    /// True if the objects of a sheaf are flushed in the order of their slabs.
    pub flushes_by_slab: bool,
    /// Name of the cache in `slabinfo` and in reports.
    pub name: Name,
}

/// Parameters of a new cache besides its configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheParams<'a> {
    pub id: CacheId,
    pub policy: &'a Policy,
    pub cpus: u16,
    pub page_size: u32,
    /// Secret for mangled links and random order.
    pub secret: u64,
}

impl Cache {
    /// Returns the bytes of an object that its owner may use.
    pub fn object_size(&self) -> u32 {
        self.layout.object_size
    }

    /// Returns whether each allocation and each free is checked.
    pub fn is_checked(&self) -> bool {
        self.path == Path::Checked
    }

    /// Returns the first frames of the adjacent slabs in a range of frames.
    pub(super) fn slabs_in(&self, frames: &Range<Pfn>) -> impl DoubleEndedIterator<Item = Pfn> + use<> {
        (frames.start.raw()..frames.end.raw()).step_by(self.layout.order.pages() as usize).map(Pfn::new)
    }

    /// Determines all properties of a cache.
    ///
    /// # Errors
    /// If the size or the alignment is not possible, or if a cache with a constructor is to be poisoned.
    pub(super) fn new(config: &CacheConfig<'_>, params: &CacheParams<'_>) -> Result<Cache, CreateError> {
        let align = alignment(config, params.page_size)?;
        let debug = config.flags & CacheFlags::DEBUG;
        if debug.contains(CacheFlags::POISON) && config.constructor.is_some() {
            return Err(CreateError::PoisonedConstructor);
        }
        let too_large = CreateError::Size { size: config.size };
        if config.size == 0 {
            return Err(too_large);
        }
        let ObjectLayout { first, link, size } = ObjectLayout::new(config, align).ok_or(too_large)?;
        let has_bits =
            debug.is_empty() && params.policy.slab.objects.has_bitmaps() && is_for_bits(size, params.page_size);
        let path = if debug.is_empty() { path(params.policy, has_bits) } else { Path::Checked };
        let objects_max = if has_bits { BITMAP_OBJECTS_MAX } else { OBJECTS_MAX };
        let pinned = PinBound::for_size(size, params.policy.numbers.slab_pinned).filter(|_| path == Path::Sheaves);
        let smallest = Layout::new(size, config.size, link, objects_max, &sizing(params, pinned), params.page_size);
        let layout = smallest.ok_or(too_large)?.with_left_red_zone(first);
        let offset = u64::from(link);
        let choices = &params.policy.slab;
        let links = match choices.links {
            SlabLinks::Plain => CacheLinks::Plain(Plain { offset }),
            SlabLinks::Mangled => CacheLinks::Mangled(Mangled { offset, secret: params.secret }),
        };
        let most = sheaf_capacity(size, params.policy.numbers.slab_sheaf);
        let sheaf = pinned.map_or(most, |pinned| pinned.sheaf_capacity(most, layout.slab_bytes()));
        let full = pinned.map_or(BARN_SHEAVES_MAX, |pinned| pinned.full_sheaves(sheaf, layout.slab_bytes()));
        let reclaim = config.flags.contains(CacheFlags::RECLAIM_ACCOUNT);
        Ok(Cache {
            id: params.id,
            layout,
            links,
            path,
            has_bits,
            order: choices.order,
            flags: config.flags,
            constructor: config.constructor,
            gfp: if reclaim { Gfp::RECLAIMABLE } else { Gfp::empty() },
            limits: limits(&layout, path, params.policy),
            sheaf,
            full_sheaves: full,
            flushes_by_slab: choices.objects.flushes_by_slab(),
            name: Name::new(config.name),
            secret: params.secret,
        })
    }
}

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Returns [`Cache::is_checked`]. The result is a constant if the platform has no checked caches.
    #[inline(always)]
    pub(super) fn is_checked(&self, cache: &Cache) -> bool {
        P::SLAB_DEBUG && cache.is_checked()
    }

    /// Returns [`Cache::path`]. If the platform fixes the policy, paths that the policy never chooses are removed at
    /// compile time.
    #[inline(always)]
    pub(super) fn path(&self, cache: &Cache) -> Path {
        if self.is_checked(cache) {
            return Path::Checked;
        }
        match const { P::POLICY } {
            Some(policy) => path(&policy, cache.has_bits),
            None => cache.path,
        }
    }
}

/// Returns the path of a cache that is not checked.
#[inline(always)]
const fn path(policy: &Policy, has_bits: bool) -> Path {
    match (policy.slab.objects, policy.slab.guard) {
        (SlabPolicy::Bitmap, _) if has_bits => Path::Bitmap,
        (SlabPolicy::Tagged | SlabPolicy::Bitmap, _) => Path::Tagged,
        (SlabPolicy::PageField, SlabGuard::None) => Path::PageField,
        (SlabPolicy::PageField, SlabGuard::Preempt) => Path::PageFieldGuarded,
        (SlabPolicy::Sheaves | SlabPolicy::SheavesBitmap, _) => Path::Sheaves,
    }
}

/// Returns the alignment of objects: the configured one, but at least that of a word. With
/// [`CacheFlags::HWCACHE_ALIGN`], it is also at least a cache line or, for smaller objects, the next power of two.
///
/// # Errors
/// If the configured alignment is not a power of two, or is larger than a page.
fn alignment(config: &CacheConfig<'_>, page_size: u32) -> Result<u32, CreateError> {
    const LINE: u32 = 64;
    let align = config.align.max(1);
    if !align.is_power_of_two() || align > page_size {
        return Err(CreateError::Align { align: config.align });
    }
    let line = if config.flags.contains(CacheFlags::HWCACHE_ALIGN) {
        // Small objects share a cache line, as long as none crosses from one line to the next. linux:
        // mm/slab_common.c:calculate_alignment
        config.size.checked_next_power_of_two().map_or(LINE, |size| size.min(LINE))
    } else {
        WORD
    };
    Ok(align.max(line).max(WORD))
}

fn sizing(params: &CacheParams<'_>, pinned: Option<PinBound>) -> SlabSizing {
    let linux = SlabSizing::linux(u32::from(params.cpus));
    let numbers = &params.policy.numbers;
    let configured = numbers.slab_max_order.and_then(|order| Order::from_u8(u8::try_from(order).ok()?));
    let max_order = configured.unwrap_or(linux.max_order);
    SlabSizing {
        min_objects: numbers.slab_min_objects.unwrap_or(linux.min_objects),
        waste: params.policy.slab.sizes.waste(),
        max_order: pinned.map_or(max_order, |pinned| max_order.min(pinned.max_order(params.page_size))),
    }
}

/// Returns the number of whole slabs in `kib` KiB.
fn slabs_in(kib: u32, layout: &Layout) -> u32 {
    (u64::from(kib) * 1024 / layout.slab_bytes()) as u32
}

/// Returns the limits on free slabs; [`slab`](super) explains the rule. linux: mm/slub.c:do_kmem_cache_create,
/// set_cpu_partial
fn limits(layout: &Layout, path: Path, policy: &Policy) -> Limits {
    let objects = match layout.size {
        4096.. => 6,
        1024.. => 24,
        256.. => 52,
        _ => 120,
    };
    let by_objects = (objects * 2_u32).div_ceil(u32::from(layout.objects));
    let kib = policy.numbers.slab_cpu_free;
    let of_sheaves = kib.filter(|_| path == Path::Sheaves).map_or(0, |kib| slabs_in(kib, layout));
    Limits {
        node_free: (layout.size.ilog2() / 2).clamp(5, 10).max(of_sheaves),
        cpu_free: kib.map_or(by_objects, |kib| slabs_in(kib, layout)),
        made_at_once: of_sheaves.clamp(1, 1 << (Order::MAX.get() - layout.order.get())),
        cpu_waiting: slabs_in(kib.unwrap_or(CPU_FREE_KIB), layout).max(1).saturating_mul(4),
    }
}
