//! Scenarios on small machines with the real engine: reclaim, migration, huge pages. A scenario that is played ends
//! with a check that no page is lost.

use freehold::base::{Gfp, Order, Pfn};
use freehold::platform::{CompactEffort, Migrated, Migration};

use super::anonymous::HUGE;
use super::cache::Content;
use super::frames::List;
use super::{Advice, Defrag, FaultOutcome, Model, Parameters, Thp};
use crate::background;
use crate::costs::Costs;
use crate::cpu::Cpu;
use crate::machine::Machine;
use crate::outcome::vmstat::{self, Vmstat};
use crate::task::Task;
use crate::virtual_time::{self, Observer, VirtualTime};
use crate::window::Window;
use crate::world::World;

/// 64 MiB.
const MACHINE: Machine = Machine { pages: 1 << 14, nodes: 1 };
/// A minute.
const WINDOW: Window = Window { begin: 0, end: 60_000_000_000_000 };
const CPUS: u16 = 2;
/// Nanoseconds in a millisecond.
const MS: u64 = 1_000_000;

/// An observer that never observes.
struct Blind;

impl Observer for Blind {
    fn next(&self) -> u64 {
        u64::MAX
    }

    fn observe(&mut self) {}
}

/// Runs `code` on CPU 0 while the other CPU is idle and the background tasks work. Then frees the pages of the memory
/// model, and checks that no other page is allocated. Returns gauges and counters from before the frees.
fn play(parameters: &Parameters, code: impl Fn(&mut Cpu<'_, '_, VirtualTime>)) -> Vmstat {
    let model = Model::new(&MACHINE, parameters, 1);
    let platform = VirtualTime::new(&MACHINE, CPUS, &Costs::reference(), WINDOW, model);
    let policy = freehold_policies::parse("linux-6.12").expect("a policy").policy;
    let played = MACHINE.run_released(platform, CPUS, policy, |allocator| {
        let world = World::new(CPUS, WINDOW, 0);
        let ended = virtual_time::run(
            CPUS + Task::count(MACHINE.nodes),
            |number| match number.checked_sub(CPUS) {
                Some(task) => background::run_task(Task::from_number(task, MACHINE.nodes), allocator),
                None if number == 0 => code(&mut Cpu::new(allocator, &world, number, 1)),
                None => {}
            },
            &mut Blind,
        );
        ended.expect("it ends");
        let model = allocator.platform().model();
        let counts = vmstat::engine_counts(&allocator.platform().counts());
        let seen = Vmstat::new(vmstat::engine_gauges(allocator).chain(counts).chain(model.vmstat()));
        model.clear(|pfn, order| allocator.free_pages(pfn, order).expect("the model had it"));
        let census = allocator.check().expect("a sound machine");
        assert_eq!(census.allocated, 0, "{seen:?}");
        seen
    });
    played.expect("a machine")
}

fn get(vmstat: &Vmstat, name: &str) -> u64 {
    vmstat.get(name).unwrap_or_else(|| panic!("{name} is counted"))
}

fn thp(thp: Thp) -> Parameters {
    Parameters { thp, ..Parameters::default() }
}

/// Reads `times` times the machine's memory from files, with pauses.
fn read_times(cpu: &mut Cpu<'_, '_, VirtualTime>, times: u32) {
    for _ in 0..times * MACHINE.pages / 32 {
        cpu.read_file(32);
        cpu.work(MS / 10);
    }
}

#[test]
fn page_cache_fills_memory_and_is_reclaimed() {
    let seen = play(&Parameters::default(), |cpu| read_times(cpu, 4));
    let stolen = get(&seen, "pgsteal_kswapd") + get(&seen, "pgsteal_direct");
    assert!(stolen > u64::from(2 * MACHINE.pages), "{seen:?}");
    assert_eq!(get(&seen, "nr_inactive_file") + stolen, u64::from(4 * MACHINE.pages), "{seen:?}");
    assert_eq!((get(&seen, "failures"), get(&seen, "broken_promises")), (0, 0), "{seen:?}");
    assert!(get(&seen, "pgscan_kswapd") >= get(&seen, "pgsteal_kswapd"), "{seen:?}");
}

#[test]
fn pages_used_twice_outlive_pages_used_once() {
    assert_eq!((active_survivors(false), active_survivors(true)), (0, 1000));
}

/// Reads 1000 pages, uses them again if `is_used`, and reads more. Returns the number of the first pages that are
/// active then.
fn active_survivors(is_used: bool) -> usize {
    let left = std::cell::Cell::new(0);
    play(&Parameters::default(), |cpu| {
        cpu.read_file(1000);
        let model = cpu.model().expect("virtual time has one");
        let first: Vec<Pfn> = model.frames.iter().filter(|&pfn| model.frames.owner(pfn).list().is_some()).collect();
        assert_eq!(first.len(), 1000);
        first.iter().filter(|_| is_used).for_each(|&pfn| assert!(model.use_file(pfn)));
        // Too few reads to age an active page to the end of its list.
        read_times(cpu, 1);
        left.set(first.iter().filter(|&&pfn| model.frames.owner(pfn).list() == Some(List::ActiveFile)).count());
    });
    left.get()
}

#[test]
fn long_active_list_is_deactivated() {
    let seen = play(&Parameters::default(), |cpu| {
        let model = cpu.model().expect("virtual time has one");
        for _ in 0..MACHINE.pages / 256 {
            cpu.read_file(512);
            // Most cached pages are used again.
            model.frames.iter().take(12_000).for_each(|pfn| {
                model.use_file(pfn);
            });
            cpu.work(MS / 10);
        }
    });
    assert!(get(&seen, "pgactivate") > 12_000 && get(&seen, "pgdeactivate") > 0, "{seen:?}");
}

#[test]
fn dirty_pages_are_written_before_reclaim() {
    let parameters = Parameters { dirty_permille: 1000, writeback_us: 100, ..Parameters::default() };
    let seen = play(&parameters, |cpu| read_times(cpu, 3));
    let stolen = get(&seen, "pgsteal_kswapd") + get(&seen, "pgsteal_direct");
    assert!(stolen > u64::from(MACHINE.pages), "{seen:?}");
    assert!(get(&seen, "pgrotated") >= stolen && get(&seen, "vmscan_write") >= get(&seen, "pgrotated"), "{seen:?}");
}

#[test]
fn pinned_pages_are_not_reclaimed() {
    let parameters = Parameters { pinned_permille: 1000, pin_ms: 100_000, ..Parameters::default() };
    let seen = play(&parameters, |cpu| read_times(cpu, 1));
    assert_eq!(get(&seen, "pgsteal_kswapd") + get(&seen, "pgsteal_direct"), 0, "{seen:?}");
    assert!(get(&seen, "failures") > 0 && get(&seen, "pgscan_kswapd") > 0, "{seen:?}");
    let seen = play(&Parameters { pin_ms: 1, ..parameters }, |cpu| read_times(cpu, 2));
    assert!(get(&seen, "pgsteal_kswapd") > 0 && get(&seen, "failures") == 0, "{seen:?}");
}

#[test]
fn faults_on_an_empty_machine_get_huge_pages() {
    let seen = play(&Parameters::default(), |cpu| {
        let mut mapping = cpu.map(1500);
        let found = [0, 511, 512, 1024, 1024, 1499].map(|page| cpu.fault(&mut mapping, page));
        // The last range is shorter than a huge page.
        let expected = [
            FaultOutcome::Huge,
            FaultOutcome::Present,
            FaultOutcome::Huge,
            FaultOutcome::Small,
            FaultOutcome::Present,
            FaultOutcome::Small,
        ];
        assert_eq!(found, expected);
        assert_eq!(cpu.fault(&mut mapping, 1500), FaultOutcome::Failed, "beyond the end");
        let mut other = cpu.map(512);
        assert_eq!(cpu.fault(&mut other, 7), FaultOutcome::Huge);
        cpu.unmap(other);
    });
    assert_eq!((get(&seen, "thp_fault_alloc"), get(&seen, "thp_fault_fallback"), get(&seen, "pgfault")), (3, 0, 5));
    assert_eq!((get(&seen, "nr_inactive_anon"), get(&seen, "nr_anon_transparent_hugepages")), (1026, 2));
}

#[test]
fn unadvised_mappings_get_small_pages() {
    let off = thp(Thp { enabled: Advice::Madvise, ..Thp::default() });
    let seen = play(&off, |cpu| {
        let mut mapping = cpu.map(512);
        (0..512).for_each(|page| assert_eq!(cpu.fault(&mut mapping, page), FaultOutcome::Small));
        cpu.unmap(mapping);
    });
    assert_eq!((get(&seen, "thp_fault_alloc"), get(&seen, "thp_fault_fallback")), (0, 0));
    assert_eq!(get(&seen, "nr_inactive_anon"), 0);
}

/// Fills memory with files, and then faults huge pages of a task.
fn fault_under_pressure(parameters: &Parameters) -> Vmstat {
    play(parameters, |cpu| {
        read_times(cpu, 2);
        let mut mapping = cpu.map(8 * 512);
        for range in 0..8 {
            cpu.fault(&mut mapping, range * 512);
            cpu.work(MS);
        }
    })
}

#[test]
fn compaction_moves_the_page_cache_for_huge_pages() {
    let eager = thp(Thp { pages_to_scan: 0, defrag: Defrag::Always, madvised_percent: 100, ..Thp::default() });
    let seen = fault_under_pressure(&eager);
    assert!(get(&seen, "thp_fault_alloc") > 0 && get(&seen, "compact_success") > 0, "{seen:?}");
    assert!(get(&seen, "pgmigrate_success") > 0, "{seen:?}");
    assert_eq!(get(&seen, "broken_promises"), 0, "{seen:?}");
    let lazy = thp(Thp { pages_to_scan: 0, defrag: Defrag::Never, ..Thp::default() });
    let seen = fault_under_pressure(&lazy);
    assert_eq!(get(&seen, "compact_stall"), 0, "{seen:?}");
    assert!(get(&seen, "thp_fault_fallback") > 0, "{seen:?}");
}

#[test]
fn khugepaged_collapses_small_pages() {
    let parameters = thp(Thp { scan_sleep_ms: 100, ..Thp::default() });
    let seen = play(&parameters, |cpu| {
        // Kernel pages in every pageblock, so that the fault finds no huge page.
        let (mut kernel, mut freed) = (Vec::new(), Vec::new());
        while let Some(block) = cpu.alloc(Gfp::KERNEL | Gfp::NORETRY, Order::new(3)) {
            if block.pfn.is_aligned(Order::new(5)) { freed.push(block) } else { kernel.push(block) }
        }
        cpu.free_all(&mut freed);
        let mut mapping = cpu.map(512);
        assert_eq!(cpu.fault(&mut mapping, 3), FaultOutcome::Small);
        cpu.free_all(&mut kernel);
        cpu.work(1000 * MS);
        assert_eq!(cpu.fault(&mut mapping, 4), FaultOutcome::Present, "it is all there now");
    });
    assert_eq!((get(&seen, "thp_fault_fallback"), get(&seen, "thp_collapse_alloc")), (1, 1), "{seen:?}");
    assert_eq!(get(&seen, "nr_anon_transparent_hugepages"), 1);
}

#[test]
fn shrinkers_free_slabs_under_pressure() {
    let seen = play(&Parameters::default(), |cpu| {
        for _ in 0..500 {
            if let Some(block) = cpu.alloc(Gfp::KERNEL | Gfp::RECLAIMABLE, Order::new(1)) {
                cpu.shrinkable(block);
            }
        }
        read_times(cpu, 12);
    });
    assert!(get(&seen, "slabs_scanned") > 0 && get(&seen, "nr_slab_reclaimable") < 1000, "{seen:?}");
}

/// Returns a migration of one page, as compaction requests it.
fn move_page(from: u32, to: u32, effort: CompactEffort) -> Migration {
    Migration { from: Pfn::new(from), to: Pfn::new(to), order: Order::ZERO, refs: 1, compound: false, effort }
}

#[test]
fn refused_migration_changes_nothing() {
    let model = Model::new(&MACHINE, &Parameters::default(), 1);
    model.add_file(Pfn::new(1), Order::ZERO, Content::Dirty);
    model.pins.pin(&model.frames, Pfn::new(1), 100);
    for (migration, now) in [
        (move_page(1, 9, CompactEffort::SyncFull), 99),
        (move_page(2, 9, CompactEffort::SyncFull), 99),
        (Migration { refs: 2, ..move_page(1, 9, CompactEffort::SyncFull) }, 200),
        (Migration { order: HUGE, ..move_page(1, 512, CompactEffort::SyncFull) }, 200),
    ] {
        assert_eq!(model.migrate(&migration, now), Migrated::Refused, "{migration:?}");
    }
    model.write(&model.nodes[0], Pfn::new(1), 300);
    assert_eq!(model.migrate(&move_page(1, 9, CompactEffort::SyncLight), 200), Migrated::Refused);
    assert_eq!(model.migrate(&move_page(1, 9, CompactEffort::SyncFull), 200), Migrated::Moved);
    assert_eq!(model.nodes[0].lists.oldest(List::Writeback), Some(Pfn::new(9)));
    model.finish_writes(&model.nodes[0], 300);
    assert_eq!(model.nodes[0].lists.oldest(List::InactiveFile), Some(Pfn::new(9)));
}
