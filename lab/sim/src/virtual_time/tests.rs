//! Scenarios with a few CPUs and bare locks, in which every time is known.

use std::cell::{Cell, RefCell};

use freehold::base::CpuId;
use freehold::base::lock::{Locked, Rank, Ranked};
use freehold::platform::Platform;

use super::lock::VirtualLock;
use super::{Observer, StopReason, VirtualTime};
use crate::CPUS_MAX;
use crate::costs::Costs;
use crate::executor::Executor;
use crate::machine::Machine;
use crate::memory::{Model, Parameters};
use crate::outcome::Times;
use crate::window::Window;

/// End of the measured time in scenarios without a window of their own, in picoseconds.
const END: u64 = 1_000_000;
/// Transfer costs of a lock, in scenarios with costs: on the same node, on another node.
const TRANSFER: [u64; 2] = [7, 70];

struct Zone;
struct List;

impl Ranked for Zone {
    const RANK: Rank = Rank::Zone;
}

impl Ranked for List {
    const RANK: Rank = Rank::Pcp;
}

type ZoneLock = Locked<VirtualLock, Zone>;
type ListLock = Locked<VirtualLock, List>;

/// An observer that observes once, at a given time.
#[derive(Default)]
struct Eye {
    at: u64,
    has_looked: bool,
}

impl Observer for Eye {
    fn next(&self) -> u64 {
        if self.has_looked { u64::MAX } else { self.at }
    }

    fn observe(&mut self) {
        self.has_looked = true;
    }
}

fn platform(cpus: u16, nodes: u8, transfer: [u64; 2]) -> VirtualTime {
    virtual_time_in(cpus, nodes, transfer, Window { begin: 0, end: END })
}

fn virtual_time_in(cpus: u16, nodes: u8, transfer: [u64; 2], window: Window) -> VirtualTime {
    let free = "alloc free zone_lock link block split merge push take absorb line line_remote parcel reclaim scan compact_scan migrate";
    let mut table = "name = \"scene\"\n".to_owned();
    free.split(' ').for_each(|step| table += &format!("{step}_ps = 0\n"));
    let [near, far] = transfer;
    table += &format!("lock_transfer_ps = {near}\nlock_transfer_remote_ps = {far}\n");
    let costs = Costs::parse(&table).expect("every step has a cost");
    let machine = Machine { pages: 1024, nodes };
    let model = Model::new(&machine, &Parameters::default(), 0);
    VirtualTime::new(&machine, cpus, &costs, window, model)
}

fn play_on(platform: &VirtualTime, cpus: u16, code: impl Fn(u16, &VirtualTime)) -> Result<Times, StopReason> {
    super::run(cpus, |cpu| code(cpu, platform), &mut Eye::default())?;
    Ok(platform.times())
}

/// Plays a scenario in which only work takes time.
fn play(cpus: u16, code: impl Fn(u16, &VirtualTime)) -> Result<Times, StopReason> {
    play_on(&platform(cpus, 1, [0; 2]), cpus, code)
}

#[test]
fn lock_is_fifo_and_waits_add_up() {
    let (zone, order) = (ZoneLock::new(Zone), RefCell::new(Vec::new()));
    let times = play(4, |cpu, time| {
        // A CPU with a higher number arrives earlier.
        time.work(u64::from(3 - cpu) * 10);
        let guard = zone.lock();
        order.borrow_mut().push((cpu, time.now()));
        time.work(1000);
        drop(guard);
    });
    assert_eq!(order.into_inner(), [(3, 0), (2, 1000), (1, 2000), (0, 3000)]);
    let times = times.unwrap();
    assert_eq!((times.zone_wait, times.zone_hold, times.work), (990 + 1980 + 2970, 4000, 60));
}

#[test]
fn lock_with_a_parked_holder_is_fifo() {
    let (list, zone) = (ListLock::new(List), ZoneLock::new(Zone));
    let order = RefCell::new(Vec::new());
    let times = play(4, |cpu, time| {
        time.work(u64::from(cpu) * 10);
        let _list = list.lock();
        order.borrow_mut().push((cpu, time.now()));
        time.work(500);
        // Other CPUs' clocks are behind now, so they run first and find the list's lock held.
        let _zone = zone.lock();
    });
    assert_eq!(order.into_inner(), [(0, 0), (1, 500), (2, 1000), (3, 1500)]);
    assert_eq!(times.unwrap().list_wait, 490 + 980 + 1470);
}

#[test]
fn times_are_clipped_to_the_window() {
    let zone = ZoneLock::new(Zone);
    let times = play_on(&virtual_time_in(2, 1, [0; 2], Window { begin: 100, end: 1000 }), 2, |cpu, time| {
        time.work(50 + u64::from(cpu) * 20);
        let guard = zone.lock();
        time.work(80);
        drop(guard);
        time.work(600);
        let _guard = zone.lock();
        time.work(500);
    });
    // CPU 0 holds the lock from 50 to 130, with 30 inside the window. CPU 1 waits from 70 to 130, with 30 inside, and
    // then holds it for 80. The second section is from 730 to 1230, and the other CPU waits for it from 810 on.
    let times = times.unwrap();
    assert_eq!((times.zone_hold, times.zone_wait, times.work), (30 + 80 + 270, 30 + 190, 2 * 600));
    assert_eq!(times.sum(), 2 * 900);
}

#[test]
fn trylock_fails_exactly_while_the_lock_is_held() {
    let (zone, seen) = (ZoneLock::new(Zone), RefCell::new(Vec::new()));
    play(2, |cpu, time| match cpu {
        0 => {
            time.work(100);
            let _guard = zone.lock();
            time.work(200);
        }
        _ => {
            for _ in 0..5 {
                time.work(75);
                let is_taken = zone.try_lock().is_some();
                seen.borrow_mut().push((time.now(), is_taken));
            }
        }
    })
    .unwrap();
    assert_eq!(seen.into_inner(), [(75, true), (150, false), (225, false), (300, true), (375, true)]);
}

#[test]
fn trylock_fails_while_the_holder_is_parked() {
    let (list, zone, failed) = (ListLock::new(List), ZoneLock::new(Zone), Cell::new(0));
    play(2, |cpu, time| {
        time.work(u64::from(cpu));
        let Some(_list) = list.try_lock() else { return failed.set(failed.get() + 1) };
        time.work(10);
        let _zone = zone.lock();
    })
    .unwrap();
    assert_eq!(failed.get(), 1);
}

#[test]
fn lock_transfer_cost_depends_on_the_node() {
    let (zone, ends) = (ZoneLock::new(Zone), RefCell::new(Vec::new()));
    let times = play_on(&platform(4, 2, TRANSFER), 4, |cpu, time| {
        time.work(u64::from(cpu) * 1000);
        drop(zone.lock());
        drop(zone.lock());
        ends.borrow_mut().push(time.now() % 1000);
    });
    // The first acquisition is free of transfer. CPUs 0 and 1 are on one node, 2 and 3 on the other.
    assert_eq!(ends.into_inner(), [0, TRANSFER[0], TRANSFER[1], TRANSFER[0]]);
    assert_eq!(times.unwrap().zone_hold, TRANSFER[0] * 2 + TRANSFER[1]);
}

#[test]
fn wrong_lock_order_is_an_error_with_cpu_and_time() {
    let (list, zone) = (ListLock::new(List), ZoneLock::new(Zone));
    let stopped = play(3, |cpu, time| {
        time.work(5000);
        if cpu == 1 {
            let _zone = zone.lock();
            let _list = list.lock();
        }
        time.wait();
    });
    let Err(StopReason::Panic { cpu: 1, at_ns: 5, message }) = stopped else { panic!("{stopped:?}") };
    assert!(message.contains("rank Pcp was awaited while"), "{message}");
    // Suspended fibers were unwound, and the thread is ready for another run.
    assert_eq!(play(1, |_, time| time.work(1)).unwrap().work, 1);
}

#[test]
fn unreleased_lock_is_a_deadlock_error() {
    let zone = ZoneLock::new(Zone);
    let stopped = play(3, |_, _| std::mem::forget(zone.lock()));
    assert_eq!(stopped, Err(StopReason::Deadlock { waiting: 2 }));
}

#[test]
fn wakes_are_kept_and_the_end_wakes_all_cpus() {
    let woken = RefCell::new(Vec::new());
    play(3, |cpu, time| match cpu {
        0 => {
            time.work(100);
            time.take_turn();
            time.wake(CpuId(1));
            time.wake(CpuId(2));
        }
        _ => {
            // CPU 2 is woken before it waits.
            time.work(u64::from(cpu - 1) * 200);
            time.wait();
            woken.borrow_mut().push((cpu, time.now()));
            time.wait();
            woken.borrow_mut().push((cpu, time.now()));
            assert!(time.is_over());
        }
    })
    .unwrap();
    assert_eq!(woken.into_inner(), [(1, 100), (2, 200), (1, END), (2, END)]);
}

#[test]
fn observer_runs_once_all_clocks_reach_its_time() {
    let (platform, clocks) = (platform(8, 1, [0; 2]), RefCell::new(Vec::new()));
    let mut eye = Eye { at: 500, has_looked: false };
    super::run(
        8,
        |_| {
            for _ in 0..10 {
                platform.work(100);
                platform.take_turn();
                clocks.borrow_mut().push(platform.now());
            }
        },
        &mut eye,
    )
    .unwrap();
    assert!(eye.has_looked);
    assert!(clocks.into_inner().is_sorted(), "nobody takes a turn at an earlier time than another before");
}

#[test]
fn largest_number_of_cpus_keep_their_identity() {
    let (zone, sum) = (ZoneLock::new(Zone), Cell::new(0_u64));
    play(CPUS_MAX, |cpu, time| {
        for _ in 0..20 {
            time.work(u64::from(cpu % 7));
            let _guard = zone.lock();
            assert_eq!(time.cpu(), CpuId(cpu));
            sum.set(sum.get() + u64::from(cpu));
        }
    })
    .unwrap();
    assert_eq!(sum.get(), 20 * (0..u64::from(CPUS_MAX)).sum::<u64>());
}

#[test]
fn observer_runs_for_a_single_cpu() {
    let platform = platform(1, 1, [0; 2]);
    let seen = Cell::new(0);
    struct Count<'c>(&'c Cell<u64>);
    impl Observer for Count<'_> {
        fn next(&self) -> u64 {
            self.0.get() * 100
        }

        fn observe(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    super::run(
        1,
        |_| {
            for _ in 0..10 {
                assert_eq!(seen.get(), platform.now() / 100 + 1);
                platform.work(100);
                platform.take_turn();
            }
        },
        &mut Count(&seen),
    )
    .unwrap();
}
