//! kcompactd: compaction in the background, as a state machine that the platform drives.
//!
//! kcompactd is woken in two cases. kswapd wakes it after a run for a boost, and before kswapd goes to sleep, so that
//! the freed memory is compacted. A request that cannot reclaim wakes it if kswapd has nothing to do, so that a later
//! request finds a block. In addition, it runs proactively: after half a second without work it checks how fragmented
//! the node is, and compacts the node if its fragmentation score is too high and kswapd is asleep. If that does not
//! lower the score, the next check is half a minute later.
//!
//! Pending errands are merged into the largest order and the lowest of the highest zones. If no zone is suitable when
//! an errand is posted, the errand is kept, and is started by the next call of
//! `tick_kcompactd`.
//!
//! linux: mm/compaction.c:wakeup_kcompactd, kcompactd, kcompactd_do_work, should_proactive_compact_node

use core::sync::atomic::Ordering::Relaxed;

use super::allocator::PageAllocator;
use super::background::{Background, Errand};
use crate::base::{NodeId, Order, ZoneKind};
use crate::platform::{Event, Platform};
use crate::policy::flags::AllocFlags;

/// Ticks from a proactive run without progress to the next run. linux: COMPACT_MAX_DEFER_SHIFT
const TICKS_AFTER_FAILURE: u32 = 1 << 6;

impl<P: Platform> PageAllocator<'_, P> {
    /// Does one piece of kcompactd's work on a node. Must be called after [`Platform::wake_kcompactd`] until it returns
    /// [`Background::Asleep`].
    ///
    /// May be called at any time: it returns that value if kcompactd was not woken, or if another CPU drives it.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn run_kcompactd(&self, node: NodeId) -> Background {
        let kcompactd = &self.node(node).kcompactd;
        let Some(driver) = kcompactd.phase.drive() else { return Background::Asleep };
        if let Some(errand) = kcompactd.errands.look() {
            self.report(Event::KcompactdRun { node });
            self.kcompactd_do_work(node, errand.order, errand.highest);
            kcompactd.errands.change(|waiting| waiting.and_then(|waiting| left_after(errand, waiting)));
        }
        kcompactd.ticks_left.store(0, Relaxed);
        let waiting = kcompactd.errands.look().is_some();
        driver.leave(if waiting { Background::Working } else { Background::Asleep })
    }

    /// Does kcompactd's periodic work. Gives back idle pageblocks of the high-atomic reserve, if the policy does so.
    /// Then starts a pending errand or, if there is none, compacts the node proactively if it is too fragmented. Must
    /// be called whenever kcompactd has had no work for 500 ms, followed by [`run_kcompactd`](Self::run_kcompactd) until
    /// that returns [`Background::Asleep`]. Calls every 500 ms are allowed, and compact proactively more often than
    /// Linux. linux: mm/compaction.c:kcompactd
    ///
    /// # Panics
    /// If there is no such node.
    pub fn tick_kcompactd(&self, node: NodeId) {
        self.unreserve_idle_highatomic(node);
        let kcompactd = &self.node(node).kcompactd;
        if kcompactd.errands.look().is_some() {
            self.start_kcompactd(node);
            return;
        }
        let left = kcompactd.ticks_left.load(Relaxed);
        kcompactd.ticks_left.store(left.saturating_sub(1), Relaxed);
        let is_due = left == 0 && self.should_proactive_compact_node(node);
        if let Some(driver) = is_due.then(|| kcompactd.phase.drive_asleep()).flatten() {
            let before = self.fragmentation_score_node(node);
            self.compact_node(node);
            if self.fragmentation_score_node(node) >= before {
                kcompactd.ticks_left.store(TICKS_AFTER_FAILURE - 1, Relaxed);
            }
            driver.leave(Background::Asleep);
        }
    }

    /// Posts an errand for kcompactd: a block of `order`, above 0, in zones up to `highest`. Wakes kcompactd if it is
    /// asleep and some zone is suitable; otherwise the errand stays pending. linux: mm/compaction.c:wakeup_kcompactd
    pub(super) fn wakeup_kcompactd(&self, node: NodeId, order: Order, highest: ZoneKind) {
        if order == Order::ZERO {
            return;
        }
        let kcompactd = &self.node(node).kcompactd;
        kcompactd.errands.change(|waiting| {
            let Errand { order: larger, highest: lower } = waiting.unwrap_or(Errand { order, highest });
            Some(Errand { order: order.max(larger), highest: highest.min(lower) })
        });
        let errand = kcompactd.errands.look().filter(|_| kcompactd.phase.is_asleep());
        if errand.is_some_and(|errand| self.kcompactd_node_suitable(node, errand)) {
            self.start_kcompactd(node);
        }
    }

    fn start_kcompactd(&self, node: NodeId) {
        if self.node(node).kcompactd.phase.wake() {
            self.platform.wake_kcompactd(node);
        }
    }

    /// Returns whether some zone up to the errand's highest has no block of the errand's order above its min watermark,
    /// but is suitable for compaction. linux: kcompactd_node_suitable
    fn kcompactd_node_suitable(&self, node: NodeId, errand: Errand) -> bool {
        let Errand { order, highest } = errand;
        let none = AllocFlags::empty();
        self.managed_up_to(node, highest).any(|zone| {
            let has_block = zone.watermark_ok(order, zone.mark(none), highest, none);
            !has_block && self.compaction_suitable(zone, order, highest)
        })
    }

    /// Returns whether proactive compaction is on, the node is fragmented enough for it, and kswapd is asleep.
    /// linux: mm/compaction.c:should_proactive_compact_node
    fn should_proactive_compact_node(&self, node: NodeId) -> bool {
        self.score_marks()
            .is_some_and(|marks| self.node(node).kswapd.is_asleep() && self.fragmentation_score_node(node) > marks.high)
    }
}

/// Returns the errand that remains of `waiting` after `done` was completed: none, unless its order is larger. It is for
/// all zones, unless its highest zone is below that of `done`.
fn left_after(done: Errand, waiting: Errand) -> Option<Errand> {
    let highest = if waiting.highest >= done.highest { ZoneKind::Movable } else { waiting.highest };
    (waiting.order > done.order).then_some(Errand { highest, ..waiting })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errand(order: u8, highest: ZoneKind) -> Errand {
        Errand { order: Order::new(order), highest }
    }

    #[test]
    fn larger_errand_survives_a_finished_run() {
        let done = errand(4, ZoneKind::Normal);
        assert_eq!(left_after(done, errand(4, ZoneKind::Dma)), None);
        assert_eq!(left_after(done, errand(9, ZoneKind::Dma)), Some(errand(9, ZoneKind::Dma)));
        for highest in [ZoneKind::Normal, ZoneKind::Movable] {
            assert_eq!(left_after(done, errand(9, highest)), Some(errand(9, ZoneKind::Movable)));
        }
    }
}
