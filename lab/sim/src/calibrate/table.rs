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
        ("zone_lock", costs.zone_lock_ps, "taking a zone lock, with the work under it that does not depend on blocks"),
        ("link", costs.link_ps, "adding a block to a free list, or removing it"),
        ("block", costs.block_ps, "moving a block between a per-CPU list and the zone, without links"),
        ("split", costs.split_ps, "splitting a part off a block of a per-CPU list"),
        ("merge", costs.merge_ps, "examining a block of a per-CPU list for a merge"),
        ("push", costs.push_ps, "pushing to another CPU's stack, in addition to the free"),
        ("take", costs.take_ps, "taking a stack"),
        ("absorb", costs.absorb_ps, "moving a block from a stack to a list"),
        ("line", costs.line_ps, "cache line of metadata that another CPU used last"),
        ("line_remote", costs.line_remote_ps, "cache line of metadata from another node"),
        ("lock_transfer", costs.lock_transfer_ps, "lock that another CPU held last, with the protected data"),
        ("lock_transfer_remote", costs.lock_transfer_remote_ps, "lock from another node, with the protected data"),
        ("parcel", costs.parcel_ps, "parcel of blocks passed to another CPU, or received"),
        ("reclaim", costs.reclaim_ps, "choosing a page of the page cache"),
        ("scan", costs.scan_ps, "scanning a page in reclaim without freeing it"),
        ("compact_scan", costs.compact_scan_ps, "scanning a frame in compaction"),
        ("migrate", costs.migrate_ps, "moving a page"),
    ]
}

/// Returns the text of the file.
pub fn text(calibration: &Calibration, recipe: &Recipe) -> String {
    let Recipe { program, machine } = recipe;
    let mut lines = vec![
        "Costs of the steps of a simulated CPU, in picoseconds. `freehold calibrate` prints the meaning of each entry."
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
    fn cost_table_round_trips() {
        let costs = Costs { name: "a \"name\"".to_owned(), line_ps: 12_345, ..Costs::reference() };
        let calibration = Calibration { costs: costs.clone(), worst_error: 0.1, has_partner: false };
        let text = text(&calibration, &Recipe::this());
        assert!(text.contains("10.0 %") && text.contains("one CPU"), "{text}");
        assert_eq!(Costs::parse(&text).unwrap(), costs);
    }
}
