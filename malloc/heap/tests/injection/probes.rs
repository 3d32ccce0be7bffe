//! Functions under test, with one operation each, and the scenes in which they are tested.
//!
//! The functions are separate copies of the sections, so that a breakpoint in them does not stop other code:
//! interferences execute other copies.

use freehold::base::CpuId;
use freehold::slab::address::ObjectAddress;
use freehold::slab::bits::Bits;
use freehold::slab::cpu::{CpuLocal, Exchange, ExchangeOutcome, FreedObject, PushOutcome, Slots};
use freehold::slab::freelist::{FixedLinks, Mangled, Plain};
use freehold::slab::word::{Local, end_mark};
use freehold_malloc::os::rseq::Rseq;
use freehold_malloc::os::rseq::arch::planted::Planted;

use crate::between::Between;
use crate::cases::Setting;
use crate::common::world::{ALL_BITS, Map, OBJECTS};
use crate::stage::{CURRENT, Kind, OWNED, Stage};
use crate::trap::GoOn;

const PLAIN: Plain = Plain { offset: 0 };
const MANGLED: Mangled = Mangled { offset: 8, secret: 0x1234_5678_9abc_def1 };

/// The sections without a defect.
pub(crate) struct Sound;

impl Planted for Sound {
    const DEFECT: &'static str = "sound";

    #[inline(always)]
    fn pop<L: FixedLinks>(rseq: Rseq, slots: Slots<'_>, links: L) -> Option<ObjectAddress> {
        rseq.pop(slots, links)
    }

    #[inline(always)]
    fn push<L: FixedLinks>(rseq: Rseq, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome {
        rseq.push(slots, freed, links)
    }

    #[inline(always)]
    fn pop_sheaf(rseq: Rseq, slots: Slots<'_>) -> Option<ObjectAddress> {
        rseq.pop_sheaf(slots)
    }

    #[inline(always)]
    unsafe fn push_sheaf(rseq: Rseq, slots: Slots<'_>, object: ObjectAddress) -> PushOutcome {
        // SAFETY: the caller promises that it owns the object.
        unsafe { rseq.push_sheaf(slots, object) }
    }

    #[inline(always)]
    fn pop_bits(rseq: Rseq, slots: Slots<'_>) -> Option<(u64, u32)> {
        rseq.pop_bits(slots)
    }

    #[inline(always)]
    fn push_bits(rseq: Rseq, slots: Slots<'_>, freed: FreedObject<'_>, bit: Bits, all: Bits) -> PushOutcome {
        rseq.push_bits(slots, freed, bit, all)
    }
}

#[inline(never)]
fn pop<D: Planted, L: FixedLinks>(rseq: Rseq, slots: Slots<'_>, links: L) -> Option<ObjectAddress> {
    D::pop(rseq, slots, links)
}

#[inline(never)]
fn push<D: Planted, L: FixedLinks>(rseq: Rseq, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome {
    D::push(rseq, slots, freed, links)
}

#[inline(never)]
fn push_paired<L: FixedLinks>(rseq: Rseq, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome {
    rseq.push_paired(slots, freed, links)
}

#[inline(never)]
fn pop_sheaf<D: Planted>(rseq: Rseq, slots: Slots<'_>) -> Option<ObjectAddress> {
    D::pop_sheaf(rseq, slots)
}

#[inline(never)]
fn push_sheaf<D: Planted>(rseq: Rseq, slots: Slots<'_>, object: ObjectAddress) -> PushOutcome {
    // SAFETY: the caller passes the stage's held object, which it owns and does not use any more.
    unsafe { D::push_sheaf(rseq, slots, object) }
}

#[inline(never)]
fn pop_bits<D: Planted>(rseq: Rseq, slots: Slots<'_>) -> Option<(u64, u32)> {
    D::pop_bits(rseq, slots)
}

#[inline(never)]
fn push_bits<D: Planted>(rseq: Rseq, slots: Slots<'_>, freed: FreedObject<'_>, bit: Bits, all: Bits) -> PushOutcome {
    D::push_bits(rseq, slots, freed, bit, all)
}

#[inline(never)]
fn pair<L: FixedLinks>(rseq: Rseq, slots: Slots<'_>, map: Map<'_>, links: L) -> Option<ObjectAddress> {
    let object = rseq.pop(slots, links)?;
    // SAFETY: the object was just allocated from the map's world and is not used any more.
    let freed = unsafe { FreedObject::new(object, map.slab_of(object.get()), map.mask) };
    match rseq.push(slots, freed, links) {
        PushOutcome::Done => None,
        PushOutcome::Refused => Some(object),
    }
}

#[inline(never)]
fn pair_sheaf(rseq: Rseq, slots: Slots<'_>) -> Option<ObjectAddress> {
    let object = rseq.pop_sheaf(slots)?;
    // SAFETY: the object was just allocated and is not used any more.
    match unsafe { rseq.push_sheaf(slots, object) } {
        PushOutcome::Done => None,
        PushOutcome::Refused => Some(object),
    }
}

#[inline(never)]
fn replace_if(rseq: Rseq, cpu: CpuId, exchange: Exchange<'_>) -> ExchangeOutcome {
    rseq.replace_if(cpu, exchange)
}

/// An operation and the initial state for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    Pop,
    PopMangled,
    PushToList,
    PushToListMangled,
    PushToOwn,
    PushToOwnMangled,
    PushPairedToList,
    PushPairedToOwn,
    PopSheaf,
    PushSheaf,
    PopBits,
    PushBitsToCurrent,
    PushBitsToOwn,
    Pair,
    PairSheaf,
    TakeOwn,
}

/// A scene that can be executed repeatedly.
pub(crate) trait Play {
    /// Returns the name of the scene.
    fn name(&self) -> String;
    /// Returns the interferences that may occur in the scene.
    fn betweens(&self) -> &'static [Between];
    /// Returns the address of the function under test.
    fn entry(&self) -> usize;
    /// Creates a new initial state.
    fn begin<'s>(&'s self, setting: &'s Setting) -> Box<dyn Act + 's>;
}

/// An execution of a scene.
pub(crate) trait Act {
    /// Performs the operation.
    fn perform(&self);
    /// See [`Stage::interfere`].
    fn interfere(&self, between: Between) -> GoOn;
    /// See [`Stage::finish`].
    fn finish(&self, between: Between);
    /// See [`Stage::census`].
    fn census(&self) -> Result<(), String>;
}

impl Scene {
    /// All operations.
    pub(crate) const ALL: [Scene; 16] = [
        Scene::Pop,
        Scene::PopMangled,
        Scene::PushToList,
        Scene::PushToListMangled,
        Scene::PushToOwn,
        Scene::PushToOwnMangled,
        Scene::PushPairedToList,
        Scene::PushPairedToOwn,
        Scene::PopSheaf,
        Scene::PushSheaf,
        Scene::PopBits,
        Scene::PushBitsToCurrent,
        Scene::PushBitsToOwn,
        Scene::Pair,
        Scene::PairSheaf,
        Scene::TakeOwn,
    ];
    /// Operations on lists and bitmaps for which sections with a defect exist.
    pub(crate) const CORE: [Scene; 6] = [
        Scene::Pop,
        Scene::PushToList,
        Scene::PushToOwn,
        Scene::PopBits,
        Scene::PushBitsToCurrent,
        Scene::PushBitsToOwn,
    ];

    /// Operations on sheaves for which sections with a defect exist.
    pub(crate) const SHEAVES: [Scene; 2] = [Scene::PopSheaf, Scene::PushSheaf];

    /// Calls `play` with the scene, whose sections have the defect `D`.
    pub(crate) fn run<D: Planted + 'static>(self, mut play: impl FnMut(&dyn Play)) {
        let list = Some((CURRENT, OBJECTS - 1));
        let own = Some((OWNED, OBJECTS - 1));
        match self {
            Scene::Pop => play(&Piece::<D, _>::new(self, Kind::Tagged, PLAIN, None)),
            Scene::PopMangled => play(&Piece::<D, _>::new(self, Kind::Tagged, MANGLED, None)),
            Scene::PushToList => play(&Piece::<D, _>::new(self, Kind::Tagged, PLAIN, list)),
            Scene::PushToListMangled => play(&Piece::<D, _>::new(self, Kind::Tagged, MANGLED, list)),
            Scene::PushToOwn => play(&Piece::<D, _>::new(self, Kind::Tagged, PLAIN, own)),
            Scene::PushToOwnMangled => play(&Piece::<D, _>::new(self, Kind::Tagged, MANGLED, own)),
            Scene::PushPairedToList => play(&Piece::<D, _>::new(self, Kind::Paired, PLAIN, list)),
            Scene::PushPairedToOwn => play(&Piece::<D, _>::new(self, Kind::Paired, PLAIN, own)),
            Scene::PopSheaf => play(&Piece::<D, _>::new(self, Kind::Sheaves, PLAIN, None)),
            Scene::PushSheaf => play(&Piece::<D, _>::new(self, Kind::Sheaves, PLAIN, list)),
            Scene::PopBits => play(&Piece::<D, _>::new(self, Kind::Bits, PLAIN, None)),
            Scene::PushBitsToCurrent => play(&Piece::<D, _>::new(self, Kind::Bits, PLAIN, list)),
            Scene::PushBitsToOwn => play(&Piece::<D, _>::new(self, Kind::Bits, PLAIN, own)),
            Scene::Pair | Scene::TakeOwn => play(&Piece::<D, _>::new(self, Kind::Tagged, PLAIN, None)),
            Scene::PairSheaf => play(&Piece::<D, _>::new(self, Kind::Sheaves, PLAIN, None)),
        }
    }
}

/// A scene with its sections.
struct Piece<D, L> {
    scene: Scene,
    kind: Kind,
    links: L,
    held_object: Option<(usize, u16)>,
    sections: std::marker::PhantomData<D>,
}

/// A scene with its stage.
struct Performance<'s, D, L> {
    scene: Scene,
    stage: Stage<'s, L>,
    sections: std::marker::PhantomData<D>,
}

impl<D: Planted, L: FixedLinks> Piece<D, L> {
    fn new(scene: Scene, kind: Kind, links: L, held_object: Option<(usize, u16)>) -> Piece<D, L> {
        Piece { scene, kind, links, held_object, sections: std::marker::PhantomData }
    }
}

impl<D: Planted + 'static, L: FixedLinks + 'static> Play for Piece<D, L> {
    fn name(&self) -> String {
        format!("{:?} ({})", self.scene, D::DEFECT)
    }

    fn betweens(&self) -> &'static [Between] {
        if self.kind == Kind::Sheaves { &Between::SHEAVES } else { &Between::LISTS }
    }

    fn entry(&self) -> usize {
        let function = match self.scene {
            Scene::Pop | Scene::PopMangled => pop::<D, L> as *const (),
            Scene::PushToList | Scene::PushToListMangled => push::<D, L> as *const (),
            Scene::PushToOwn | Scene::PushToOwnMangled => push::<D, L> as *const (),
            Scene::PushPairedToList | Scene::PushPairedToOwn => push_paired::<L> as *const (),
            Scene::PopSheaf => pop_sheaf::<D> as *const (),
            Scene::PushSheaf => push_sheaf::<D> as *const (),
            Scene::PopBits => pop_bits::<D> as *const (),
            Scene::PushBitsToCurrent | Scene::PushBitsToOwn => push_bits::<D> as *const (),
            Scene::Pair => pair::<L> as *const (),
            Scene::PairSheaf => pair_sheaf as *const (),
            Scene::TakeOwn => replace_if as *const (),
        };
        function.addr()
    }

    fn begin<'s>(&'s self, setting: &'s Setting) -> Box<dyn Act + 's> {
        let stage = Stage::new(setting, self.kind, self.links, self.held_object);
        Box::new(Performance { scene: self.scene, stage, sections: self.sections })
    }
}

impl<D: Planted, L: FixedLinks> Act for Performance<'_, D, L> {
    fn perform(&self) {
        let stage = &self.stage;
        let (rseq, slots, links) = (stage.rseq(), stage.world.slots(), stage.world.links());
        let Some(object) = stage.take_held_object() else {
            let popped = match self.scene {
                Scene::TakeOwn => return self.take_own(),
                Scene::PopSheaf => pop_sheaf::<D>(rseq, slots),
                Scene::PopBits => stage.object_at(pop_bits::<D>(rseq, slots)),
                Scene::PairSheaf => pair_sheaf(rseq, slots),
                Scene::Pair => pair(rseq, slots, stage.world.map(), links),
                _ => pop::<D, L>(rseq, slots, links),
            };
            return popped.map_or((), |object| stage.hold(object.get()));
        };
        let freed = stage.world.freed(object);
        let pushed = match self.scene {
            Scene::PushPairedToList | Scene::PushPairedToOwn => push_paired(rseq, slots, freed, links),
            Scene::PushSheaf => push_sheaf::<D>(rseq, slots, freed.object()),
            Scene::PushBitsToCurrent | Scene::PushBitsToOwn => {
                push_bits::<D>(rseq, slots, freed, stage.world.bit_of(object), ALL_BITS)
            }
            _ => push::<D, L>(rseq, slots, freed, links),
        };
        if pushed == PushOutcome::Refused {
            stage.hold(object);
        }
    }

    fn interfere(&self, between: Between) -> GoOn {
        self.stage.interfere(between)
    }

    fn finish(&self, between: Between) {
        self.stage.finish(between);
    }

    fn census(&self) -> Result<(), String> {
        self.stage.census()
    }
}

impl<D: Planted, L: FixedLinks> Performance<'_, D, L> {
    /// Exchanges the owned slab's list for an empty one, as a refill does, if the slab is still owned.
    fn take_own(&self) {
        let stage = &self.stage;
        let (local, owner) = (stage.world.local(OWNED), stage.world.owner(OWNED));
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        let (from, owned) = (local.load(relaxed), owner.load(relaxed));
        let nothing = Local::new(end_mark(stage.world.base(OWNED)), OBJECTS);
        let exchange = Exchange::new(local, from, nothing.raw()).with_witness(owner, owned);
        if replace_if(stage.rseq(), stage.setting.home, exchange) == ExchangeOutcome::Done {
            stage.hold_list(Local::from_raw(from).list(0));
        }
    }
}
