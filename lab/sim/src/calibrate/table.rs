//! The cost table as a TOML file, with comments on its origin.

use freehold_report::origin::{Machine, Program};
use serde::Serialize;

use super::Calibration;
use crate::costs::Costs;

/// Origin of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recipe {
    /// Program that measured the table.
    #[serde(flatten)]
    pub program: Program,
    /// Machine that was measured.
    #[serde(flatten)]
    pub machine: Machine,
}

impl Recipe {
    /// Returns the origin of tables that this process measures.
    pub fn this() -> Recipe {
        Recipe { program: Program::this(), machine: Machine::this() }
    }
}

/// Returns the entries of a table: name, picoseconds, and a short description.
pub fn entries(costs: &Costs) -> [(&'static str, u64, &'static str); 19] {
    [
        ("alloc", costs.alloc_ps, "allocation from a filled per-CPU list"),
        ("free", costs.free_ps, "free to a per-CPU list with room"),
        ("zone_lock", costs.zone_lock_ps, "taking a zone lock, and what is done under it for any number of blocks"),
        ("link", costs.link_ps, "putting a block on a free list, or taking it off"),
        ("block", costs.block_ps, "moving a block between a per-CPU list and the zone, besides links"),
        ("split", costs.split_ps, "part cut off a block of a per-CPU list"),
        ("merge", costs.merge_ps, "block of a per-CPU list looked at to be merged"),
        ("push", costs.push_ps, "push to another CPU's stack, beyond the free"),
        ("take", costs.take_ps, "taking a stack"),
        ("absorb", costs.absorb_ps, "bringing a block from a stack to a list"),
        ("line", costs.line_ps, "line of metadata that another CPU touched last"),
        ("line_remote", costs.line_remote_ps, "the same from another node"),
        ("lock_transfer", costs.lock_transfer_ps, "lock that another CPU had last, with what it protects"),
        ("lock_transfer_remote", costs.lock_transfer_remote_ps, "the same from another node"),
        ("parcel", costs.parcel_ps, "parcel of blocks handed to another CPU, or taken"),
        ("reclaim", costs.reclaim_ps, "choosing a page of the page cache"),
        ("scan", costs.scan_ps, "looking at a page in vain, in reclaim"),
        ("compact_scan", costs.compact_scan_ps, "looking at a frame, in compaction"),
        ("migrate", costs.migrate_ps, "moving a page"),
    ]
}

/// Returns the text of the file.
pub fn text(calibration: &Calibration, recipe: &Recipe) -> String {
    let Recipe { program, machine } = recipe;
    let mut lines = vec![
        "What the steps of a simulated CPU take, in picoseconds. `freehold calibrate` prints what each entry means."
            .to_owned(),
        format!("measured by `{}`", program.command),
        format!("(freehold {}, {} build)", program.version(), machine.build),
        format!("on {} under Linux {}", machine.cpu_model, machine.kernel_release),
    ];
    lines.extend(calibration.remarks());
    let comments: String = lines.iter().map(|line| format!("# {line}\n")).collect();
    comments + &toml::to_string(&calibration.costs).expect("integers and a name are TOML")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let costs = Costs { name: "a \"name\"".to_owned(), line_ps: 12_345, ..Costs::reference() };
        let calibration = Calibration { costs: costs.clone(), worst_error: 0.1, has_partner: false };
        let text = text(&calibration, &Recipe::this());
        assert!(text.contains("10.0 %") && text.contains("one CPU"), "{text}");
        assert_eq!(Costs::parse(&text).unwrap(), costs);
    }
}
