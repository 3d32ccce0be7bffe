//! The folder of a sweep: damaged, moved, copied and foreign files, and a full disk.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::recorder::SmallDisk;
use crate::common::sweep::{PLAN, Sweep, is_done, parts, tree};
use crate::common::{assert_refused, freehold, stderr};

#[test]
fn folder_with_other_contents_is_refused_and_unchanged() {
    let sweep = Sweep::new(PLAN, 1);
    is_done(&sweep.run("a", &[]));
    let before = sweep.tree("a");
    fs::write(&sweep.plan, PLAN.replace("'freehold'", "'linux-6.12,pcp=merge'")).unwrap();
    assert_refused(&sweep.run("a", &[]), "contains the results of another plan (plan.toml)");
    assert!(sweep.tree("a") == before);
    let manifest = sweep.sandbox.path("a/_plan.json");
    let text = String::from_utf8(before[Path::new("_plan.json")].clone()).unwrap();
    fs::write(&manifest, text.replace("\"program\": \"", "\"program\": \"9.")).unwrap();
    assert_refused(&sweep.run("a", &[]), "contains results of freehold 9.");
    fs::create_dir(sweep.sandbox.path("notes")).unwrap();
    fs::write(sweep.sandbox.path("notes/mine.txt"), "mine").unwrap();
    assert_refused(&sweep.run("notes", &[]), "which is not a result of a sweep");
    assert_refused(
        &freehold(&["sweep", "--report", &sweep.sandbox.argument("notes")]),
        "contains no results of a sweep",
    );
}

#[test]
fn part_of_another_task_is_refused() {
    let sweep = Sweep::new(PLAN, 1);
    is_done(&sweep.run("a", &[]));
    let tree = sweep.tree("a");
    let [one, other] = [0, 1].map(|at| sweep.sandbox.path("a").join(parts(&tree)[at]));
    fs::copy(one, other).unwrap();
    assert_refused(&sweep.run("a", &[]), "is the result of another task");
}

/// A part that is damaged, duplicated or in the wrong place is not counted as a result.
#[test]
fn damaged_or_duplicate_parts_are_refused() {
    let sweep = Sweep::new(PLAN, 1);
    is_done(&sweep.run("a", &[]));
    let (tree, folder) = (sweep.tree("a"), sweep.sandbox.path("a"));
    let part = parts(&tree)[0];
    let report = ["sweep", "--report", folder.to_str().unwrap()];
    for at in [1456, tree[part].len() - 100] {
        let mut turned = tree[part].clone();
        turned[at] ^= 1;
        fs::write(folder.join(part), turned).unwrap();
        assert_refused(&freehold(&report), "is damaged");
        is_done(&sweep.run("a", &[]));
        assert!(sweep.tree("a") == tree);
    }
    let copy = folder.join("part.parquet");
    fs::write(&copy, &tree[part]).unwrap();
    assert_refused(&freehold(&report), "is not in its place");
    fs::remove_file(copy).unwrap();
    let copy = folder.join("copy").join(part);
    fs::create_dir_all(copy.parent().unwrap()).unwrap();
    fs::write(copy, &tree[part]).unwrap();
    assert_refused(&freehold(&report), "is a second part of one task");
    fs::remove_dir_all(folder.join("copy")).unwrap();
    symlink(".", folder.join("loop")).unwrap();
    assert_refused(&freehold(&report), "is a link to another folder");
}

#[test]
fn foreign_files_in_a_folder_are_kept() {
    let sweep = Sweep::new(PLAN, 1);
    let making = sweep.sandbox.path("a/_making");
    fs::create_dir_all(&making).unwrap();
    fs::write(making.join("precious"), "precious").unwrap();
    assert_refused(&sweep.run("a", &[]), "contains _making/precious, which is not a result of a sweep;");
    fs::remove_file(making.join("precious")).unwrap();
    // A file of a sweep that was killed, whose plan was removed.
    let half_made = making.join("0123456789abcdef0123456789abcdefaB3xYz");
    fs::write(&half_made, "PAR1").unwrap();
    is_done(&sweep.run("a", &[]));
    assert!(!making.exists());
    fs::create_dir(&making).unwrap();
    for path in [&half_made, &making.join("precious")] {
        fs::write(path, "precious").unwrap();
    }
    is_done(&sweep.run("a", &[]));
    assert!(making.join("precious").exists() && !half_made.exists());
}

#[test]
fn empty_sweep_reports_no_comparison() {
    let mut sweep = Sweep::new(PLAN, 1);
    sweep.files[0].clone_from(&sweep.plan);
    let said = String::from_utf8(sweep.run("a", &[]).stdout).unwrap();
    assert!(said.contains("No comparison yet") && !said.contains("--all"), "{said}");
    fs::write(sweep.sandbox.path("a/_plan.json"), "junk").unwrap();
    let report = freehold(&["sweep", "--report", &sweep.sandbox.argument("a")]);
    assert_refused(&report, "a/_plan.json: not the plan of a sweep");
}

#[test]
fn full_disk_keeps_finished_parts_intact() {
    let sweep = Sweep::new(PLAN, 8);
    let Some(disk) = SmallDisk::mount(sweep.sandbox.path("disk")) else {
        return eprintln!("skipped: this machine does not mount a tmpfs");
    };
    let full = sweep.run("disk/a", &[]);
    assert_refused(&full, "cannot write");
    // The unfinished file is removed, and its name is not shown to the user.
    assert!(!stderr(&full).contains("_making") && !disk.folder.join("a/_making").exists(), "{}", stderr(&full));
    is_done(&sweep.run("whole", &[]));
    let whole = sweep.tree("whole");
    for (path, bytes) in tree(&disk.folder.join("a")).iter().filter(|(path, _)| path.ends_with("part.parquet")) {
        assert!(whole[path] == *bytes, "{}", path.display());
    }
}
