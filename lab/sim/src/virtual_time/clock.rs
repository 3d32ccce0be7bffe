//! The clocks of all CPUs, and who is next.
//!
//! A CPU that does not run has a key among its [`turns`](super::turns), its time and its number in one word. The CPU
//! that runs has none, so the first key says at any time whether somebody else should run. A CPU that waits for a lock
//! has no key either: whoever gives it the lock gives it one.
//!
//! Every field is a cell of the thread's own, so nothing here allocates, borrows or locks. While no CPU runs, between
//! two turns, the machine's observer does: it costs no time and never waits.
//!
//! Tasks that run beside the CPUs have clocks like theirs, behind those of the CPUs. What they spend is counted apart.
//!
//! Time is in picoseconds and may reach five hours: 54 bits of a key.

use std::cell::Cell;

use freehold::base::NodeId;
use freehold::base::lock::Rank;

use super::turns::{Key, SLOTS, TIME_MAX, Turns};
use crate::costs::Costs;
use crate::outcome::Times;
use crate::task::Task;
use crate::window::Window;
use crate::{CPUS_MAX, NODES_MAX};

/// No CPU: the observer.
pub(super) const NOBODY: u16 = u16::MAX;

const _: () = assert!(SLOTS >= CPUS_MAX as usize + Task::count(NODES_MAX) as usize);

thread_local! {
    static CLOCK: Clock = const { Clock::new() };
}

/// Calls `action` with the clock of this thread.
#[inline(always)]
pub(super) fn with_clock<R>(action: impl FnOnce(&Clock) -> R) -> R {
    CLOCK.with(action)
}

/// What CPU time goes to, outside of zone locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The workload's own.
    Work,
    /// Allocations, frees, and lines that move to whoever uses a page.
    Operation,
    /// Cutting and merging on lists.
    List,
    /// Stacks.
    Stack,
    /// Waiting for a zone lock.
    ZoneWait,
    /// Waiting for, or fetching, the lock of a list.
    ListWait,
    /// Reclaim and compaction.
    Reclaim,
    /// All that tasks do.
    Background,
}

/// How many there are.
const PURPOSES: usize = Purpose::Background as usize + 1;

/// All clocks, and what the lock has to know.
pub struct Clock {
    /// The CPU that runs, or [`NOBODY`].
    cpu: Cell<u16>,
    /// Its time.
    now: Cell<u64>,
    /// CPUs; the clocks behind theirs are tasks'.
    cpus: Cell<u16>,
    turns: Turns,
    /// Who is next, if the CPU that stopped has found out.
    next: Cell<Key>,
    /// Ranks that a CPU holds, one bit each.
    held: [Cell<u8>; SLOTS],
    /// Who waits behind a CPU for the same lock.
    behind: [Cell<u16>; SLOTS],
    /// Whether a CPU waits for a wake, and whether one came meanwhile.
    sleeps: [Cell<bool>; SLOTS],
    woken: [Cell<bool>; SLOTS],
    nodes: [Cell<u8>; SLOTS],
    spent: [Cell<u64>; PURPOSES],
    zone_hold: Cell<u64>,
    /// When the observer wants to look.
    look: Cell<u64>,
    /// From when to when it is counted what time goes to; then the run is over.
    begin: Cell<u64>,
    end: Cell<u64>,
    prices: Cell<Prices>,
}

/// What locks cost.
#[derive(Clone, Copy, Debug)]
pub struct Prices {
    /// Taking and giving back a zone lock.
    pub zone_lock: u64,
    /// A lock that another CPU had last: of the same node, of another.
    pub transfer: [u64; 2],
    /// A look at such a lock, in vain.
    pub look: [u64; 2],
}

impl Prices {
    const NONE: Prices = Prices { zone_lock: 0, transfer: [0; 2], look: [0; 2] };

    fn new(costs: &Costs) -> Prices {
        Prices {
            zone_lock: costs.zone_lock_ps,
            transfer: [costs.lock_transfer_ps, costs.lock_transfer_remote_ps],
            look: [costs.line_ps, costs.line_remote_ps],
        }
    }
}

impl Clock {
    const fn new() -> Clock {
        Clock {
            cpu: Cell::new(NOBODY),
            now: Cell::new(0),
            cpus: Cell::new(0),
            turns: Turns::new(),
            next: Cell::new(Key::NEVER),
            held: [const { Cell::new(0) }; SLOTS],
            behind: [const { Cell::new(NOBODY) }; SLOTS],
            sleeps: [const { Cell::new(false) }; SLOTS],
            woken: [const { Cell::new(false) }; SLOTS],
            nodes: [const { Cell::new(0) }; SLOTS],
            spent: [const { Cell::new(0) }; PURPOSES],
            zone_hold: Cell::new(0),
            look: Cell::new(u64::MAX),
            begin: Cell::new(0),
            end: Cell::new(0),
            prices: Cell::new(Prices::NONE),
        }
    }

    /// Winds everything back for a run of so many CPUs, and tasks behind them, on these nodes, that is over when its
    /// window is. Nobody is ready yet.
    pub fn reset(&self, cpus: u16, nodes: &[NodeId], window: Window, costs: &Costs) {
        assert!(nodes.len() <= SLOTS && window.end < TIME_MAX, "the plan was checked");
        self.cpu.set(NOBODY);
        self.cpus.set(cpus);
        self.turns.clear();
        self.next.set(Key::NEVER);
        for slot in 0..SLOTS {
            self.held[slot].set(0);
            self.behind[slot].set(NOBODY);
            self.sleeps[slot].set(false);
            self.woken[slot].set(false);
        }
        for (slot, node) in nodes.iter().enumerate() {
            self.nodes[slot].set(node.0);
        }
        self.spent.iter().for_each(|spent| spent.set(0));
        self.zone_hold.set(0);
        self.look.set(u64::MAX);
        self.begin.set(window.begin);
        self.end.set(window.end);
        self.prices.set(Prices::new(costs));
    }

    /// The CPU that runs, or [`NOBODY`].
    #[inline]
    pub fn cpu(&self) -> u16 {
        self.cpu.get()
    }

    /// Whether the observer looks at the machine.
    #[inline]
    pub fn is_observed(&self) -> bool {
        self.cpu.get() == NOBODY
    }

    /// The time of the CPU that runs.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now.get()
    }

    /// When the run is over.
    pub fn end(&self) -> u64 {
        self.end.get()
    }

    /// What locks cost.
    #[inline]
    pub fn prices(&self) -> Prices {
        self.prices.get()
    }

    /// 1 if the CPU that runs is on another node than `other`, else 0.
    #[inline]
    pub fn distance_to(&self, other: u16) -> usize {
        usize::from(self.nodes[self.slot()].get() != self.nodes[usize::from(other)].get())
    }

    /// Moves the running CPU's clock on, for a purpose. What is spent under a zone lock counts as holding it.
    #[inline]
    pub fn spend(&self, picoseconds: u64, purpose: Purpose) {
        if self.is_observed() {
            return;
        }
        self.now.set(self.now.get() + picoseconds);
        if self.held() >> Rank::Zone as u8 == 0 {
            self.count(picoseconds, purpose);
        }
    }

    /// Counts time that a CPU spent until now, as far as it lies in the window.
    #[inline]
    pub fn count(&self, picoseconds: u64, purpose: Purpose) {
        let purpose = if self.is_task() { Purpose::Background } else { purpose };
        let spent = &self.spent[purpose as usize];
        spent.set(spent.get() + self.part_in_window(picoseconds));
    }

    /// Counts a section under a zone lock that ends now, as far as it lies in the window.
    #[inline]
    pub fn count_hold(&self, picoseconds: u64) {
        if self.is_task() {
            return self.count(picoseconds, Purpose::Background);
        }
        self.zone_hold.set(self.zone_hold.get() + self.part_in_window(picoseconds));
    }

    /// The part of the time until now that lies in the window.
    #[inline]
    fn part_in_window(&self, picoseconds: u64) -> u64 {
        let now = self.now.get();
        now.min(self.end.get()).saturating_sub((now - picoseconds).max(self.begin.get()))
    }

    /// What all CPUs spent in the window.
    pub fn times(&self) -> Times {
        Times {
            work: self.spent_on(Purpose::Work),
            operations: self.spent_on(Purpose::Operation),
            lists: self.spent_on(Purpose::List),
            stacks: self.spent_on(Purpose::Stack),
            zone_hold: self.zone_hold.get(),
            zone_wait: self.spent_on(Purpose::ZoneWait),
            list_wait: self.spent_on(Purpose::ListWait),
            reclaim: self.spent_on(Purpose::Reclaim),
            background: self.spent_on(Purpose::Background),
        }
    }

    fn spent_on(&self, purpose: Purpose) -> u64 {
        self.spent[purpose as usize].get()
    }

    /// Ranks that the running CPU holds, one bit each.
    #[inline]
    pub fn held(&self) -> u8 {
        self.held[self.slot()].get()
    }

    /// Changes the ranks that it holds.
    #[inline]
    pub fn set_held(&self, ranks: u8) {
        self.held[self.slot()].set(ranks);
    }

    /// Who waits behind a CPU for the same lock.
    pub fn behind(&self, cpu: u16) -> &Cell<u16> {
        &self.behind[usize::from(cpu)]
    }

    /// Lets every CPU whose clock is behind go first, and the observer if it wanted to look before.
    #[inline]
    pub fn take_turn(&self) {
        let now = self.now.get();
        if self.is_observed() || Key::new(now, self.cpu.get()) < self.turns.first() && now < self.look.get() {
            return;
        }
        self.pause();
    }

    /// Says when the observer wants to look.
    pub fn look_at(&self, time: u64) {
        self.look.set(time);
    }

    /// Stops here, and goes on when all others are ahead.
    #[inline(never)]
    pub fn pause(&self) {
        self.let_others_run(self.now.get());
    }

    /// Stops here until another CPU calls [`resume_at`](Clock::resume_at) for this one.
    pub fn park(&self) {
        freehold_fiber::suspend();
    }

    /// Lets a CPU that has not begun, or is parked, go on at this time.
    pub fn resume_at(&self, cpu: u16, time: u64) {
        self.turns.enter(Key::new(time, cpu));
    }

    /// Stops here until somebody wakes this CPU, this time comes or the run is over; not at all if a wake came before.
    pub fn sleep_until(&self, time: u64) {
        self.take_turn();
        let slot = self.slot();
        if self.woken[slot].replace(false) {
            return;
        }
        self.sleeps[slot].set(true);
        self.let_others_run(time.min(self.end.get()).max(self.now.get()));
        self.sleeps[slot].set(false);
    }

    /// Ends a CPU's sleep now, or its next one at once.
    pub fn wake(&self, cpu: u16) {
        let slot = usize::from(cpu);
        if self.sleeps[slot].replace(false) {
            self.turns.change(Key::new(self.now.get(), cpu));
        } else {
            self.woken[slot].set(true);
        }
    }

    /// Takes the key of the CPU that is next, if there is one.
    #[inline]
    pub fn take_next(&self) -> Option<Key> {
        let known = self.next.replace(Key::NEVER);
        let next = if known == Key::NEVER { self.turns.take() } else { known };
        (next != Key::NEVER).then_some(next)
    }

    /// Who is next after the one that was taken, unless that one wants another turn before.
    #[inline]
    pub fn after_next(&self) -> Option<u16> {
        let key = self.turns.first();
        (key != Key::NEVER).then(|| key.cpu())
    }

    /// Lets the CPU of a key that was taken run from its time on.
    #[inline]
    pub fn begin(&self, key: Key) {
        self.cpu.set(key.cpu());
        self.now.set(key.time());
    }

    /// Lets nobody run.
    pub fn stop(&self) {
        self.cpu.set(NOBODY);
    }

    /// Whether a task runs, not a CPU.
    #[inline]
    fn is_task(&self) -> bool {
        self.cpu.get() >= self.cpus.get()
    }

    #[inline]
    fn slot(&self) -> usize {
        usize::from(self.cpu.get())
    }

    /// Stops here until it is this CPU's turn at this time.
    #[inline]
    fn let_others_run(&self, until: u64) {
        self.next.set(self.turns.exchange(Key::new(until, self.cpu.get())));
        freehold_fiber::suspend();
    }
}
