//! The clocks of all CPUs, and the order in which CPUs run.
//!
//! A CPU that is suspended until some time has a key in [`turns`](super::turns): that time and its number in one word.
//! The running CPU has no key, so comparing its time with the first key shows whether another CPU should run. A CPU
//! that waits for a lock has no key either; it gets one when the lock is handed to it.
//!
//! Every field is a cell of the thread, so nothing here allocates, borrows or locks. Between two turns, while no CPU
//! runs, the machine's observer may run: it takes no virtual time and never waits.
//!
//! Background tasks have clocks too, with numbers after those of the CPUs. Their time is counted separately.
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

/// CPU number that means no CPU. If it is the running CPU, the observer may run.
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

/// Activity that CPU time is counted for, outside of zone locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Work of the workload.
    Work,
    /// Allocations, frees, and transfers of cache lines to the CPU that uses a page.
    Operation,
    /// Splitting and merging blocks on lists.
    List,
    /// Stacks.
    Stack,
    /// Waiting for a zone lock.
    ZoneWait,
    /// Waiting for the lock of a list, or transferring it.
    ListWait,
    /// Reclaim and compaction.
    Reclaim,
    /// All activities of background tasks.
    Background,
}

/// Number of purposes.
const PURPOSES: usize = Purpose::Background as usize + 1;

/// All clocks, and the state that locks need.
pub struct Clock {
    /// Running CPU, or [`NOBODY`].
    cpu: Cell<u16>,
    /// Time of the running CPU.
    now: Cell<u64>,
    /// Number of CPUs; higher numbers are background tasks.
    cpus: Cell<u16>,
    turns: Turns,
    /// Key of the next CPU, if the CPU that stopped last has determined it.
    next: Cell<Key>,
    /// Ranks of the locks that each CPU holds, one bit each.
    held: [Cell<u8>; SLOTS],
    /// For each CPU that waits for a lock, the CPU that waits behind it.
    behind: [Cell<u16>; SLOTS],
    /// Whether each CPU waits for a wake, and whether a wake arrived before its wait.
    sleeps: [Cell<bool>; SLOTS],
    woken: [Cell<bool>; SLOTS],
    nodes: [Cell<u8>; SLOTS],
    spent: [Cell<u64>; PURPOSES],
    zone_hold: Cell<u64>,
    /// Time of the observer's next sample.
    look: Cell<u64>,
    /// Begin and end of the window in which time is counted. The run is over at its end.
    begin: Cell<u64>,
    end: Cell<u64>,
    prices: Cell<Prices>,
}

/// Costs of locks, in picoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Prices {
    /// Taking and releasing a zone lock.
    pub zone_lock: u64,
    /// Transfer of a lock that another CPU had last: on the same node, on another node.
    pub transfer: [u64; 2],
    /// Failed trylock of such a lock: on the same node, on another node.
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

    /// Resets everything for a run of `cpus` CPUs, followed by background tasks, on these nodes. The run is over at the
    /// end of its window. No CPU is scheduled yet.
    pub fn reset(&self, cpus: u16, nodes: &[NodeId], window: Window, costs: &Costs) {
        assert!(nodes.len() <= SLOTS && window.end < TIME_MAX, "too many CPUs or too long a window");
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

    /// Returns the running CPU, or [`NOBODY`].
    #[inline]
    pub fn cpu(&self) -> u16 {
        self.cpu.get()
    }

    /// Returns whether the observer runs.
    #[inline]
    pub fn is_observed(&self) -> bool {
        self.cpu.get() == NOBODY
    }

    /// Returns the time of the running CPU.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now.get()
    }

    /// Returns the time at which the run is over.
    pub fn end(&self) -> u64 {
        self.end.get()
    }

    /// Returns the costs of locks.
    #[inline]
    pub fn prices(&self) -> Prices {
        self.prices.get()
    }

    /// Returns 1 if the running CPU is on another node than `other`, otherwise 0.
    #[inline]
    pub fn distance_to(&self, other: u16) -> usize {
        usize::from(self.nodes[self.slot()].get() != self.nodes[usize::from(other)].get())
    }

    /// Advances the running CPU's clock for a purpose. Time under a zone lock counts as holding the lock instead. Does
    /// nothing while the observer runs.
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

    /// Counts time that the running CPU spent until now, as far as it is within the window.
    #[inline]
    pub fn count(&self, picoseconds: u64, purpose: Purpose) {
        let purpose = if self.is_task() { Purpose::Background } else { purpose };
        let spent = &self.spent[purpose as usize];
        spent.set(spent.get() + self.part_in_window(picoseconds));
    }

    /// Counts a section under a zone lock that ends now, as far as it is within the window.
    #[inline]
    pub fn count_hold(&self, picoseconds: u64) {
        if self.is_task() {
            return self.count(picoseconds, Purpose::Background);
        }
        self.zone_hold.set(self.zone_hold.get() + self.part_in_window(picoseconds));
    }

    /// Returns the part of the time until now that is within the window.
    #[inline]
    fn part_in_window(&self, picoseconds: u64) -> u64 {
        let now = self.now.get();
        now.min(self.end.get()).saturating_sub((now - picoseconds).max(self.begin.get()))
    }

    /// Returns the time of all CPUs in the window, by activity.
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

    /// Returns the ranks that the running CPU holds, one bit each.
    #[inline]
    pub fn held(&self) -> u8 {
        self.held[self.slot()].get()
    }

    /// Sets the ranks that the running CPU holds.
    #[inline]
    pub fn set_held(&self, ranks: u8) {
        self.held[self.slot()].set(ranks);
    }

    /// Returns the CPU that waits behind `cpu` for the same lock.
    pub fn behind(&self, cpu: u16) -> &Cell<u16> {
        &self.behind[usize::from(cpu)]
    }

    /// Lets every CPU whose clock is behind run first, and the observer if its next sample is due.
    #[inline]
    pub fn take_turn(&self) {
        let now = self.now.get();
        if self.is_observed() || Key::new(now, self.cpu.get()) < self.turns.first() && now < self.look.get() {
            return;
        }
        self.pause();
    }

    /// Sets the time of the observer's next sample.
    pub fn look_at(&self, time: u64) {
        self.look.set(time);
    }

    /// Suspends this CPU until no other CPU's clock is behind.
    #[inline(never)]
    pub fn pause(&self) {
        self.let_others_run(self.now.get());
    }

    /// Suspends this CPU until another CPU calls [`resume_at`](Clock::resume_at) for it.
    pub fn park(&self) {
        freehold_fiber::suspend();
    }

    /// Schedules a CPU to continue at this time. The CPU must not have begun, or must be parked.
    pub fn resume_at(&self, cpu: u16, time: u64) {
        self.turns.enter(Key::new(time, cpu));
    }

    /// Suspends this CPU until it is woken, this time is reached, or the run is over. Returns at once if a wake arrived
    /// before.
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

    /// Ends a CPU's sleep now, or its next sleep at once.
    pub fn wake(&self, cpu: u16) {
        let slot = usize::from(cpu);
        if self.sleeps[slot].replace(false) {
            self.turns.change(Key::new(self.now.get(), cpu));
        } else {
            self.woken[slot].set(true);
        }
    }

    /// Takes the key of the CPU that runs next, if there is one.
    #[inline]
    pub fn take_next(&self) -> Option<Key> {
        let known = self.next.replace(Key::NEVER);
        let next = if known == Key::NEVER { self.turns.take() } else { known };
        (next != Key::NEVER).then_some(next)
    }

    /// Returns the CPU that follows the one that was taken, unless the latter gets another turn before; `None` if no
    /// other CPU has a key.
    #[inline]
    pub fn after_next(&self) -> Option<u16> {
        let key = self.turns.first();
        (key != Key::NEVER).then(|| key.cpu())
    }

    /// Makes the CPU of a taken key the running CPU, at the time of the key.
    #[inline]
    pub fn begin(&self, key: Key) {
        self.cpu.set(key.cpu());
        self.now.set(key.time());
    }

    /// Makes no CPU the running CPU.
    pub fn stop(&self) {
        self.cpu.set(NOBODY);
    }

    /// Returns whether a background task runs, or the observer.
    #[inline]
    fn is_task(&self) -> bool {
        self.cpu.get() >= self.cpus.get()
    }

    #[inline]
    fn slot(&self) -> usize {
        usize::from(self.cpu.get())
    }

    /// Suspends this CPU until time `until`, and until no other CPU's clock is behind.
    #[inline]
    fn let_others_run(&self, until: u64) {
        self.next.set(self.turns.exchange(Key::new(until, self.cpu.get())));
        freehold_fiber::suspend();
    }
}
