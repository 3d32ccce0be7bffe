//! Crates are floors too: each depends on those that its row names, and on no other of ours.
//!
//! Cargo refuses circles, not arrows that point the wrong way: a manifest that asks for one more crate of ours would build. So
//! the arrows stand here as well. Tests may use what they like.

use toml::{Table, Value};

use super::tree::{Finding, Tree};

/// Each crate of ours and those that it may depend on.
const FLOORS: [(&str, &[&str]); 15] = [
    ("freehold", &[]),
    ("freehold-trace", &[]),
    ("freehold-measure", &[]),
    ("freehold-recordings", &[]),
    ("freehold-malloc", &["freehold"]),
    ("freehold-objects", &[]),
    ("freehold-registry", &["freehold"]),
    ("freehold-capture", &["freehold-trace"]),
    ("freehold-inspect", &["freehold-measure", "freehold-trace"]),
    ("freehold-replay", &["freehold", "freehold-measure", "freehold-trace"]),
    ("freehold-sim", &["freehold", "freehold-measure", "freehold-recordings", "freehold-registry", "freehold-trace"]),
    ("freehold-disasm", &["freehold", "freehold-measure"]),
    (
        "freehold-bench",
        &[
            "freehold",
            "freehold-disasm",
            "freehold-malloc",
            "freehold-measure",
            "freehold-objects",
            "freehold-registry",
        ],
    ),
    (
        "freehold-lab",
        &[
            "freehold",
            "freehold-bench",
            "freehold-capture",
            "freehold-disasm",
            "freehold-inspect",
            "freehold-measure",
            "freehold-recordings",
            "freehold-registry",
            "freehold-replay",
            "freehold-sim",
            "freehold-trace",
        ],
    ),
    ("xtask", &[]),
];

/// What begins the name of a crate of ours, and the engine's whole name.
const OURS: &str = "freehold";

/// Finds dependencies on crates that lie no lower, and crates without a floor.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending("Cargo.toml")
        .filter(|(file, _)| file.starts_with("crates/"))
        .flat_map(|(file, text)| of(file, text))
        .collect()
}

fn of(file: &str, text: &str) -> Vec<Finding> {
    let Ok(manifest) = text.parse::<Table>() else { return Vec::new() };
    let Some(name) = name_of(&manifest) else { return Vec::new() };
    let finding = |line, sentence| Finding { file: file.to_owned(), line, sentence };
    let Some((_, below)) = FLOORS.iter().find(|(floor, _)| *floor == name) else {
        return vec![finding(1, format!("`{name}` has no floor; give it a row in xtask/src/tidy/crates.rs"))];
    };
    let above = dependencies(&manifest).filter(|on| on.starts_with(OURS) && !below.contains(&on.as_str()));
    let sentence = |on: &str| format!("`{name}` may not depend on `{on}`; it may on {}", listed(below));
    above.map(|on| finding(line_of(text, &on), sentence(&on))).collect()
}

fn name_of(manifest: &Table) -> Option<&str> {
    manifest.get("package")?.get("name")?.as_str()
}

/// Names of the packages that a manifest asks for, for more than tests.
fn dependencies(manifest: &Table) -> impl Iterator<Item = String> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let owners = core::iter::once(manifest).chain(targets.filter_map(Value::as_table));
    let tables = owners.flat_map(|owner| ["dependencies", "build-dependencies"].map(|table| owner.get(table)));
    let entries = tables.flatten().filter_map(Value::as_table).flatten();
    entries.map(|(name, entry)| entry.get("package").and_then(Value::as_str).unwrap_or(name).to_owned())
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none of ours".to_owned() } else { names.join(", ") }
}

fn line_of(text: &str, name: &str) -> usize {
    text.lines().position(|line| line.contains(name) && line.contains(['=', '['])).map_or(1, |line| line + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(manifest: &str) -> Vec<usize> {
        check(&Tree::of(&[("crates/x/Cargo.toml", manifest)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_dependency_on_a_higher_floor_is_found() {
        let trace = "[package]\nname = \"freehold-trace\"\n[dependencies]\n";
        assert_eq!(lines(&format!("{trace}freehold-measure.workspace = true\n")), [4]);
        assert_eq!(lines(&format!("{trace}m = {{ package = \"freehold-measure\", path = \"../measure\" }}\n")), [4]);
        let target = "[package]\nname = \"freehold\"\n[target.'cfg(unix)'.dependencies]\nfreehold-lab = \"1\"\n";
        assert_eq!(lines(target), [4]);
    }

    #[test]
    fn a_crate_without_a_floor_is_found() {
        assert_eq!(lines("[package]\nname = \"freehold-attic\"\n"), [1]);
    }

    #[test]
    fn lower_floors_and_tests_are_fine() {
        let replay =
            "[package]\nname = \"freehold-replay\"\n[dependencies]\nfreehold.workspace = true\nserde = \"1\"\n";
        assert_eq!(lines(&format!("{replay}[dev-dependencies]\nfreehold-sim.workspace = true\n")), [0; 0]);
    }
}
