//! Tests that systemd accepts the recorder's units.

use std::fs;
use std::path::Path;
use std::process::Command;

const UNITS: [&str; 3] = ["freehold-flight.service", "freehold-snapshot.service", "freehold-snapshot.timer"];

fn text(unit: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd").join(unit)).unwrap()
}

/// Returns systemd's messages about units with these texts; `None` if systemd is not installed.
fn verified(texts: &[(&str, String)]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let paths = texts.iter().map(|(name, text)| {
        let path = folder.path().join(name);
        // The program need not be installed here.
        fs::write(&path, text.replace("/usr/bin/freehold", "/bin/true")).unwrap();
        path
    });
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(paths).output().ok()?;
    Some(String::from_utf8_lossy(&output.stderr).lines().filter(|line| line.contains("freehold")).collect())
}

#[test]
fn systemd_accepts_the_units() {
    let Some(said) = verified(&UNITS.map(|unit| (unit, text(unit)))) else {
        return eprintln!("skipped: there is no systemd-analyze");
    };
    assert_eq!(said, "");
    let bad = text(UNITS[0]).replace("ProtectHome=yes", "ProtectHom=yes");
    let said = verified(&[(UNITS[0], bad)]).unwrap();
    assert!(said.contains("ProtectHom"), "a planted mistake is found: {said}");
}
