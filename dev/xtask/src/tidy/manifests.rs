//! Manifests: no manifest may turn on feature `damage` of `freehold`, except for its own tests.
//!
//! With this feature, any code that has the engine can change state that only the engine may change. A feature that one
//! package turns on is on for every package of the build, so one line in one manifest would be enough.
//!
//! In addition, only the Python extension may depend on the command's package. Both are interfaces to the same library.

use toml::{Table, Value};

use super::tree::{Finding, Tree};

/// Package whose feature no manifest may turn on.
const PACKAGE: &str = "freehold";
const FEATURE: &str = "damage";
/// Tables of dependencies that are not only for tests.
const TABLES: [&str; 2] = ["dependencies", "build-dependencies"];

/// Package of the command, and the manifests that may name it.
const COMMAND: &str = "freehold-cli";
const COMMAND_USERS: [&str; 3] = ["Cargo.toml", "lab/cli/Cargo.toml", "lab/python/Cargo.toml"];

/// Finds manifests that turn the feature on outside `[dev-dependencies]`, and those that depend on the command.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.ending("Cargo.toml") {
        let Ok(manifest) = text.parse::<Table>() else { continue };
        if let Some(line) = text.lines().position(|line| line.contains(COMMAND) && !COMMAND_USERS.contains(&file)) {
            let sentence = format!("only lab/python may depend on `{COMMAND}`; use the crates below the command");
            findings.push(Finding { file: file.to_owned(), line: line + 1, sentence });
        }
        for place in places(&manifest) {
            let sentence = format!(
                "`{place}` turns on feature `{FEATURE}` of `{PACKAGE}`, a feature for tests; move it to [dev-dependencies]"
            );
            findings.push(Finding { file: file.to_owned(), line: line_of(text, &place), sentence });
        }
    }
    findings
}

/// Returns the names of the dependencies and features with which a manifest turns the feature on.
fn places(manifest: &Table) -> Vec<String> {
    let tables = dependencies(manifest);
    let mut names: Vec<&str> = vec![PACKAGE];
    let mut found = Vec::new();
    for (name, dependency) in tables.iter().copied().flatten().filter(|(name, dependency)| is_ours(name, dependency)) {
        names.push(name);
        if strings(dependency.get("features")).any(|feature| feature == FEATURE) {
            found.push(name.clone());
        }
    }
    let is_own = table(manifest, "package").and_then(|package| package.get("name")?.as_str()) == Some(PACKAGE);
    for (name, list) in table(manifest, "features").into_iter().flatten() {
        let turns_on = strings(Some(list)).any(|entry| match entry.split_once('/') {
            Some((dependency, feature)) => feature == FEATURE && names.contains(&dependency.trim_end_matches('?')),
            None => is_own && entry == FEATURE,
        });
        if turns_on {
            found.push(name.clone());
        }
    }
    found
}

/// Returns all tables of dependencies that are not only for tests: those of the package, of its targets, and of the
/// workspace.
fn dependencies(manifest: &Table) -> Vec<&Table> {
    let targets = table(manifest, "target").into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let owners = core::iter::once(manifest).chain(targets).chain(table(manifest, "workspace"));
    owners.flat_map(|owner| TABLES.into_iter().filter_map(|name| table(owner, name))).collect()
}

fn table<'t>(owner: &'t Table, name: &str) -> Option<&'t Table> {
    owner.get(name)?.as_table()
}

/// Returns whether a dependency is the engine, under its own name or renamed.
fn is_ours(name: &str, dependency: &Value) -> bool {
    dependency.get("package").and_then(Value::as_str).unwrap_or(name) == PACKAGE
}

fn strings(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the first line that contains both the name and the feature, or else the first with the name, or else line 1.
fn line_of(text: &str, name: &str) -> usize {
    let with_feature = text.lines().position(|line| line.contains(name) && line.contains(FEATURE));
    let place = with_feature.or_else(|| text.lines().position(|line| line.contains(name)));
    place.map_or(1, |line| line + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(manifest: &str) -> Vec<usize> {
        check(&Tree::from_texts(&[("lab/x/Cargo.toml", manifest)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn dependency_that_enables_damage_is_found() {
        for manifest in [
            "[dependencies]\nfreehold = { path = \"../core\", features = [\"damage\", \"host\"] }\n",
            "[build-dependencies]\nfreehold = { path = \"../core\", features = [\"damage\"] }\n",
            "[workspace.dependencies]\nfreehold = { path = \"core\", features = [\"damage\"] }\n",
            "[target.'cfg(loom)'.dependencies]\nfreehold = { path = \"core\", features = [\"damage\"] }\n",
            "[dependencies]\nengine = { package = \"freehold\", version = \"0.1\", features = [\"damage\"] }\n",
            "[features]\nbreak = [\"freehold/damage\"]\n",
            "[features]\nbreak = [\"freehold?/damage\"]\n",
        ] {
            assert_eq!(lines(manifest), [2], "{manifest}");
        }
        let renamed = "[dependencies]\nengine = { package = \"freehold\", version = \"0.1\" }\n[features]\nall = [\"engine/damage\"]\n";
        assert_eq!(lines(renamed), [4]);
        assert_eq!(lines("[package]\nname = \"freehold\"\n[features]\ndefault = [\"damage\"]\ndamage = []\n"), [4]);
        assert_eq!(lines("[dependencies.freehold]\npath = \"../core\"\nfeatures = [\"damage\"]\n"), [1]);
    }

    #[test]
    fn dependency_on_the_command_is_found() {
        assert_eq!(lines("[dependencies]\nfreehold-cli.workspace = true\n"), [2]);
        let python = ("lab/python/Cargo.toml", "[dependencies]\nfreehold-cli.workspace = true\n");
        assert!(check(&Tree::from_texts(&[python])).is_empty());
    }

    #[test]
    fn dev_dependencies_and_other_packages_may_use_damage() {
        for manifest in [
            "[dev-dependencies]\nfreehold = { path = \".\", features = [\"damage\", \"host\"] }\n",
            "[target.'cfg(unix)'.dev-dependencies]\nfreehold = { path = \".\", features = [\"damage\"] }\n",
            "[dependencies]\nfreehold = { path = \"../core\", features = [\"host\"] }\n",
            "[dependencies]\nother = { version = \"1\", features = [\"damage\"] }\n[features]\nall = [\"other/damage\"]\n",
            "[package]\nname = \"freehold\"\n[features]\ndamage = []\nhost = []\n",
            "[package]\nname = \"other\"\n[features]\ndefault = [\"damage\"]\ndamage = []\n",
        ] {
            assert_eq!(lines(manifest), [0; 0], "{manifest}");
        }
    }
}
