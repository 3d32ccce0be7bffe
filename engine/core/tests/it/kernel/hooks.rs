//! Callbacks of a machine, which its test chooses at run time.

use std::any::Any;

use freehold::base::{NodeId, ZoneKind};
use freehold::kernel::{PageSink, Promises};
use freehold::platform::{
    Isolation, Migrated, Migration, OutOfMemory, Patience, Reclaim, Reclaimed, Request, SlabReport, Task,
};

use crate::kernel::machine::{CPU, IRQS_OFF, Machine};
use crate::kernel::variants::Variant;

/// Functions that the kernel calls, by the names that they have in [`Promises`] and [`Cpu`](freehold::kernel::Cpu).
/// The default promises nothing.
pub(crate) struct Hooks<V: Variant> {
    pub(crate) task: fn() -> Task,
    pub(crate) is_reclaiming: fn() -> Option<bool>,
    pub(crate) set_reclaiming: fn(bool),
    pub(crate) reclaim: fn(&PageSink<'_, Machine<V>>, &Reclaim) -> Reclaimed,
    pub(crate) reclaimable: fn(NodeId, ZoneKind) -> u64,
    pub(crate) can_isolate: fn(&Isolation) -> bool,
    pub(crate) migrate: fn(&Migration) -> Migrated,
    pub(crate) out_of_memory: fn(&PageSink<'_, Machine<V>>, &Request) -> OutOfMemory,
    pub(crate) slab_error: fn(&SlabReport<'_>),
    pub(crate) relax: fn() -> Patience,
    pub(crate) time: fn() -> Option<u64>,
    pub(crate) irqs_disabled: fn() -> Option<bool>,
    pub(crate) id: fn() -> u16,
    pub(crate) wait: fn(),
    /// Whether `irq_restore` has an effect.
    pub(crate) restores_irqs: fn() -> bool,
    /// Data that the callbacks share; see [`Machine::context`].
    pub(crate) context: &'static (dyn Any + Sync),
}

/// A kernel that writes no promise, for the defaults of the trait.
struct Silent;

impl Promises for Silent {}

impl<V: Variant> Default for Hooks<V> {
    fn default() -> Hooks<V> {
        Hooks {
            task: Silent::task,
            is_reclaiming: Silent::is_reclaiming,
            set_reclaiming: Silent::set_reclaiming,
            // The trait has these two for kernels only, which `Silent` is not.
            reclaim: |_, _| Reclaimed::default(),
            reclaimable: Silent::reclaimable,
            can_isolate: Silent::can_isolate,
            migrate: Silent::migrate,
            out_of_memory: |_, _| OutOfMemory::NothingFreed,
            slab_error: Silent::slab_error,
            relax: Silent::relax,
            time: || None,
            irqs_disabled: || Some(IRQS_OFF.get()),
            id: || CPU.get(),
            wait: std::thread::yield_now,
            restores_irqs: || true,
            context: &(),
        }
    }
}
