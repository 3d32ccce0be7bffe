//! A play: copies of a script, distributed to the CPUs of one run.
//!
//! Each copy plays a piece of the recording, as long as fits the measured time at the plan's pace. The next copy begins
//! later in the recording, or again near its begin. A task of a copy has a simulated CPU for each recorded CPU on which
//! it ran, so it migrates when it migrated in the recording, and remote frees stay remote. If tasks of one recorded CPU
//! passed blocks to each other, most of these frees become remote, since there are more CPUs. Blocks that are freed in
//! the piece and were allocated before it are allocated in a prelude, at evenly distributed times, by the CPU of the
//! task that allocated them. The play begins after the prelude.
//!
//! CPUs do not wait for each other. If a free comes before its allocation, it leaves a mark, and the allocation is then
//! freed at once.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use freehold::base::Pfn;
use rustc_hash::FxHashMap;

use super::cast::CpuSplit;
use super::script::{Action, BlockRequest, Duty, Script, Step};
use crate::block::Block;

/// State of a block that has not been allocated yet. No frame has this number.
const TO_COME: u32 = u32::MAX;
/// State of a block that was freed, or that will be freed as soon as it is allocated.
const ENDED: u32 = u32::MAX - 1;

/// Time of a line of the prelude that has not been set yet.
const UNSET: u64 = u64::MAX;

/// Parameters of a play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaySettings {
    /// CPUs of the run.
    pub cpus: u16,
    /// Duration of the prelude, in nanoseconds.
    pub prelude_ns: u64,
    /// Duration of the play after the prelude, in nanoseconds.
    pub play_ns: u64,
    /// Distance in the recording between the begins of two successive copies, in nanoseconds.
    pub offset_ns: u64,
    /// Speed of the play, in percent of the recorded speed.
    pub pace_percent: u64,
    /// Division of the CPUs between purgers and other tasks.
    pub split: CpuSplit,
    /// Seed for the begin of the first copy and for the assignment of tasks to CPUs.
    pub seed: u64,
}

impl PlaySettings {
    /// Returns the length of the piece of the recording that is played, in nanoseconds.
    pub(crate) fn piece_ns(&self) -> u64 {
        (u128::from(self.play_ns) * u128::from(self.pace_percent) / 100).min(u128::from(u64::MAX)) as u64
    }
}

/// One line of a CPU's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Time of the line, in nanoseconds since the run began.
    pub due_ns: u64,
    /// Number of the block in the play.
    pub block: u32,
    /// Allocation or free.
    pub action: Action,
}

/// Lines of one CPU, in order of time.
pub(crate) type Part = Vec<Line>;

/// A block of the play.
#[derive(Debug)]
struct Role {
    request: BlockRequest,
    /// CPU that allocates the block.
    cpu: u16,
    /// First frame of the block, [`TO_COME`] or [`ENDED`].
    state: AtomicU32,
}

/// Copies of a script, for one run.
#[derive(Debug, Default)]
pub struct Play {
    parts: Vec<Part>,
    roles: Vec<Role>,
    pages_peak: u64,
}

impl Play {
    /// Distributes the script to the CPUs. Takes a few steps for each event that will be played.
    pub(crate) fn new(script: &Script, settings: PlaySettings) -> Play {
        let mut play = Play::default();
        play.parts.resize_with(usize::from(settings.cpus), Part::new);
        let piece = settings.piece_ns();
        let starts = script.duration.saturating_sub(piece) + 1;
        let mut rng = fastrand::Rng::with_seed(settings.seed);
        let first = rng.u64(0..starts);
        for copy in 0..copies(script, settings.cpus) {
            let start = first.wrapping_add(u64::from(copy).wrapping_mul(settings.offset_ns)) % starts;
            let steps = script.between(start, start.saturating_add(piece));
            let (cast, known) = (rng.u32(..), FxHashMap::default());
            Copy { play: &mut play, script, settings, cast, start, known }.deal(steps);
        }
        for part in &mut play.parts {
            spread_prelude(part, settings.prelude_ns);
            part.sort_by_key(|line| line.due_ns);
        }
        play
    }

    /// Returns the lines of a CPU.
    pub(crate) fn part(&self, cpu: u16) -> &[Line] {
        &self.parts[usize::from(cpu)]
    }

    /// Returns an upper bound of the pages in use: the sum of the peaks of all copies.
    pub fn pages_peak(&self) -> u64 {
        self.pages_peak
    }

    /// Returns the request that allocates a block.
    pub(crate) fn request(&self, block: u32) -> BlockRequest {
        self.roles[block as usize].request
    }

    /// Records that a block was allocated. Returns `false` if it has been freed before; the caller must free it now.
    pub fn enter(&self, block: u32, pfn: Pfn) -> bool {
        self.roles[block as usize].state.compare_exchange(TO_COME, pfn.raw(), Relaxed, Relaxed).is_ok()
    }

    /// Records that a block is freed. Returns the block if it is allocated; the caller must free it then. Returns
    /// `None` if the block was freed before or has not been allocated yet.
    pub fn leave(&self, block: u32) -> Option<Block> {
        let role = &self.roles[block as usize];
        let pfn = role.state.swap(ENDED, Relaxed);
        let is_there = pfn != TO_COME && pfn != ENDED;
        is_there.then(|| Block { pfn: Pfn::new(pfn), order: role.request.order, from: role.cpu })
    }
}

/// Sets the times of the lines of the prelude, which have no time yet and are between other lines, evenly distributed.
fn spread_prelude(part: &mut Part, prelude_ns: u64) {
    let unset = part.iter().filter(|line| line.due_ns == UNSET).count().max(1) as u64;
    for (index, line) in (0..).zip(part.iter_mut().filter(|line| line.due_ns == UNSET)) {
        line.due_ns = (u128::from(prelude_ns) * index / u128::from(unset)) as u64;
    }
}

/// Returns the number of copies that keep `cpus` CPUs as busy as the recorded CPUs, rounded down but at least 1.
pub(crate) fn copies(script: &Script, cpus: u16) -> u16 {
    (cpus / script.cpus).max(1)
}

/// State while one copy is distributed.
struct Copy<'p> {
    play: &'p mut Play,
    script: &'p Script,
    settings: PlaySettings,
    /// Random number that varies the assignment of tasks to CPUs between copies.
    cast: u32,
    /// Begin of the piece, in nanoseconds of the recording.
    start: u64,
    /// Numbers in the play of the script's blocks.
    known: FxHashMap<u32, u32>,
}

impl Copy<'_> {
    fn deal(&mut self, steps: &[Step]) {
        let props_pages = self.set_out_props(steps);
        let (mut pages, mut peak) = (props_pages, props_pages);
        for step in steps {
            let size = i64::from(self.script.blocks[step.block as usize].order.pages());
            pages += if step.action == Action::Alloc { size } else { -size };
            peak = peak.max(pages);
            let block = self.number(step.block);
            let since_ns = (step.time - self.start) * 100 / self.settings.pace_percent.max(1);
            let due_ns = self.settings.prelude_ns + since_ns;
            let cpu = self.cpu_of(step.runner, self.script.duty(step.runner));
            self.play.parts[usize::from(cpu)].push(Line { due_ns, block, action: step.action });
        }
        self.play.pages_peak += peak.max(0) as u64;
    }

    /// Numbers the blocks of the piece. Adds the allocations of those that the piece frees but does not allocate to the
    /// prelude, and returns the number of their pages.
    fn set_out_props(&mut self, steps: &[Step]) -> i64 {
        let mut pages = 0;
        for step in steps {
            let is_prop = step.action == Action::Free && !self.known.contains_key(&step.block);
            let block = self.number(step.block);
            if is_prop {
                let cpu = self.play.roles[block as usize].cpu;
                self.play.parts[usize::from(cpu)].push(Line { due_ns: UNSET, block, action: Action::Alloc });
                pages += i64::from(self.script.blocks[step.block as usize].order.pages());
            }
        }
        pages
    }

    /// Returns the number of a block in the play. A new number is assigned if it has none.
    fn number(&mut self, block: u32) -> u32 {
        let request = self.script.blocks[block as usize];
        // The task that allocated a block before the recording is unknown, so any CPU may play the allocation.
        let cpu = match request.runner {
            Some(runner) => self.cpu_of(runner, self.script.duty(runner)),
            None => self.cpu_of(block, Duty::Other),
        };
        let roles = &mut self.play.roles;
        *self.known.entry(block).or_insert_with(|| {
            roles.push(Role { request, cpu, state: AtomicU32::new(TO_COME) });
            roles.len() as u32 - 1
        })
    }

    /// Returns the CPU that plays a runner of this copy. The hash spreads adjacent runners over different CPUs.
    fn cpu_of(&self, runner: u32, duty: Duty) -> u16 {
        let mixed = (runner ^ self.cast).wrapping_mul(0x9e37_79b1);
        self.settings.split.cpu(self.settings.cpus, mixed ^ mixed >> 15, duty)
    }
}

#[cfg(test)]
mod tests {
    use freehold::base::{Gfp, Order};

    use super::*;

    const SETTINGS: PlaySettings = PlaySettings {
        cpus: 2,
        prelude_ns: 0,
        play_ns: 100,
        offset_ns: 0,
        pace_percent: 100,
        split: CpuSplit::Shared,
        seed: 1,
    };

    fn step(time: u64, runner: u32, block: u32, action: Action) -> Step {
        Step { time, runner, block, action }
    }

    fn request(order: u8, runner: Option<u32>) -> BlockRequest {
        BlockRequest { gfp: Gfp::KERNEL, order: Order::new(order), runner }
    }

    /// Returns a script in which runner 1 allocates blocks 0 and 1. Runner 2 frees block 0 later, and block 2, which
    /// was allocated before.
    fn script() -> Script {
        Script {
            steps: vec![
                step(10, 1, 0, Action::Alloc),
                step(20, 1, 1, Action::Alloc),
                step(60, 2, 0, Action::Free),
                step(90, 2, 2, Action::Free),
            ],
            blocks: vec![request(0, Some(1)), request(1, Some(1)), request(2, None)],
            duration: 100,
            cpus: 2,
            ..Script::default()
        }
    }

    fn lines(play: &Play) -> Vec<Line> {
        let mut lines: Vec<Line> = play.parts.iter().flatten().copied().collect();
        lines.sort_by_key(|line| line.due_ns);
        lines
    }

    fn dues(play: &Play) -> Vec<u64> {
        lines(play).iter().map(|line| line.due_ns).collect()
    }

    #[test]
    fn steps_are_assigned_once_and_runners_stay_together() {
        let play = Play::new(&script(), SETTINGS);
        assert_eq!(dues(&play), [0, 10, 20, 60, 90]);
        assert!(play.parts.iter().any(|part| [10, 20].iter().all(|due| part.iter().any(|line| line.due_ns == *due))));
    }

    #[test]
    fn purgers_play_on_their_own_cpus() {
        let duties = vec![Duty::Purger, Duty::Other];
        let script = Script { duties, cpus: 2, ..script() };
        for seed in 0..20 {
            let split = CpuSplit::Purgers { cpus_per_purger: 2 };
            let play = Play::new(&script, PlaySettings { cpus: 4, split, seed, ..SETTINGS });
            // Runner 1 is task 0, the purger; runner 2 is task 1.
            for (cpu, part) in play.parts.iter().enumerate() {
                assert!(
                    part.iter().all(|line| [10, 20].contains(&line.due_ns) == (cpu % 2 == 0)),
                    "seed {seed}: CPU {cpu} plays {part:?}"
                );
            }
        }
    }

    #[test]
    fn earlier_blocks_are_allocated_in_the_prelude() {
        let whole = Play::new(&script(), SETTINGS);
        assert_eq!(whole.pages_peak(), 4 + 1 + 2, "the prop, and both blocks before one is freed");
        let late = Script { steps: script().steps.split_off(2), ..script() };
        let play = Play::new(&late, PlaySettings { cpus: 1, prelude_ns: 40, ..SETTINGS });
        assert_eq!(dues(&play), [0, 20, 100, 130], "block 0 is there already");
    }

    #[test]
    fn copies_scale_with_cpus_and_time_with_the_pace() {
        let play = Play::new(&script(), PlaySettings { cpus: 8, ..SETTINGS });
        assert_eq!(lines(&play).len(), 4 * 5);
        let fast = Play::new(&script(), PlaySettings { pace_percent: 200, play_ns: 50, ..SETTINGS });
        assert_eq!(dues(&fast), [0, 5, 10, 30, 45]);
    }

    #[test]
    fn copies_start_at_offsets_from_the_seed() {
        let quarter = PlaySettings { play_ns: 25, offset_ns: 30, cpus: 4, ..SETTINGS };
        let first = lines(&Play::new(&script(), quarter));
        assert_eq!(first, lines(&Play::new(&script(), quarter)));
        let others = (2..20).map(|seed| lines(&Play::new(&script(), PlaySettings { seed, ..quarter })));
        assert!(others.into_iter().any(|other| other != first));
    }

    #[test]
    fn free_before_its_allocation_frees_the_block_on_arrival() {
        let play = Play::new(&script(), SETTINGS);
        assert_eq!(play.leave(0), None);
        assert!(!play.enter(0, Pfn::new(7)), "it goes back at once");
        assert!(play.enter(1, Pfn::new(8)));
        let left = play.leave(1).expect("it is there");
        assert_eq!((left.pfn, left.order), (Pfn::new(8), Order::new(1)));
        assert_eq!(play.leave(1), None, "once");
    }
}
