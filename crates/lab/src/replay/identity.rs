//! Identity: which block of the engine stands for which frame of the recording.
//!
//! A free in a recording names a frame; here it means "what was allocated there". The map has one entry a
//! recorded frame, so blocks that are split, freed in parts or replaced by smaller ones need no special case.

use freehold::base::{CpuId, Pfn};

/// What a recorded frame that is allocated stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The engine's frame.
    pub pfn: Pfn,
    /// The CPU on which it was allocated; `None` if that was before the recording.
    pub cpu: Option<CpuId>,
}

/// The map. Eight bytes a frame of the recorded machine.
#[derive(Debug)]
pub struct Identity {
    frames: Vec<(u32, u16)>,
}

/// Marks a recorded frame that is not allocated: no engine frame has this number.
const NONE: u32 = u32::MAX;
/// Stands for a CPU that is not known: no CPU has this number.
const UNKNOWN_CPU: u16 = u16::MAX;

impl Identity {
    /// A map for recorded frames below `end`, none of them allocated.
    pub fn new(end: usize) -> Identity {
        Identity { frames: vec![(NONE, 0); end] }
    }

    /// What a recorded frame stands for, if it is allocated.
    pub fn get(&self, recorded: usize) -> Option<Entry> {
        let &(pfn, cpu) = self.frames.get(recorded)?;
        (pfn != NONE).then_some(Entry { pfn: Pfn::new(pfn), cpu: (cpu != UNKNOWN_CPU).then_some(CpuId(cpu)) })
    }

    /// Says that `pages` recorded frames from `recorded` on stand for those of the engine from `pfn` on.
    pub fn set(&mut self, recorded: usize, pfn: Pfn, pages: usize, cpu: Option<CpuId>) {
        let Some(frames) = self.frames.get_mut(recorded..recorded + pages) else { return };
        for (frame, raw) in frames.iter_mut().zip(pfn.raw()..) {
            *frame = (raw, cpu.map_or(UNKNOWN_CPU, |cpu| cpu.0));
        }
    }

    /// Says that `pages` recorded frames from `recorded` on are free.
    pub fn clear(&mut self, recorded: usize, pages: usize) {
        if let Some(frames) = self.frames.get_mut(recorded..recorded + pages) {
            frames.fill((NONE, 0));
        }
    }

    /// Whether a recorded frame can be mapped at all.
    pub fn covers(&self, recorded: usize, pages: usize) -> bool {
        recorded.checked_add(pages).is_some_and(|end| end <= self.frames.len())
    }
}
