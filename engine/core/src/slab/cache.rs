//! A cache: what its objects are like, and what was decided about it when it was made.

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
/// What `slab.cpu_free` counts as where Linux's numbers stand in for it: its largest slabs, times 16.
const CPU_FREE_KIB: u32 = 512;

/// A cache's name, kept as bytes beside the cache; what is too long is cut off.
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

    /// The name as text, without the padding.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or("?")
    }
}

/// How a CPU holds a cache's objects: resolved when the cache is made, so that no fast path asks the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// CPUs own slabs and have tagged lists: [`SlabPolicy::Tagged`].
    Tagged,
    /// See [`SlabPolicy::PageField`].
    PageField,
    /// The same, as a preemptible kernel pays for it.
    PageFieldGuarded,
    /// CPUs have arrays of objects: [`SlabPolicy::Sheaves`].
    Sheaves,
    /// CPUs own slabs and have words of bits: [`SlabPolicy::Bitmap`].
    Bitmap,
    /// No objects with a CPU: each goes under the node's lock, and is checked.
    Checked,
}

/// How much of a cache may lie idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Wholly free slabs that a node keeps. Where CPUs have sheaves, and so no slabs, it keeps as many as one of them
    /// would. linux: mm/slub.c:set_min_partial
    pub node_free: u32,
    /// Wholly free slabs that a CPU keeps. linux: mm/slub.c:set_cpu_partial, where they need not be wholly free
    pub cpu_free: u32,
    /// Slabs that others freed into which may wait for a CPU, on its list and as many again on the way there, before
    /// the CPU that frees into the next one gives them to the node. linux: as cpu_free
    pub cpu_waiting: u32,
    /// Most slabs that are made at once: where CPUs have sheaves, as many as `slab.cpu_free` holds, of one block; else
    /// one, as in Linux.
    pub made_at_once: u32,
}

impl Limits {
    /// Most slabs without an object in use that a CPU keeps: the one it allocates from, those that it emptied itself,
    /// and those that others freed into.
    pub const fn kept_by_cpu(&self) -> u64 {
        1 + self.cpu_free as u64 + 2 * self.cpu_waiting as u64
    }
}

/// A cache, as it was made. What fast paths need of it is in [`Hot`](super::hot::Hot).
#[derive(Clone, Copy, Debug)]
pub struct Cache {
    /// Its number.
    pub id: CacheId,
    /// In what CPUs have free objects: sheaves, lists or words of bits.
    pub path: Path,
    /// What mangles its links and shuffles its objects.
    pub(super) secret: u64,
    /// Size, order and mask of its slabs, and where an object's parts lie.
    pub layout: Layout,
    /// Whether a slab's free objects are bits of a word; else they are linked.
    pub has_bits: bool,
    /// How the link of a free object is encoded.
    pub links: CacheLinks,
    /// In which order a new slab gives them out.
    pub order: SlabOrder,
    /// The flags that `create` was given, with the allocator's own.
    pub flags: CacheFlags,
    /// Prepares each object once, when its slab is made.
    pub constructor: Option<fn(core::ptr::NonNull<u8>)>,
    /// Flags of requests for slabs, beside those of the request for an object.
    pub gfp: Gfp,
    /// How many slabs may lie idle at a node, and wait for a CPU.
    pub limits: Limits,
    /// Objects that one of its sheaves has room for.
    pub sheaf: u16,
    /// Sheaves with objects that a barn of it has room for.
    pub full_sheaves: usize,
    /// A sheaf's objects go back in order of their slabs.
    pub flushes_by_slab: bool,
    /// The name that `slabinfo` and reports show.
    pub name: Name,
}

/// What a cache is made from, beside what was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheParams<'a> {
    pub id: CacheId,
    pub policy: &'a Policy,
    pub cpus: u16,
    pub page_size: u32,
    /// Of the cache, for mangled links and random order.
    pub secret: u64,
}

impl Cache {
    /// Bytes of an object that its owner may use.
    pub fn object_size(&self) -> u32 {
        self.layout.object_size
    }

    /// Whether each allocation and each free is checked.
    pub fn is_checked(&self) -> bool {
        self.path == Path::Checked
    }

    /// The slabs that lie side by side in these frames.
    pub(super) fn slabs_in(&self, frames: &Range<Pfn>) -> impl DoubleEndedIterator<Item = Pfn> + use<> {
        (frames.start.raw()..frames.end.raw()).step_by(self.layout.order.pages() as usize).map(Pfn::new)
    }

    /// Decides everything about a cache.
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
    /// [`Cache::is_checked`], which nobody asks where no cache can be.
    #[inline(always)]
    pub(super) fn is_checked(&self, cache: &Cache) -> bool {
        P::SLAB_DEBUG && cache.is_checked()
    }

    /// [`Cache::path`], of which those are not in the program that the rules never choose.
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

/// Where CPUs have the objects of a cache that is not checked.
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

/// The alignment of objects: what was asked for, and a word's at least.
fn alignment(config: &CacheConfig<'_>, page_size: u32) -> Result<u32, CreateError> {
    const LINE: u32 = 64;
    let align = config.align.max(1);
    if !align.is_power_of_two() || align > page_size {
        return Err(CreateError::Align { align: config.align });
    }
    let line = if config.flags.contains(CacheFlags::HWCACHE_ALIGN) {
        // Small objects share a line, as long as none lies in two. linux: mm/slab_common.c:calculate_alignment
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

/// Returns the number of slabs in `kib` KiB.
fn slabs_in(kib: u32, layout: &Layout) -> u32 {
    (u64::from(kib) * 1024 / layout.slab_bytes()) as u32
}

/// Returns the limits on free slabs; [`slab`](super) explains the rule. linux: mm/slub.c:set_min_partial,
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
