//! Cells: a kernel, a workload, and a size. What may be looked at while the engine is tuned, and what may not.
//!
//! The grid of all cells is thousands of boots, so a suite is a sample of it, drawn by a seed. A larger sample of the same
//! seed begins with the smaller one. A cell is *held out* if its workload is, or its size is: then nobody has fitted the
//! engine to it, unless by looking at the held-out half of the table, which is there to be believed and not to be used.

use std::fmt;

use fastrand::Rng;
use freehold_boot::Mebibytes;

/// Kernels that are asked, by version.
pub const KERNELS: [&str; 5] = ["6.12", "6.16", "6.18", "7.2", "7.3"];

/// Workloads and sizes of one half.
struct Part {
    workloads: &'static [&'static str],
    cpus: &'static [u16],
    memory: &'static [u32],
}

/// What may be looked at.
const OPEN: Part =
    Part { workloads: &["calm", "pressure", "huge-pages", "slab-churn"], cpus: &[2, 4], memory: &[512, 1024] };
/// What may not: workloads of its own, and sizes of its own for all workloads.
const HELD_OUT: Part = Part {
    workloads: &["fork-storm", "file-copy", "build", "stress-ng"],
    cpus: &[1, 3, 6, 8],
    memory: &[384, 768, 1536, 4096],
};

/// Held out too, on the kernels that our module is built for: those that Debian has headers of.
const BY_MODULE: [&str; 2] = ["atomic", "ranges"];
const WITH_HEADERS: [&str; 3] = ["6.12", "7.2", "7.3"];

/// Which half of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Half {
    /// May be looked at while the engine is tuned.
    Open,
    /// May not.
    HeldOut,
}

impl fmt::Display for Half {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Half::Open => "open",
            Half::HeldOut => "held out",
        })
    }
}

/// A kernel, a workload, and a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The half that it belongs to.
    pub half: Half,
    /// The kernel's version.
    pub kernel: &'static str,
    /// The workload's name.
    pub workload: &'static str,
    /// CPUs.
    pub cpus: u16,
    /// MiB of memory.
    pub memory: u32,
}

impl Cell {
    /// What its folder is called.
    pub fn name(&self) -> String {
        format!("{}-{}-{}cpu-{}M", self.kernel, self.workload, self.cpus, self.memory)
    }

    /// Its memory as a guest's.
    pub fn mebibytes(&self) -> Mebibytes {
        format!("{}M", self.memory).parse().expect("sizes of cells are sizes of guests")
    }

    fn draw(half: Half, kernel: &'static str, rng: &mut Rng) -> Cell {
        fn any<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
            all[rng.usize(..all.len())]
        }
        let size = |rng: &mut Rng, part: &Part| (any(rng, part.cpus), any(rng, part.memory));
        // Of the held-out half, every other cell is a workload that is held out, at any size.
        let (workload, (cpus, memory)) = match half {
            Half::Open => (any(rng, OPEN.workloads), size(rng, &OPEN)),
            Half::HeldOut if rng.bool() => (any(rng, OPEN.workloads), size(rng, &HELD_OUT)),
            Half::HeldOut if rng.bool() => (any(rng, &held_out(kernel)), size(rng, &OPEN)),
            Half::HeldOut => (any(rng, &held_out(kernel)), size(rng, &HELD_OUT)),
        };
        Cell { half, kernel, workload, cpus, memory }
    }
}

/// Workloads that are held out and that `kernel` can run.
fn held_out(kernel: &str) -> Vec<&'static str> {
    let by_module = if WITH_HEADERS.contains(&kernel) { BY_MODULE.as_slice() } else { &[] };
    [HELD_OUT.workloads, by_module].concat()
}

/// The first `count` cells that this seed draws: halves and kernels in turn, no cell twice.
pub fn sample(count: usize, seed: u64) -> Vec<Cell> {
    let mut rng = Rng::with_seed(seed);
    let mut cells: Vec<Cell> = Vec::new();
    while cells.len() < count {
        let at = cells.len();
        let half = if at.is_multiple_of(2) { Half::Open } else { Half::HeldOut };
        let cell = Cell::draw(half, KERNELS[at / 2 % KERNELS.len()], &mut rng);
        if !cells.contains(&cell) {
            cells.push(cell);
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use freehold_boot::Workload;

    use super::*;

    #[test]
    fn a_larger_sample_begins_with_the_smaller() {
        assert_eq!(sample(20, 3)[..8], sample(8, 3)[..]);
        assert_ne!(sample(8, 3), sample(8, 4));
    }

    #[test]
    fn both_halves_and_all_kernels_are_drawn() {
        let cells = sample(20, 1);
        assert_eq!(cells.iter().filter(|cell| cell.half == Half::Open).count(), 10);
        assert!(KERNELS.iter().all(|kernel| cells.iter().filter(|cell| cell.kernel == *kernel).count() == 4));
        let is_open = |cell: &Cell| {
            OPEN.workloads.contains(&cell.workload)
                && OPEN.cpus.contains(&cell.cpus)
                && OPEN.memory.contains(&cell.memory)
        };
        assert!(cells.iter().all(|cell| is_open(cell) == (cell.half == Half::Open)));
    }

    #[test]
    fn the_module_is_asked_for_where_it_can_be_built() {
        let mut rng = Rng::with_seed(1);
        for kernel in KERNELS {
            let mut asked = |half| (0..100).any(|_| BY_MODULE.contains(&Cell::draw(half, kernel, &mut rng).workload));
            assert_eq!((asked(Half::HeldOut), asked(Half::Open)), (WITH_HEADERS.contains(&kernel), false), "{kernel}");
        }
    }

    #[test]
    fn every_workload_and_size_is_there() {
        for name in OPEN.workloads.iter().chain(HELD_OUT.workloads).chain(&BY_MODULE) {
            let workload = Workload::find(name).unwrap();
            assert_eq!(workload.needs_module, BY_MODULE.contains(name), "{name}");
        }
        assert!(sample(40, 1).iter().all(|cell| cell.mebibytes().get() == cell.memory));
    }
}
