//! Cells: a kernel, a workload and a size. Also separates the cells that may be examined while the engine is tuned from
//! those that may not.
//!
//! The grid of all cells would take thousands of boots, so a suite is a sample of the grid, drawn by a seed. A larger
//! sample with the same seed begins with the smaller sample. A cell is *held out* if its workload or its size is held
//! out. The engine has not been fitted to held-out cells, provided that the held-out half of the results is only
//! reported and never used for tuning.
//!
//! # Design
//!
//! Each cell is booted several times, because the prediction of a row cannot be more exact than the repetitions of the
//! row. Both halves of the results are reported. Predictions are compared with the prediction that nothing changes.
//! Most rows of most changes do not move, so an engine that is correct for these rows only has predicted nothing.

use std::fmt;

use clap::ValueEnum;
use fastrand::Rng;
use freehold_boot::Mebibytes;

/// Versions of the kernels.
pub(crate) const KERNELS: [&str; 5] = ["6.12", "6.16", "6.18", "7.2", "7.3"];

/// Number of draws after which a kernel counts as having no more cells of a half.
const DRAWS_MAX: usize = 1000;

/// Workloads and sizes of one half.
struct Part {
    workloads: &'static [&'static str],
    cpus: &'static [u16],
    memory: &'static [u32],
}

/// Workloads and sizes that may be examined during tuning.
const OPEN: Part =
    Part { workloads: &["calm", "pressure", "huge-pages", "slab-churn"], cpus: &[2, 4], memory: &[512, 1024] };
/// Held-out workloads, and held-out sizes for all workloads.
const HELD_OUT: Part = Part {
    workloads: &["fork-storm", "file-copy", "build", "stress-ng", "atomic", "ranges"],
    cpus: &[1, 3, 6, 8],
    memory: &[384, 768, 1536, 4096],
};

/// Workloads that need the project's kernel module, and the kernels for which it can be built: those with headers in
/// Debian.
const BY_MODULE: [&str; 2] = ["atomic", "ranges"];
const WITH_HEADERS: [&str; 3] = ["6.12", "7.2", "7.3"];

/// Half of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Half {
    /// Cells that may be examined while the engine is tuned.
    Open,
    /// Held-out cells, which may not be.
    HeldOut,
}

impl fmt::Display for Half {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Half::Open => "open",
            Half::HeldOut => "held-out",
        })
    }
}

/// Kernel, workload and size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Version of the kernel.
    pub(crate) kernel: &'static str,
    /// Name of the workload.
    pub(crate) workload: &'static str,
    /// Number of CPUs.
    pub(crate) cpus: u16,
    /// Memory in MiB.
    pub(crate) memory: u32,
}

impl Cell {
    /// Returns the name of the cell, which is the name of its folder.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}-{}cpu-{}M", self.kernel, self.workload, self.cpus, self.memory)
    }

    /// Returns the half that the cell belongs to.
    pub(crate) fn half(&self) -> Half {
        let is_open = OPEN.workloads.contains(&self.workload)
            && OPEN.cpus.contains(&self.cpus)
            && OPEN.memory.contains(&self.memory);
        if is_open { Half::Open } else { Half::HeldOut }
    }

    /// Returns the cell's memory as a guest's setting.
    pub(crate) fn mebibytes(&self) -> Mebibytes {
        format!("{}M", self.memory).parse().expect("each size of a cell is a valid size of a guest")
    }

    /// Returns the cell with the same workload and size on another kernel.
    pub(crate) fn on(&self, kernel: &'static str) -> Cell {
        Cell { kernel, ..self.clone() }
    }

    /// Returns whether the cell's kernel can run its workload.
    pub(crate) fn is_possible(&self) -> bool {
        !BY_MODULE.contains(&self.workload) || WITH_HEADERS.contains(&self.kernel)
    }

    fn draw(half: Half, kernel: &'static str, rng: &mut Rng) -> Cell {
        // Half of the held-out cells have a held-out workload, at any size. The others have an open workload at a
        // held-out size.
        let (workload, (cpus, memory)) = match half {
            Half::Open => (draw_one(rng, OPEN.workloads), draw_size(rng, &OPEN)),
            Half::HeldOut if rng.bool() => (draw_one(rng, OPEN.workloads), draw_size(rng, &HELD_OUT)),
            Half::HeldOut if rng.bool() => (draw_one(rng, HELD_OUT.workloads), draw_size(rng, &OPEN)),
            Half::HeldOut => (draw_one(rng, HELD_OUT.workloads), draw_size(rng, &HELD_OUT)),
        };
        Cell { kernel, workload, cpus, memory }
    }
}

/// Draws a number of CPUs and a size of memory.
fn draw_size(rng: &mut Rng, part: &Part) -> (u16, u32) {
    (draw_one(rng, part.cpus), draw_one(rng, part.memory))
}

/// Draws one of these values.
fn draw_one<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(..all.len())]
}

/// Returns the first `count` cells that this seed draws. Halves and kernels alternate, no cell occurs twice, and
/// impossible cells are left out.
pub(crate) fn sample(count: usize, seed: u64) -> Vec<Cell> {
    sample_of(&KERNELS, count, seed)
}

/// Returns such a sample on these kernels. The sample is smaller than `count` if there are no more cells.
pub(crate) fn sample_of(kernels: &[&'static str], count: usize, seed: u64) -> Vec<Cell> {
    let mut rng = Rng::with_seed(seed);
    let mut cells: Vec<Cell> = Vec::new();
    for turn in 0..2 * count {
        let half = if turn.is_multiple_of(2) { Half::Open } else { Half::HeldOut };
        let kernel = kernels[turn / 2 % kernels.len()];
        let draws = (0..DRAWS_MAX).map(|_| Cell::draw(half, kernel, &mut rng));
        let found = draws.filter(Cell::is_possible).find(|cell| !cells.contains(cell));
        cells.extend(found.filter(|_| cells.len() < count));
    }
    cells
}

#[cfg(test)]
mod tests {
    use freehold_boot::Workload;

    use super::*;

    #[test]
    fn larger_sample_starts_with_the_smaller_sample() {
        assert_eq!(sample(20, 3)[..8], sample(8, 3)[..]);
        assert_ne!(sample(8, 3), sample(8, 4));
    }

    #[test]
    fn sample_is_limited_to_the_existing_cells() {
        let open = OPEN.workloads.len() * OPEN.cpus.len() * OPEN.memory.len();
        let cells = sample_of(&["6.12"], 1000, 1);
        assert_eq!(cells.iter().filter(|cell| cell.half() == Half::Open).count(), open);
        assert!((200..1000).contains(&cells.len()), "{}", cells.len());
    }

    #[test]
    fn both_halves_and_all_kernels_are_drawn() {
        let cells = sample(20, 1);
        assert_eq!(cells.iter().filter(|cell| cell.half() == Half::Open).count(), 10);
        assert!(KERNELS.iter().all(|kernel| cells.iter().filter(|cell| cell.kernel == *kernel).count() == 4));
    }

    #[test]
    fn module_workloads_require_kernel_headers() {
        for kernel in KERNELS {
            let cells = sample_of(&[kernel], 30, 1);
            assert_eq!(cells.len(), 30);
            let [held_out, open] = [Half::HeldOut, Half::Open]
                .map(|half| cells.iter().any(|cell| cell.half() == half && BY_MODULE.contains(&cell.workload)));
            assert_eq!((held_out, open), (WITH_HEADERS.contains(&kernel), false), "{kernel}");
        }
    }

    #[test]
    fn every_workload_and_size_exists() {
        for name in OPEN.workloads.iter().chain(HELD_OUT.workloads) {
            let workload = Workload::find(name).unwrap();
            assert_eq!(workload.needs_module, BY_MODULE.contains(name), "{name}");
        }
        assert!(sample(40, 1).iter().all(|cell| cell.mebibytes().get() == cell.memory));
    }
}
