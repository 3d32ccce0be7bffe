//! What comes between two instructions of an operation.

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
    /// A signal whose handler does nothing.
    Nothing,
    /// The thread goes on on the other CPU.
    Moved,
    /// A signal's handler allocates.
    Allocated,
    /// A signal's handler frees to the list that the CPU allocates from.
    Freed,
    /// A signal's handler frees to another slab that the CPU owns.
    FreedToOwn,
    /// A signal's handler allocates two, and frees the first: the list begins as before, and goes on otherwise.
    Twisted,
    /// A signal's handler exchanges the CPU's sheaf.
    Exchanged,
    /// Another CPU takes the list, or the sheaf.
    Drained,
    /// Another CPU takes the owned slab.
    Disowned,
    /// Another CPU allocates and frees on its own list, which restarts nobody.
    Others,
    /// The thread goes on on the other CPU, and somebody else allocates and frees on the one that it left.
    Swapped,
    /// Another CPU exchanges the list, or the sheaf, for a mark; the fence comes when the operation is over.
    DrainBegun(Look),
    /// Another CPU says that the owned slab is nobody's, likewise.
    DisownBegun(Fence),
}

/// What a drain does after its fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It looks whether the mark is still there.
    Again,
    /// It does not: a defect.
    Once,
}

/// What a takeover does before it takes the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// It waits for sections that saw the owner.
    Made,
    /// It does not: a defect.
    Forgotten,
}

impl Between {
    /// All that may happen where CPUs have lists.
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
    /// All that may happen where they have sheaves.
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
    /// Those of which two are tried at two places.
    pub(crate) const PAIRED_UP: [Between; 7] = [
        Between::Moved,
        Between::Others,
        Between::Allocated,
        Between::Freed,
        Between::Twisted,
        Between::Drained,
        Between::Swapped,
    ];

    /// Whether it takes a second CPU.
    pub(crate) fn needs_two_cpus(self) -> bool {
        matches!(self, Between::Moved | Between::Others | Between::Swapped)
    }
}

impl<L: FixedLinks> Stage<'_, L> {
    /// Lets it happen: called in a signal's handler, between two instructions.
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

    /// Does the rest of what was begun.
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

    /// The other CPU, if there is one.
    fn elsewhere(&self) -> CpuId {
        let (home, away) = (self.setting.home, self.setting.away.unwrap_or(self.setting.home));
        if self.rseq().cpu() == home { away } else { home }
    }

    /// Whether an object is of the slab that this CPU allocates from; under sheaves any will do.
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
            // Whoever takes the sheaf keeps others from replacing it.
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

    /// What a slot says from which a list, or a sheaf, was taken.
    fn no_list(&self) -> u64 {
        if self.kind == Kind::Sheaves { self.world.no_sheaf() } else { EMPTY }
    }

    /// Somebody has the list, or the sheaf, that this word was of.
    fn have_drained(&self, word: u64) {
        match self.kind {
            Kind::Sheaves => self.have_sheaf(word),
            _ => self.hold_list(word),
        }
    }

    /// Where objects are bits of their slab, the home CPU's slot names it no more, and it is nobody's.
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

    /// Takes the owned slab's list; it is nobody's then.
    fn take_owned(&self, fence: Fence) {
        self.world.set_owner(OWNED, Owner::Node);
        self.take_local(OWNED, fence);
    }

    /// Takes the list of a slab that nobody owns any more.
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
