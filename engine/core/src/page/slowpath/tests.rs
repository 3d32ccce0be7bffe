//! Test of the number of retries after compaction made a block that another request took.

use super::*;
use crate::base::CpuId;
use crate::machine::with_memory;
use crate::page::Config;
use crate::platform::NoProbe;
use crate::platform::host::CheckedSpinLock;

/// Platform of one CPU that could move pages.
struct Movable;

impl Platform for Movable {
    type Lock = CheckedSpinLock;
    type Probe = NoProbe;

    fn probe(&self) -> &NoProbe {
        &NoProbe
    }

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }
}

/// Returns the number of compactions with each effort, for a request whose block other requests take every time.
fn efforts(order: u8) -> impl Iterator<Item = (CompactEffort, usize)> {
    let request = Request {
        gfp: Gfp::KERNEL | Gfp::RETRY_MAYFAIL,
        order: Order::new(order),
        migratetype: MigrateType::Unmovable,
        node: NodeId(0),
        highest: ZoneKind::Normal,
    };
    let mut counts =
        [CompactEffort::Async, CompactEffort::SyncLight, CompactEffort::SyncFull].map(|effort| (effort, 0));
    with_memory(Movable, &Config::default(), 1 << 10, |pages| {
        let mut attempt = Attempt::new(&request, AllocFlags::empty());
        loop {
            counts.iter_mut().filter(|(effort, _)| *effort == attempt.effort).for_each(|(_, count)| *count += 1);
            if !pages.should_compact_retry(&mut attempt, CompactResult::Succeeded) {
                break;
            }
        }
    })
    .expect("the configuration is right");
    counts.into_iter()
}

/// A costly order gets a quarter of the retries, and never the full effort.
#[test]
fn each_effort_has_retries_of_its_own() {
    use CompactEffort::{Async, SyncFull, SyncLight};
    assert!(efforts(1).eq([(Async, 17), (SyncLight, 17), (SyncFull, 17)]));
    assert!(efforts(4).eq([(Async, 5), (SyncLight, 5), (SyncFull, 0)]));
}
