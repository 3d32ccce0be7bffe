//! Interferences between two instructions of an operation.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use freehold::base::CpuId;
use freehold::slab::cpu::{CpuLocal, Exchange, ExchangeOutcome, FenceOutcome};
use freehold::slab::freelist::FixedLinks;
use freehold::slab::slab::Owner;
use freehold::slab::word::EMPTY;

use crate::common::machine::run_on;
use crate::common::world::World;
use crate::stage::{CURRENT, Kind, OWNED, Stage};
use crate::trap::GoOn;

/// An interference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Between {
    /// A signal handler does nothing.
    Nothing,
    /// The thread migrates to the other CPU.
    Moved,
    /// A signal handler allocates.
    Allocated,
    /// A signal handler frees an object to the list from which the CPU allocates.
    Freed,
    /// A signal handler frees an object to another slab that the CPU owns.
    FreedToOwn,
    /// A signal handler allocates two objects and frees the first one: the list has the same head, but another second
    /// object.
    Twisted,
    /// A signal handler exchanges the CPU's main sheaf.
    Exchanged,
    /// Another CPU drains the list or the sheaf.
    Drained,
    /// Another CPU takes the owned slab.
    Disowned,
    /// Another CPU allocates and frees on its own list, which restarts no section.
    Others,
    /// The thread migrates to the other CPU, and another thread allocates and frees on the CPU that it left.
    Swapped,
    /// Another CPU exchanges the list or the sheaf for a mark; its fence follows after the operation.
    DrainBegun(Look),
    /// Another CPU clears the owner of the owned slab; its fence follows after the operation.
    DisownBegun(Fence),
}

/// Action of a drain after its fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The drain checks whether the mark is still in the slot.
    Again,
    /// The drain does not check: a defect.
    Once,
}

/// Action of a takeover before it takes the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// The takeover waits for sections that saw the owner.
    Made,
    /// The takeover does not wait: a defect.
    Forgotten,
}

impl Between {
    /// All interferences with lists and bitmaps.
    pub(crate) const LISTS: [Between; 12] = [
        Between::Nothing,
        Between::Moved,
        Between::Allocated,
        Between::Freed,
        Between::FreedToOwn,
        Between::Twisted,
        Between::Drained,
        Between::Disowned,
        Between::Others,
        Between::Swapped,
        Between::DrainBegun(Look::Again),
        Between::DisownBegun(Fence::Made),
    ];
    /// All interferences with sheaves.
    pub(crate) const SHEAVES: [Between; 9] = [
        Between::Nothing,
        Between::Moved,
        Between::Allocated,
        Between::Freed,
        Between::Exchanged,
        Between::Drained,
        Between::Others,
        Between::Swapped,
        Between::DrainBegun(Look::Again),
    ];
    /// Interferences of which two are tried at two instructions.
    pub(crate) const PAIRED_UP: [Between; 7] = [
        Between::Moved,
        Between::Others,
        Between::Allocated,
        Between::Freed,
        Between::Twisted,
        Between::Drained,
        Between::Swapped,
    ];

    /// Returns whether the interference requires a second CPU.
    pub(crate) fn needs_two_cpus(self) -> bool {
        matches!(self, Between::Moved | Between::Others | Between::Swapped)
    }
}

impl<L: FixedLinks> Stage<'_, L> {
    /// Causes the interference. Called in a signal handler, between two instructions.
    pub(crate) fn interfere(&self, between: Between) -> GoOn {
        match between {
            Between::Nothing => {}
            Between::Moved => run_on(self.elsewhere()),
            Between::Allocated => drop(self.allocate()),
            Between::Freed => self.free(|object| self.is_current(object)),
            Between::FreedToOwn => self.free(|object| self.is_of(object, OWNED)),
            Between::Twisted => self.twist(),
            Between::Exchanged => self.exchange_sheaf(),
            Between::Drained => self.on(self.elsewhere(), &|| self.drain()),
            Between::Disowned => self.on(self.elsewhere(), &|| self.take_owned(Fence::Made)),
            Between::Swapped => self.swap(),
            Between::Others => {
                self.on(self.elsewhere(), &|| self.use_list());
                return GoOn::Resumed;
            }
            Between::DrainBegun(_) => return self.begin_drain(),
            Between::DisownBegun(fence) => return self.begin_takeover(fence),
        }
        GoOn::Restarted
    }

    /// Completes an interference that was begun.
    pub(crate) fn finish(&self, between: Between) {
        match between {
            Between::DrainBegun(look) => self.on(self.elsewhere(), &|| self.finish_drain(look)),
            Between::DisownBegun(fence) if self.disowned.take() => {
                self.on(self.elsewhere(), &|| self.take_owned(fence));
            }
            _ => {}
        }
    }

    fn on(&self, cpu: CpuId, work: &dyn Fn()) {
        self.setting.helper.run(cpu, work);
    }

    /// Returns the other CPU, or this one if there is only one.
    fn elsewhere(&self) -> CpuId {
        let (home, away) = (self.setting.home, self.setting.away.unwrap_or(self.setting.home));
        if self.rseq().cpu() == home { away } else { home }
    }

    /// Returns whether an object belongs to the slab from which this CPU allocates; under sheaves, any object does.
    fn is_current(&self, object: u64) -> bool {
        let list = self.world.slot(self.rseq().cpu()).main.load(Relaxed);
        match self.kind {
            Kind::Tagged | Kind::Paired => (object ^ list) & World::<L>::mask() == 0,
            Kind::Sheaves => true,
            Kind::Bits => self.world.slab_by_word(list).is_some_and(|slab| self.is_of(object, slab)),
        }
    }

    fn twist(&self) {
        let (first, second) = (self.allocate(), self.allocate());
        if let (Some(first), Some(_)) = (first, second) {
            self.free(|object| object == first);
        }
    }

    fn use_list(&self) {
        self.twist();
        self.allocate();
        self.free(|object| self.is_current(object));
    }

    fn swap(&self) {
        let (left, here) = (self.rseq().cpu(), self.elsewhere());
        run_on(here);
        self.on(left, &|| self.use_list());
    }

    fn exchange_sheaf(&self) {
        if self.exchanged.get().is_some() {
            // A drain that has taken the sheaf excludes other replacements of it.
            return;
        }
        let cpu = self.rseq().cpu();
        let slot = self.world.slot(cpu);
        let spare = usize::from(self.setting.cpu_count());
        let main = slot.main.load(Relaxed);
        let other = if self.world.sheaf_by_word(main) == Some(spare) { cpu.index() } else { spare };
        if self.world.is_in_a_slot(other) {
            return;
        }
        let exchange = Exchange::new(slot.main, main, self.world.word_of_sheaf(other));
        if self.rseq().replace_if(cpu, exchange) == ExchangeOutcome::Done {
            self.world.put_aside(main);
        }
    }

    fn drain(&self) {
        if self.kind == Kind::Bits {
            self.forget_current();
            return self.take_local(CURRENT, Fence::Made);
        }
        let slot = self.world.slot(self.setting.home);
        if self.kind == Kind::Paired {
            slot.paired.store(0, Relaxed);
            assert_eq!(self.rseq().fence(self.setting.home), FenceOutcome::Ended);
        }
        self.have_drained(self.rseq().drain(self.setting.home, slot, self.no_list()));
    }

    /// Returns the value of a slot from which a list or a sheaf was taken.
    fn no_list(&self) -> u64 {
        if self.kind == Kind::Sheaves { self.world.no_sheaf() } else { EMPTY }
    }

    /// Records that the list or the sheaf to which a slot's value refers was taken.
    fn have_drained(&self, word: u64) {
        match self.kind {
            Kind::Sheaves => self.have_sheaf(word),
            _ => self.hold_list(word),
        }
    }

    /// Removes the current slab from the home CPU's slot and clears its owner, under `bitmap`.
    fn forget_current(&self) {
        self.world.slot(self.setting.home).main.store(self.world.nowhere(), Relaxed);
        self.world.set_owner(CURRENT, Owner::Node);
    }

    fn begin_drain(&self) -> GoOn {
        if self.kind == Kind::Bits {
            self.forget_current();
            self.exchanged.set(Some(EMPTY));
            return GoOn::Resumed;
        }
        let slot = self.world.slot(self.setting.home);
        let list = slot.main.load(Relaxed);
        let is_one_word = matches!(self.kind, Kind::Tagged | Kind::Sheaves);
        let may_begin = is_one_word && self.exchanged.get().is_none() && list != self.no_list();
        if may_begin && slot.main.compare_exchange(list, self.no_list(), AcqRel, Relaxed).is_ok() {
            self.exchanged.set(Some(list));
        }
        GoOn::Resumed
    }

    fn finish_drain(&self, look: Look) {
        let Some(list) = self.exchanged.take() else { return };
        if self.kind == Kind::Bits {
            return self.take_local(CURRENT, Fence::Made);
        }
        assert_eq!(self.rseq().fence(self.setting.home), FenceOutcome::Ended);
        let slot = self.world.slot(self.setting.home);
        if look == Look::Once || slot.main.load(Relaxed) == self.no_list() {
            self.have_drained(list);
        }
        if look == Look::Again {
            self.drain();
        }
    }

    /// Clears the owner of the owned slab, and takes its list.
    fn take_owned(&self, fence: Fence) {
        self.world.set_owner(OWNED, Owner::Node);
        self.take_local(OWNED, fence);
    }

    /// Takes the list of a slab whose owner was cleared.
    fn take_local(&self, slab: usize, fence: Fence) {
        if fence == Fence::Made {
            assert_eq!(self.rseq().fence(self.setting.home), FenceOutcome::Ended);
        }
        let taken = self.world.local(slab).swap(self.nothing(slab), AcqRel);
        self.hold_local(slab, taken);
    }

    fn begin_takeover(&self, fence: Fence) -> GoOn {
        match fence {
            Fence::Made => {
                self.world.set_owner(OWNED, Owner::Node);
                self.disowned.set(true);
            }
            Fence::Forgotten => self.take_owned(fence),
        }
        GoOn::Resumed
    }
}
