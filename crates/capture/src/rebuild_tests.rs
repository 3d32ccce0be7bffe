//! Start states rebuilt from invented events, where what was is known.

use freehold_trace::event::migratetype;

use super::*;

const FRAMES: usize = 64;

fn event(kind: Kind, pfn: u64, order: u8) -> Row {
    Row { pfn, order, cpu: 3, migratetype: migratetype::MOVABLE, ..Row::new(kind) }
}
