//! The rooms of a crate have floors: each imports only what its row in [`floors`](super::floors) names.
//!
//! An import is any path that names a room from the crate's root: `crate::page::...`, one name of `crate::{base::...,
//! page::...}`, `$crate::...` in a macro, or `super::super::...` where it climbs to the root. The root itself keeps its
//! name, since an import through another would not be seen. The crate's front, and in the core all files that lie
//! directly in `src` (its texts, its counters), stand above all floors.
//!
//! In the core, the machine in memory is the highest floor; unit tests in a file of their own, `tests.rs`, may run on
//! it. Tests of other crates may import what they like.

use super::floors::{Floor, HOUSES, House, Tests};
use super::imports::{self, Import, Target};
use super::tree::{Finding, Tree};

/// Files that stand above all floors.
const FRONTS: [&str; 2] = ["lib.rs", "main.rs"];

/// Finds imports that go up or sideways.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.ending(".rs") {
        for house in &HOUSES {
            if let Some(below) = file.strip_prefix(house.root) {
                let complaints = complaints(house, below, text);
                let finding = |(line, sentence)| Finding { file: file.to_owned(), line, sentence };
                findings.extend(complaints.into_iter().map(finding));
            }
        }
    }
    findings
}

/// What is wrong with the imports of a file, with the lines.
fn complaints(house: &House, below: &str, text: &str) -> Vec<(usize, String)> {
    let path = below.trim_end_matches(".rs").trim_end_matches("/mod");
    let imports = imports::of(text, path.split('/').count());
    let Some(room) = room(house, below) else {
        let is_front = FRONTS.contains(&below);
        return imports.iter().filter_map(|import| Some((import.line, judge_above(is_front, import)?))).collect();
    };
    let is_test_file = below.ends_with("/tests.rs") || below.ends_with("_tests.rs");
    if is_test_file && house.tests == Tests::All {
        return Vec::new();
    }
    let Some(floor) = house.floor(room) else {
        let rooms: Vec<&str> = house.floors.iter().flat_map(|floor| floor.rooms).copied().collect();
        let sentence = format!("`{room}` has no floor in {}; the rooms are {}", house.root, rooms.join(", "));
        return vec![(1, sentence)];
    };
    let is_for_test = |import: &Import| match house.tests {
        Tests::All => import.is_in_test,
        Tests::On(room) => below.ends_with("/tests.rs") && import.target == Target::Name(room.to_owned()),
    };
    let judged = imports.iter().filter(|import| !is_for_test(import));
    judged.filter_map(|import| Some((import.line, judge(house, floor, room, import)?))).collect()
}

/// The room that a file belongs to, if it does not stand above all floors.
fn room<'f>(house: &House, below: &'f str) -> Option<&'f str> {
    let room = match below.split_once('/') {
        Some((folder, _)) => folder,
        None if house.has_flat_rooms && !FRONTS.contains(&below) => below.trim_end_matches(".rs"),
        None => return None,
    };
    let is_front = house.shared.contains(&room) && house.floor(room).is_none();
    (!is_front).then_some(room)
}

/// What is wrong with an import of this room, if something is.
fn judge(house: &House, floor: &Floor, room: &str, import: &Import) -> Option<String> {
    match &import.target {
        Target::Name(name) => {
            let name = name.as_str();
            let is_open = [floor.rooms, floor.below, house.shared].iter().any(|names| names.contains(&name));
            let open: Vec<&str> = floor.rooms.iter().chain(floor.below).copied().filter(|open| *open != room).collect();
            (!is_open).then(|| format!("`{room}` may not import `{name}`; it may import {}", listed(&open)))
        }
        Target::Root => Some("name what is imported by its path from `crate`; nothing else is seen here".to_owned()),
        Target::Crate => Some(OWN_NAME.to_owned()),
        Target::Macro => None,
    }
}

const OWN_NAME: &str = "leave the crate without a name of its own; imports through one are not seen";

/// What is wrong with an import above all floors, if something is: what all rooms know must hide no import of theirs.
fn judge_above(is_front: bool, import: &Import) -> Option<String> {
    match import.target {
        Target::Crate => Some(OWN_NAME.to_owned()),
        Target::Macro if is_front => Some(
            "define macros in the room that uses them; what those of a crate's front import is not seen".to_owned(),
        ),
        Target::Macro | Target::Name(_) | Target::Root => None,
    }
}

fn listed(open: &[&str]) -> String {
    if open.is_empty() { "no other room".to_owned() } else { open.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(file: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(file, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn import_of_a_higher_floor_is_found() {
        assert_eq!(lines("engine/core/src/base/list.rs", "use crate::page::Zone;\n"), [1]);
        assert_eq!(lines("engine/core/src/policy/pcp.rs", "\nuse crate::{base::Pfn, platform::Cpu};\n"), [2]);
        assert_eq!(lines("engine/core/src/page/pcp/mod.rs", "fn f() { crate::slab::g() }\n"), [1]);
        assert_eq!(lines("engine/core/src/base/list.rs", "use super::super::page::Zone;\n"), [1]);
        assert_eq!(lines("engine/core/src/base/list.rs", "use super::{super::page::Zone};\n"), [1]);
        assert_eq!(lines("engine/core/src/page/alloc.rs", "m!(crate::stats::Stats);\n"), [1]);
        assert_eq!(lines("engine/core/src/attic/list.rs", ""), [1]);
        assert_eq!(lines("engine/core/src/slab/cache.rs", "use crate::machine::with_memory;\n"), [1]);
    }

    #[test]
    fn import_of_a_lower_floor_is_fine() {
        assert!(lines("engine/core/src/page/alloc.rs", "use crate::{base::Pfn, policy::*};").is_empty());
        assert!(
            lines("engine/core/src/page/pcp/mod.rs", "use super::super::page::Zone; use super::zone::Z;").is_empty()
        );
        let test = "mod tests { use super::super::units::Pfn; }";
        assert!(lines("engine/core/src/base/list.rs", test).is_empty());
        assert!(lines("engine/core/src/procfs.rs", "use crate::page::Zone;").is_empty());
        assert!(lines("engine/core/src/slab/tests.rs", "use crate::machine::with_memory;").is_empty());
        assert!(lines("engine/core/src/base/list.rs", "pub(crate) fn f() {} pub(in crate::base) fn g() {}").is_empty());
        assert!(lines("engine/core/src/base/list.rs", "extern crate std; use super as base;").is_empty());
        assert!(lines("engine/policies/src/page/x.rs", "use crate::anything;").is_empty());
    }

    #[test]
    fn import_through_a_renamed_root_is_found() {
        let list = "engine/core/src/base/list.rs";
        for text in [
            "use crate as x; fn f() { x::slab::f() }",
            "use crate as x; use x::page::Zone;",
            "use crate::{self as x}; use x::page::Zone;",
            "use crate::*; use page::Zone;",
            "use super::super as y; use y::page::Zone;",
            "use super::super::{self as y}; use y::page::Zone;",
            "use super::{super as y}; use y::page::Zone;",
            "use self::super::super as y; use y::page::Zone;",
            "mod deep { use super::super::super as y; use y::page::Zone; }",
            "extern crate self as z; use z::page::Zone;",
            "m!(crate); macro_rules! m { ($root:tt) => { $root::page::Zone } }",
        ] {
            assert_eq!(lines(list, text), [1], "{text}");
        }
        assert_eq!(lines("lab/sim/src/costs.rs", "use super as x; use x::fleet::Fleet;"), [1]);
        assert_eq!(lines("engine/core/src/lib.rs", "\nextern crate self as z;"), [2]);
        assert_eq!(lines("engine/core/src/procfs.rs", "extern crate self as z;"), [1]);
    }

    #[test]
    fn import_in_a_macros_definition_is_found() {
        let list = "engine/core/src/base/list.rs";
        assert_eq!(lines(list, "macro_rules! m { () => { $crate::page::Zone } }"), [1]);
        assert_eq!(lines(list, "macro_rules! m { () => {\n use $crate::{base::Pfn, slab::f}; } }"), [2]);
        assert_eq!(lines(list, "macro_rules! m { () => { use $crate as x; x::page::Zone } }"), [1]);
        assert_eq!(lines(list, "macro_rules! m { () => { $crate::base::Pfn } }"), [0; 0]);
        let front = "engine/core/src/lib.rs";
        assert_eq!(lines(front, "macro_rules! m { () => { $crate::page::Zone } }\nmod base;"), [1]);
        assert_eq!(lines(front, "mod page;\n#[macro_use]\nmod stats;"), [2]);
        assert_eq!(lines("engine/core/src/stats.rs", "macro_rules! m { () => { $crate::page::Zone } }"), [0; 0]);
    }

    #[test]
    fn rooms_of_other_crates_have_floors_too() {
        for (file, text) in [
            ("lab/sim/src/virtual_time/clock.rs", "use crate::report::Page;"),
            ("lab/sim/src/report/mod.rs", "use super::fleet::Fleet;"),
            ("lab/sim/src/costs.rs", "use crate::plan::Plan;"),
            ("lab/sim/src/attic.rs", ""),
            ("lab/bench/src/contest/contests.rs", "use crate::cases::pages::BENCH;"),
            ("lab/bench/src/error.rs", "use crate::report::Page;"),
            ("lab/replay/src/report/rows.rs", "use super::super::fidelity::Row;"),
            ("lab/replay/src/survey/mod.rs", "use crate::player::Player;"),
            ("lab/bench/src/contest/duel.rs", "use crate::cases::pages::BENCH;"),
            ("lab/bench/src/cases/pages/mod.rs", "use crate::BENCHES;"),
            ("lab/report/src/number.rs", "use super::report::Table;"),
            ("lab/report/src/stats.rs", "mod inner { use crate::output::f; }"),
            ("lab/report/src/verdict.rs", "fn f() { crate::report::g() }"),
        ] {
            assert_eq!(lines(file, text), [1], "{file}: {text}");
        }
    }

    #[test]
    fn what_rooms_of_other_crates_may_is_fine() {
        for (file, text) in [
            ("lab/sim/src/memory/mod.rs", "use crate::cpu::Cpu; use crate::{CPUS_MAX, costs::Costs};"),
            ("lab/sim/src/fleet/host.rs", "use crate::{report::Page, run::Run};"),
            ("lab/sim/src/costs.rs", "#[cfg(test)] mod tests { use super::super::fleet::Fleet; use crate::*; }"),
            ("lab/sim/src/workload/tests.rs", "use crate::fleet::Fleet;"),
            ("lab/sim/src/error.rs", "use crate::plan::Plan;"),
            ("lab/sim/src/lib.rs", "use fleet::Fleet; use crate::report::Page;"),
            ("lab/report/src/report/csv.rs", "use super::super::number::f;"),
        ] {
            assert_eq!(lines(file, text), [0; 0], "{file}: {text}");
        }
        let not_for_tests = "#[cfg(loom)] mod tests { use crate::fleet::Fleet; }";
        assert_eq!(lines("lab/sim/src/costs.rs", not_for_tests), [1]);
    }
}
