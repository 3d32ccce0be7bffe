//! A small world for one operation: the location of each object, and a check that no object is lost in the end.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::Relaxed;

use freehold::base::CpuId;
use freehold::slab::address::ObjectAddress;
use freehold::slab::cpu::{CpuLocal, PushOutcome};
use freehold::slab::freelist::FixedLinks;
use freehold::slab::slab::Owner;
use freehold::slab::word::{Local, end_mark};
use freehold_malloc::os::rseq::Rseq;

use crate::cases::Setting;
use crate::common::world::{ALL_BITS, OBJECTS, SLABS, World};

/// Slab from which the home CPU allocates. The away CPU allocates from the next one.
pub(crate) const CURRENT: usize = 0;
/// Slab that the home CPU owns in addition.
pub(crate) const OWNED: usize = 2;

/// Container of a CPU's free objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tagged,
    Paired,
    Sheaves,
    Bits,
}

/// The world, and the objects that the test holds.
pub(crate) struct Stage<'s, L> {
    pub setting: &'s Setting,
    pub kind: Kind,
    pub world: World<L>,
    /// Allocated objects, except the held object. Objects that are taken off a list are added here.
    held: RefCell<Vec<u64>>,
    /// Object that the operation frees.
    held_object: Cell<Option<u64>>,
    /// List that another CPU has exchanged for a mark, before its second look at the slot.
    pub exchanged: Cell<Option<u64>>,
    /// Whether the owned slab is being taken away.
    pub disowned: Cell<bool>,
    broken: RefCell<Option<String>>,
}

impl<'s, L: FixedLinks> Stage<'s, L> {
    /// Prepares the world. The home CPU has three objects of one slab on its list, and two on the own list of another
    /// slab. The away CPU has three objects on its list. `held_object` is about to be freed. All other objects are
    /// held.
    pub(crate) fn new(setting: &'s Setting, kind: Kind, links: L, held_object: Option<(usize, u16)>) -> Stage<'s, L> {
        let world = World::new(setting.cpu_count(), links);
        let held_object = held_object.map(|(slab, index)| world.object(slab, index));
        let stage = Stage {
            setting,
            kind,
            held: RefCell::default(),
            held_object: Cell::new(held_object),
            exchanged: Cell::new(None),
            disowned: Cell::new(false),
            broken: RefCell::default(),
            world,
        };
        match kind {
            Kind::Tagged | Kind::Paired => stage.fill_lists(),
            Kind::Sheaves => stage.fill_sheaves(),
            Kind::Bits => stage.fill_bits(),
        }
        stage.hold_the_rest();
        stage
    }

    fn fill_lists(&self) {
        let cpus = [Some(self.setting.home), self.setting.away];
        for (slab, cpu) in cpus.into_iter().enumerate().filter_map(|(slab, cpu)| Some((slab, cpu?))) {
            let slot = self.world.slot(cpu);
            slot.main.store(self.world.chain(slab, 0..3).head, Relaxed);
            if self.kind == Kind::Paired {
                slot.paired.store(self.world.base(slab).get(), Relaxed);
            }
            self.world.set_owner(slab, Owner::Cpu(cpu));
        }
        self.world.set_local(OWNED, Local::new(self.world.chain(OWNED, 0..2).head, OBJECTS - 2));
        self.world.set_owner(OWNED, Owner::Cpu(self.setting.home));
    }

    fn fill_bits(&self) {
        for slab in 0..SLABS {
            self.world.local(slab).store(0, Relaxed);
        }
        let cpus = [Some(self.setting.home), self.setting.away];
        for (slab, cpu) in cpus.into_iter().enumerate().filter_map(|(slab, cpu)| Some((slab, cpu?))) {
            self.world.slot(cpu).main.store(self.world.slab_word(slab), Relaxed);
            self.world.local(slab).store(0b111, Relaxed);
            self.world.set_owner(slab, Owner::Cpu(cpu));
        }
        self.world.local(OWNED).store(0b11, Relaxed);
        self.world.set_owner(OWNED, Owner::Cpu(self.setting.home));
    }

    fn fill_sheaves(&self) {
        self.world.use_sheaves();
        let spare = usize::from(self.setting.cpu_count());
        let sheaves = [Some(self.setting.home.index()), self.setting.away.map(CpuId::index), Some(spare)];
        for (slab, sheaf) in sheaves.into_iter().enumerate().filter_map(|(slab, sheaf)| Some((slab, sheaf?))) {
            self.world.fill_sheaf(sheaf, &[self.world.object(slab, 0), self.world.object(slab, 1)]);
        }
    }

    fn hold_the_rest(&self) {
        let listed = self.listed().expect("lists that were just made are whole");
        let objects = self.world.objects();
        let rest = objects.filter(|object| !listed.contains(object) && self.held_object.get() != Some(*object));
        self.held.borrow_mut().extend(rest);
    }

    /// Returns the primitive.
    pub(crate) fn rseq(&self) -> Rseq {
        self.setting.rseq
    }

    /// Takes the object that the operation frees; `None` after the first call.
    pub(crate) fn take_held_object(&self) -> Option<u64> {
        self.held_object.take()
    }

    /// Records that an object is allocated.
    pub(crate) fn hold(&self, object: u64) {
        self.held.borrow_mut().push(object);
    }

    /// Records that all objects of a list are allocated.
    pub(crate) fn hold_list(&self, head: u64) {
        match self.world.list(head) {
            Ok((objects, _)) => self.held.borrow_mut().extend(objects),
            Err(why) => *self.broken.borrow_mut() = Some(why),
        }
    }

    /// Records that a sheaf was taken out of a slot.
    pub(crate) fn have_sheaf(&self, word: u64) {
        self.world.put_aside(word);
        if self.world.sheaf_by_word(word).is_some_and(|sheaf| self.world.is_in_a_slot(sheaf)) {
            *self.broken.borrow_mut() = Some(format!("the sheaf at {word:#x} is taken from a CPU that still has it"));
        }
    }

    /// Records that the objects of a slab's own list are allocated.
    pub(crate) fn hold_local(&self, slab: usize, local: u64) {
        match self.kind {
            Kind::Bits => self.held.borrow_mut().extend(self.objects_of_bits(slab, local)),
            _ => self.hold_list(Local::from_raw(local).list(0)),
        }
    }

    /// Returns the value of a slab's own list without objects.
    pub(crate) fn nothing(&self, slab: usize) -> u64 {
        match self.kind {
            Kind::Bits => 0,
            _ => Local::new(end_mark(self.world.base(slab)), OBJECTS).raw(),
        }
    }

    /// Returns the object at a place of the slab to which a slot refers.
    pub(crate) fn object_at(&self, place: Option<(u64, u32)>) -> Option<ObjectAddress> {
        let (word, index) = place?;
        match self.world.slab_by_word(word) {
            Some(slab) => Some(ObjectAddress::new(self.world.object(slab, index as u16))),
            None => {
                *self.broken.borrow_mut() = Some(format!("an object of {word:#x}, which is no slab"));
                None
            }
        }
    }

    /// Allocates an object on the caller's CPU, as any thread may.
    pub(crate) fn allocate(&self) -> Option<u64> {
        let (slots, links) = (self.world.slots(), self.world.links());
        let object = match self.kind {
            Kind::Tagged | Kind::Paired => self.rseq().pop(slots, links),
            Kind::Sheaves => self.rseq().pop_sheaf(slots),
            Kind::Bits => self.object_at(self.rseq().pop_bits(slots)),
        };
        object.map(ObjectAddress::get).inspect(|&object| self.hold(object))
    }

    /// Frees a held object that `which` accepts, if there is one.
    pub(crate) fn free(&self, which: impl Fn(u64) -> bool) {
        let found = self.held.borrow().iter().position(|&object| which(object));
        let Some(at) = found else { return };
        let object = self.held.borrow_mut().swap_remove(at);
        let (slots, links, freed) = (self.world.slots(), self.world.links(), self.world.freed(object));
        let pushed = match self.kind {
            Kind::Tagged => self.rseq().push(slots, freed, links),
            Kind::Paired => self.rseq().push_paired(slots, freed, links),
            // SAFETY: the object was allocated and was held by this stage, which does not use it any more.
            Kind::Sheaves => unsafe { self.rseq().push_sheaf(slots, freed.object()) },
            Kind::Bits => self.rseq().push_bits(slots, freed, self.world.bit_of(object), ALL_BITS),
        };
        if pushed == PushOutcome::Refused {
            self.hold(object);
        }
    }

    /// Returns whether an object belongs to a slab.
    pub(crate) fn is_of(&self, object: u64, slab: usize) -> bool {
        object & World::<L>::mask() == self.world.base(slab).get()
    }

    /// Checks that each object is in exactly one place, and that each list is consistent.
    ///
    /// # Errors
    /// A description of the first violation.
    pub(crate) fn census(&self) -> Result<(), String> {
        if let Some(why) = self.broken.borrow().clone() {
            return Err(why);
        }
        let mut found = self.listed()?;
        found.extend(self.held.borrow().iter());
        found.extend(self.held_object.get());
        found.sort_unstable();
        if let Some(twice) = found.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("{:#x} is in two places", twice[0]));
        }
        match self.world.objects().find(|object| found.binary_search(object).is_err()) {
            Some(lost) => Err(format!("{lost:#x} is lost")),
            None if found.len() != SLABS * usize::from(OBJECTS) => Err("there is an object too many".to_owned()),
            None => Ok(()),
        }
    }

    /// Returns all objects on lists, in sheaves, and in bitmaps.
    fn listed(&self) -> Result<Vec<u64>, String> {
        let mut found = Vec::new();
        for slab in 0..SLABS {
            found.extend(if self.kind == Kind::Bits { self.of_bits(slab)? } else { self.of_local(slab)? });
        }
        match self.kind {
            Kind::Bits => {}
            Kind::Sheaves => {
                let all = 0..=usize::from(self.setting.cpu_count());
                found.extend(all.flat_map(|sheaf| self.world.sheaf(sheaf)));
            }
            Kind::Tagged | Kind::Paired => {
                for cpu in self.setting.cpus() {
                    found.extend(self.world.list(self.world.slot(cpu).main.load(Relaxed))?.0);
                }
            }
        }
        Ok(found)
    }

    fn objects_of_bits(&self, slab: usize, bits: u64) -> Vec<u64> {
        (0..OBJECTS).filter(|index| bits >> index & 1 == 1).map(|index| self.world.object(slab, index)).collect()
    }

    fn of_bits(&self, slab: usize) -> Result<Vec<u64>, String> {
        match self.world.local(slab).load(Relaxed) {
            bits if bits & !ALL_BITS.raw() == 0 => Ok(self.objects_of_bits(slab, bits)),
            bits => Err(format!("slab {slab} says {bits:#b}")),
        }
    }

    fn of_local(&self, slab: usize) -> Result<Vec<u64>, String> {
        let local = self.world.slab(slab).local();
        let (objects, mark) = self.world.list(local.list(0))?;
        let is_whole = mark == end_mark(self.world.base(slab));
        if is_whole && usize::from(local.used()) + objects.len() == usize::from(OBJECTS) {
            return Ok(objects);
        }
        Err(format!("slab {slab} says {local:x?} of {objects:x?}"))
    }
}
