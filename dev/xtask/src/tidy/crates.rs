//! Crates are floors too: each depends on those that its row names, and on no other of ours.
//!
//! Cargo refuses circles, not arrows that point the wrong way: a manifest that asks for one more crate of ours would
//! build. So the arrows stand here as well. Tests may use what they like. A dependency is known by the package that it
//! leads to: by the name that it goes by, by `package`, by the manifest at its path, and through the workspace's table
//! by all three.

use toml::{Table, Value};

use super::tree::{Finding, Tree, folder_of, join};

/// Each crate of ours and those that it may depend on.
const FLOORS: [(&str, &[&str]); 30] = [
    ("freehold", &[]),
    ("freehold-fiber", &[]),
    ("freehold-trace", &[]),
    ("freehold-report", &[]),
    ("freehold-recordings", &[]),
    ("freehold-book", &[]),
    ("freehold-boot", &[]),
    ("freehold-workloads", &[]),
    ("freehold-malloc", &["freehold"]),
    ("freehold-pprof", &[]),
    ("freehold-preload", &["freehold-malloc"]),
    ("freehold-baremetal", &["freehold"]),
    ("freehold-loom", &[]),
    ("freehold-object-loops", &[]),
    ("freehold-policies", &["freehold"]),
    ("freehold-record", &["freehold-trace"]),
    ("freehold-fragmenter", &["freehold-record", "freehold-report", "freehold-trace"]),
    ("freehold-heap-inspector", &["freehold", "freehold-malloc", "freehold-report"]),
    ("freehold-inspect", &["freehold-report", "freehold-trace"]),
    ("freehold-convert", &["freehold-report", "freehold-pprof", "freehold-trace"]),
    ("freehold-replay", &["freehold", "freehold-fiber", "freehold-report", "freehold-trace"]),
    (
        "freehold-sim",
        &[
            "freehold",
            "freehold-fiber",
            "freehold-report",
            "freehold-recordings",
            "freehold-policies",
            "freehold-trace",
        ],
    ),
    ("freehold-sweep", &["freehold-report", "freehold-policies", "freehold-replay", "freehold-sim", "freehold-trace"]),
    ("freehold-disasm", &["freehold", "freehold-report"]),
    (
        "freehold-bench",
        &[
            "freehold",
            "freehold-disasm",
            "freehold-workloads",
            "freehold-malloc",
            "freehold-report",
            "freehold-object-loops",
            "freehold-policies",
        ],
    ),
    (
        "freehold-cli",
        &[
            "freehold",
            "freehold-bench",
            "freehold-boot",
            "freehold-record",
            "freehold-disasm",
            "freehold-convert",
            "freehold-fragmenter",
            "freehold-heap-inspector",
            "freehold-inspect",
            "freehold-workloads",
            "freehold-malloc",
            "freehold-report",
            "freehold-pprof",
            "freehold-recordings",
            "freehold-policies",
            "freehold-replay",
            "freehold-sim",
            "freehold-sweep",
            "freehold-trace",
        ],
    ),
    ("freehold-python", &["freehold-cli", "freehold-report", "freehold-sweep", "freehold-trace"]),
    ("freehold-findings", &["freehold", "freehold-bench", "freehold-report", "freehold-policies", "freehold-sim"]),
    (
        "freehold-validate",
        &["freehold", "freehold-boot", "freehold-report", "freehold-policies", "freehold-replay", "freehold-trace"],
    ),
    ("xtask", &[]),
];

/// What begins the name of a crate of ours, and the engine's whole name.
const OURS: &str = "freehold";

/// Folders in which each crate has a floor; packages of peers in `dev` have workspaces of their own.
const WINGS: [&str; 3] = ["engine/", "malloc/", "lab/"];

/// The workspace's manifest.
const WORKSPACE: &str = "Cargo.toml";

/// Finds dependencies on crates that lie no lower, and crates without a floor.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending(WORKSPACE).flat_map(|(file, text)| of(tree, file, text)).collect()
}

fn of(tree: &Tree, file: &str, text: &str) -> Vec<Finding> {
    let Ok(manifest) = text.parse::<Table>() else { return Vec::new() };
    let Some(name) = name_of(&manifest) else { return Vec::new() };
    let finding = |line, sentence| Finding { file: file.to_owned(), line, sentence };
    let Some((_, below)) = FLOORS.iter().find(|(floor, _)| *floor == name) else {
        let sentence = format!("`{name}` has no floor; give it a row in dev/xtask/src/tidy/crates.rs");
        return if WINGS.iter().any(|wing| file.starts_with(wing)) { vec![finding(1, sentence)] } else { Vec::new() };
    };
    let packages = dependencies(&manifest).map(|(key, entry)| (key, Package::of(tree, folder_of(file), key, entry)));
    let above = packages.filter(|(_, on)| on.is_ours && !below.contains(&on.name.as_str()));
    let sentence = |on: &str| format!("`{name}` may not depend on `{on}`; it may on {}", listed(below));
    above.map(|(key, on)| finding(line_of(text, key), sentence(&on.name))).collect()
}

fn name_of(manifest: &Table) -> Option<&str> {
    manifest.get("package")?.get("name")?.as_str()
}

/// What a manifest asks for, for more than tests: the names that it goes by, and what is said of each.
fn dependencies(manifest: &Table) -> impl Iterator<Item = (&String, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let owners = core::iter::once(manifest).chain(targets.filter_map(Value::as_table));
    let tables = owners.flat_map(|owner| ["dependencies", "build-dependencies"].map(|table| owner.get(table)));
    tables.flatten().filter_map(Value::as_table).flatten()
}

/// The package that a dependency leads to.
struct Package {
    name: String,
    /// Whether it lies in the workspace, or is called as if it did.
    is_ours: bool,
}

impl Package {
    /// The package that `key` leads to in the manifest of `folder`.
    fn of(tree: &Tree, folder: &str, key: &str, entry: &Value) -> Package {
        if entry.get("workspace").and_then(Value::as_bool) == Some(true)
            && let Some(shared) = manifest(tree, "").as_ref().and_then(|root| shared(root, key))
        {
            return Package::of(tree, "", key, shared);
        }
        let path = entry.get("path").and_then(Value::as_str).and_then(|path| join(folder, path));
        let at_path = path.as_ref().and_then(|path| Some(name_of(&manifest(tree, path)?)?.to_owned()));
        let named = || entry.get("package").and_then(Value::as_str).unwrap_or(key).to_owned();
        let name = at_path.unwrap_or_else(named);
        Package { is_ours: path.is_some() || name.starts_with(OURS), name }
    }
}

/// The manifest of a folder.
fn manifest(tree: &Tree, folder: &str) -> Option<Table> {
    tree.text(&join(folder, WORKSPACE)?)?.parse().ok()
}

/// What the workspace's table says of a dependency.
fn shared<'m>(workspace: &'m Table, key: &str) -> Option<&'m Value> {
    workspace.get("workspace")?.get("dependencies")?.get(key)
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none of ours".to_owned() } else { names.join(", ") }
}

/// The line on which a manifest asks for `key`: as an entry of a table, or as a table of its own.
fn line_of(text: &str, key: &str) -> usize {
    let is_entry = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.starts_with([' ', '.', '=']));
    let is_table = |line: &str| line.strip_suffix(']').is_some_and(|line| line.ends_with(&format!(".{key}")));
    text.lines().position(|line| is_entry(line.trim()) || is_table(line.trim())).map_or(1, |line| line + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(manifest: &str) -> Vec<usize> {
        check(&Tree::of(&[("lab/x/Cargo.toml", manifest)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_dependency_on_a_higher_floor_is_found() {
        let trace = "[package]\nname = \"freehold-trace\"\n[dependencies]\n";
        assert_eq!(lines(&format!("{trace}freehold-report.workspace = true\n")), [4]);
        assert_eq!(lines(&format!("{trace}m = {{ package = \"freehold-report\", path = \"../measure\" }}\n")), [4]);
        let target = "[package]\nname = \"freehold\"\n[target.'cfg(unix)'.dependencies]\nfreehold-lab = \"1\"\n";
        assert_eq!(lines(target), [4]);
    }

    #[test]
    fn a_dependency_by_path_alone_is_found() {
        let trace = "[package]\nname = \"freehold-trace\"\n";
        assert_eq!(lines(&format!("{trace}[dependencies]\nfreehold-measure = {{ path = \"../measure\" }}\n")), [4]);
        assert_eq!(lines(&format!("{trace}[dependencies.freehold-report]\npath = \"../measure\"\n")), [3]);
        assert_eq!(lines(&format!("{trace}[build-dependencies]\nattic = {{ path = \"../../attic\" }}\n")), [4]);
        let on_unix = "[target.'cfg(unix)'.dependencies]\nfreehold-measure = { path = \"../measure\" }\n";
        assert_eq!(lines(&format!("{trace}{on_unix}")), [4]);
        assert_eq!(lines(&format!("{trace}[target.'cfg(loom)'.dependencies.freehold-cli]\npath = \"../lab\"\n")), [3]);
    }

    #[test]
    fn a_dependency_renamed_in_the_workspaces_table_is_found() {
        let workspace = "[workspace.dependencies]\nm = { package = \"freehold-report\", path = \"lab/report\" }\n\
                         numbers = { path = \"lab/report\" }\nr = { package = \"freehold-policies\", version = \"0.1\" }\n";
        let measure = "[package]\nname = \"freehold-report\"\n";
        let lines = |name: &str, dependencies: &str| {
            let own = format!("[package]\nname = \"{name}\"\n{dependencies}\n");
            let files = [("Cargo.toml", workspace), ("lab/report/Cargo.toml", measure), ("lab/x/Cargo.toml", &own)];
            check(&Tree::of(&files)).iter().map(|finding| finding.line).collect::<Vec<_>>()
        };
        for asked in
            ["m.workspace = true", "m = { workspace = true }", "numbers.workspace = true", "r.workspace = true"]
        {
            assert_eq!(lines("freehold-trace", &format!("[dependencies]\n{asked}")), [4], "{asked}");
            assert_eq!(lines("freehold-trace", &format!("[target.'cfg(unix)'.dependencies]\n{asked}")), [4], "{asked}");
            assert_eq!(lines("freehold-trace", &format!("[dev-dependencies]\n{asked}")), [0; 0], "{asked}");
        }
        assert_eq!(lines("freehold-replay", "[dependencies]\nm.workspace = true"), [0; 0]);
        assert_eq!(lines("freehold-replay", "[dependencies]\nr.workspace = true"), [4]);
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
