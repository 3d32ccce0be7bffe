//! Sections of a kernel: interrupts are off, so nothing else runs on the CPU.

use core::marker::PhantomData;

use super::section::Sections;
use crate::base::CpuId;

/// What a kernel has for it.
///
/// # Safety
/// Between `interrupts_off` and the matching `restore` the caller stays on its CPU, and nothing else runs there that
/// allocates or frees. `call` returns when code has run on that CPU, outside of any such region, that began after the
/// call: a synchronous interrupt of another CPU; on the caller's own CPU it has nothing to do.
pub unsafe trait Interrupts {
    /// The interrupts of a CPU as they were, to be restored.
    type Flags: Copy;

    /// One more than the highest number that a CPU has.
    fn cpus(&self) -> u16;

    /// The CPU that runs the caller, with interrupts off.
    fn cpu(&self) -> CpuId;

    /// Turns them off; says how they were.
    fn interrupts_off(&self) -> Self::Flags;

    /// Turns interrupts on again if they were on before.
    fn restore(&self, flags: Self::Flags);

    /// Interrupts a CPU, and waits until it has taken notice; does nothing if it is offline.
    ///
    /// The slab calls it with no section open, but with the lock of that CPU's part of a cache held when a cache is
    /// shrunk or destroyed, or the CPU went offline. So a CPU that waits with interrupts off, for a lock of this
    /// allocator or in `call` itself, must answer calls while it waits (poll them in the loop of
    /// [`RawLock::lock`](crate::base::RawLock::lock)): else two CPUs wait for each other for ever. A free may call it
    /// too, when too much waits for another CPU; so a kernel whose waiting CPUs do not answer may not free in interrupt
    /// handlers, or with interrupts off, but has to put that off.
    fn call(&self, cpu: CpuId);
}

/// The primitive by sections with interrupts off, for kernels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Guarded<I>(pub I);

// SAFETY: with interrupts off nothing else runs on the CPU, so no other section does; `call` gets through to a CPU only
// outside of a section, as a barrier for both sides.
unsafe impl<I: Interrupts> Sections for Guarded<I> {
    type Section<'a>
        = Section<'a, I>
    where
        Self: 'a;

    fn cpus(&self) -> u16 {
        self.0.cpus()
    }

    fn cpu(&self) -> CpuId {
        self.0.cpu()
    }

    #[inline]
    fn enter(&self) -> (CpuId, Section<'_, I>) {
        let flags = self.0.interrupts_off();
        (self.0.cpu(), Section { interrupts: &self.0, flags, here: PhantomData })
    }

    fn fence(&self, cpu: CpuId) {
        self.0.call(cpu);
    }
}

/// Restores interrupts when dropped; stays on its CPU.
#[derive(Debug)]
pub struct Section<'a, I: Interrupts> {
    interrupts: &'a I,
    flags: I::Flags,
    here: PhantomData<*mut ()>,
}

impl<I: Interrupts> Drop for Section<'_, I> {
    #[inline]
    fn drop(&mut self) {
        self.interrupts.restore(self.flags);
    }
}
