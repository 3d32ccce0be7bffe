//! State of kswapd at the start of each direct reclaim, from the scheduler's events.
//!
//! A direct reclaim that begins while kswapd waits for a CPU may be due to the load of the machine, which no rule of the
//! allocator decides. If several nodes have a kswapd, the most active one counts.

use freehold_report::report::{Column, Table, Value};
use freehold_trace::state::COSTLY_ORDER;
use freehold_trace::{Facts, Kind, Row};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::work::is_thread;

/// States of a task that leaves a CPU, in `sched_switch`. Preempted tasks have another bit above these.
const STATE_MASK: i64 = 0xff;
const UNINTERRUPTIBLE: i64 = 2;

/// State of kswapd, from the least to the most active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Asleep,
    Blocked,
    Runnable,
    Running,
}

/// Direct reclaims of some orders, by the state of kswapd when they began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KswapdAtReclaim {
    /// Orders of the requests.
    pub orders: &'static str,
    /// kswapd was running.
    pub running: u64,
    /// kswapd was runnable and waited for a CPU.
    pub runnable: u64,
    /// kswapd waited for a lock or a disk.
    pub blocked: u64,
    /// kswapd was asleep.
    pub asleep: u64,
    /// The recording has no earlier event of kswapd.
    pub unknown: u64,
}

/// Collector of a recording's events.
#[derive(Debug, Default)]
pub(crate) struct KswapdStates {
    /// State of each kswapd; `None` before its first event.
    states: FxHashMap<u32, Option<State>>,
    /// Above order 3, and orders 0 to 3.
    counts: [KswapdAtReclaim; 2],
    has_switches: bool,
}

impl KswapdStates {
    /// Creates a collector for the kswapd tasks of a recording.
    pub(crate) fn new(facts: &Facts) -> KswapdStates {
        let tasks = (0..).zip(&facts.tasks).filter(|(_, task)| is_thread(&task.name, "kswapd"));
        KswapdStates {
            states: tasks.map(|(number, _)| (number, None)).collect(),
            counts: ["above order 3", "orders 0 to 3"]
                .map(|orders| KswapdAtReclaim { orders, ..KswapdAtReclaim::default() }),
            has_switches: false,
        }
    }

    /// Handles an event of the scheduler or of direct reclaim; ignores others.
    pub(crate) fn observe(&mut self, row: &Row) {
        match row.kind {
            Kind::SchedSwitch => {
                self.has_switches = true;
                let left = match row.args[1] & STATE_MASK {
                    0 => State::Runnable,
                    UNINTERRUPTIBLE => State::Blocked,
                    _ => State::Asleep,
                };
                self.enter(row.task, left);
                self.enter(row.args[0] as u32, State::Running);
            }
            Kind::SchedWaking => {
                let woken = row.args[0] as u32;
                if self.states.get(&woken) != Some(&Some(State::Running)) {
                    self.enter(woken, State::Runnable);
                }
            }
            Kind::DirectReclaimBegin => self.count(row.order),
            _ => {}
        }
    }

    fn enter(&mut self, task: u32, state: State) {
        if let Some(known) = self.states.get_mut(&task) {
            *known = Some(state);
        }
    }

    fn count(&mut self, order: u8) {
        let count = &mut self.counts[usize::from(order <= COSTLY_ORDER)];
        let most_active = self.states.values().copied().max().flatten();
        *match most_active {
            Some(State::Running) => &mut count.running,
            Some(State::Runnable) => &mut count.runnable,
            Some(State::Blocked) => &mut count.blocked,
            Some(State::Asleep) => &mut count.asleep,
            None => &mut count.unknown,
        } += 1;
    }

    /// Returns the counts of the orders above 3 and of the orders 0 to 3; none for a recording without switches of
    /// tasks.
    pub(crate) fn finish(self) -> Vec<KswapdAtReclaim> {
        if self.has_switches { self.counts.to_vec() } else { Vec::new() }
    }
}

/// Returns the table.
pub(crate) fn table(rows: &[KswapdAtReclaim]) -> Table {
    let cells = rows.iter().map(|row| {
        let counts = [row.running, row.runnable, row.blocked, row.asleep, row.unknown].map(Value::count);
        [vec![Value::text(row.orders)], counts.to_vec()].concat()
    });
    let names = ["running", "waits for a CPU", "blocked", "asleep", "unknown"];
    Table::new("Direct reclaims by the state of kswapd when they began", Column::several(&["orders"], &names), cells)
}

#[cfg(test)]
mod tests {
    use freehold_trace::facts::Task;

    use super::*;

    fn switch(task: u32, next: i64, state: i64) -> Row {
        Row { task, args: [next, state, 120], ..Row::new(Kind::SchedSwitch) }
    }

    fn reclaim(order: u8) -> Row {
        Row { task: 2, order, ..Row::new(Kind::DirectReclaimBegin) }
    }

    #[test]
    fn direct_reclaims_are_counted_by_the_state_of_kswapd() {
        let tasks = ["", "kswapd0", "cc1"].map(|name| Task { pid: 1, name: name.to_owned() }).to_vec();
        let facts = Facts { tasks, ..Facts::default() };
        let waking = Row { task: 2, args: [1, 0, 120], ..Row::new(Kind::SchedWaking) };
        let mut states = KswapdStates::new(&facts);
        for row in [
            reclaim(0),
            waking,
            reclaim(0),
            switch(2, 1, 0),
            reclaim(3),
            waking,
            reclaim(0),
            switch(1, 2, 0x100),
            reclaim(9),
            switch(2, 1, 0),
            switch(1, 2, 2),
            reclaim(0),
            switch(1, 2, 1),
            reclaim(4),
        ] {
            states.observe(&row);
        }
        let [costly, small] = states.finish().try_into().expect("two rows");
        assert_eq!((costly.runnable, costly.asleep, costly.running), (1, 1, 0));
        assert_eq!((small.unknown, small.runnable, small.running, small.blocked), (1, 1, 2, 1));
    }

    #[test]
    fn recording_without_switches_has_no_rows() {
        let mut states = KswapdStates::new(&Facts::default());
        states.observe(&reclaim(0));
        assert!(states.finish().is_empty());
    }
}
