//! `freehold sweep` as a program: results that do not depend on the process that computes them, the continuation of a
//! sweep, invalid recordings, and the verdict of `compare`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use crate::common::sweep::{PLAN, Sweep, TASKS, is_done, parts, tree};
use crate::common::{Sandbox, assert_refused, freehold, json, stderr};
use serde_json::Value;

#[test]
fn sweep_output_is_independent_of_jobs_and_order() {
    let mut sweep = Sweep::new(PLAN, 3);
    is_done(&sweep.run("one", &["--jobs", "1"]));
    sweep.files.reverse();
    is_done(&sweep.run("four", &["--jobs", "4"]));
    let one = sweep.tree("one");
    assert_eq!(parts(&one).len(), 3 * TASKS);
    assert!(one == sweep.tree("four") && one.len() == 3 * TASKS + 1, "{:?}", one.keys());
}

#[test]
fn existing_parts_are_kept_and_truncated_parts_redone() {
    let sweep = Sweep::new(PLAN, 2);
    is_done(&sweep.run("a", &[]));
    let whole = sweep.tree("a");
    let all: Vec<PathBuf> = parts(&whole).into_iter().map(|part| sweep.sandbox.path("a").join(part)).collect();
    let before = fs::metadata(&all[2]).unwrap().modified().unwrap();
    fs::remove_file(&all[0]).unwrap();
    fs::write(&all[1], &fs::read(&all[1]).unwrap()[..100]).unwrap();
    is_done(&sweep.run("a", &[]));
    assert!(sweep.tree("a") == whole && fs::metadata(&all[2]).unwrap().modified().unwrap() == before);
}

#[test]
fn killed_sweep_resumes() {
    let cpus: Vec<String> = (1..=20).map(|cpus| cpus.to_string()).collect();
    let plan = format!("{}{}]\n", PLAN.split("'recorded'").next().unwrap(), cpus.join(","));
    let sweep = Sweep::new(&plan, 2);
    let into = sweep.sandbox.argument("killed");
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("freehold"));
    command.args(["sweep", &sweep.plan]).args(&sweep.files).args(["--into", &into, "--jobs", "1"]);
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let folder = sweep.sandbox.path("killed");
    while running.try_wait().unwrap().is_none() && !(folder.exists() && parts(&tree_so_far(&folder)).len() > 2) {
        thread::yield_now();
    }
    // On a fast machine the sweep may have ended already. Then nothing is left to continue, and the test still holds.
    let _ = running.kill();
    running.wait().unwrap();
    is_done(&sweep.run("killed", &[]));
    is_done(&sweep.run("whole", &[]));
    assert!(sweep.tree("killed") == sweep.tree("whole"));
}

/// Returns the files that exist while a sweep writes, without their contents.
fn tree_so_far(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().filter_map(Result::ok) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path, Vec::new());
            }
        }
    }
    files
}

#[test]
fn concurrent_sweeps_into_a_folder_are_safe() {
    let sweep = Sweep::new(PLAN, 3);
    let outputs = thread::scope(|scope| {
        let both = [(), ()].map(|()| scope.spawn(|| sweep.run("shared", &[])));
        both.map(|one| one.join().unwrap())
    });
    outputs.iter().for_each(is_done);
    is_done(&sweep.run("alone", &[]));
    assert!(sweep.tree("shared") == sweep.tree("alone"));
    assert_eq!(outputs[0].stdout, outputs[1].stdout);
}

#[test]
fn invalid_recordings_are_reported_and_skipped() {
    let mut sweep = Sweep::new(PLAN, 2);
    sweep.files.push(sweep.plan.clone());
    sweep.files.push(sweep.sandbox.argument("missing.parquet"));
    let copy = sweep.sandbox.argument("again.parquet");
    fs::copy(&sweep.files[0], &copy).unwrap();
    sweep.files.push(copy);
    let output = sweep.run("a", &[]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [
        "plan.toml is not a Parquet file",
        "missing.parquet",
        "skipped 1 file with the same contents",
        "left out of the sweep because of errors: 2",
    ] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    assert_eq!(parts(&sweep.tree("a")).len(), 2 * TASKS);
    assert!(!output.stdout.is_empty());
    assert!(!said.contains("plan.toml: "), "a file is named once: {said}");
}

#[test]
fn irregular_file_is_skipped_without_blocking() {
    let mut sweep = Sweep::new(PLAN, 1);
    let pipe = sweep.sandbox.argument("pipe.parquet");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    sweep.files.push(pipe);
    for more in [&["--dry-run"][..], &[]] {
        let output = sweep.run("a", more);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("pipe.parquet is not a regular file"), "{}", stderr(&output));
    }
    assert_eq!(parts(&sweep.tree("a")).len(), TASKS);
}

#[test]
fn duplicate_recordings_are_reported_in_one_line() {
    let mut sweep = Sweep::new(PLAN, 1);
    for number in 0..5 {
        let copy = sweep.sandbox.argument(&format!("copy{number}.parquet"));
        fs::copy(&sweep.files[0], &copy).unwrap();
        sweep.files.push(copy);
    }
    let output = sweep.run("a", &["--jobs", "1"]);
    is_done(&output);
    let said = stderr(&output);
    assert!(said.contains("skipped 5 files with the same contents") && said.contains(", ...\n"), "{said}");
    assert_eq!(said.matches("copy").count(), 3, "{said}");
}

/// A title or a comment changes no result.
#[test]
fn equivalent_plan_keeps_the_results() {
    let sweep = Sweep::new(PLAN, 1);
    is_done(&sweep.run("a", &[]));
    let before = sweep.tree("a");
    fs::write(&sweep.plan, format!("# A comment.\n{}", PLAN.replace("Two policies", "Other words"))).unwrap();
    is_done(&sweep.run("a", &[]));
    assert!(sweep.tree("a") == before);
}

#[test]
fn file_name_may_contain_any_bytes() {
    let sweep = Sweep::new(PLAN, 1);
    let named = sweep.sandbox.path("").join(OsStr::from_bytes(b"\xff\xfe.parquet"));
    fs::rename(&sweep.files[0], &named).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("freehold"));
    command.args(["sweep", &sweep.plan]).arg(named).args(["--into", &sweep.sandbox.argument("a")]);
    is_done(&command.output().unwrap());
    assert_eq!(parts(&sweep.tree("a")).len(), TASKS);
}

#[test]
fn hostile_recording_names_are_escaped() {
    let mut sweep = Sweep::new(PLAN, 1);
    let name = "..=%2e a\u{1b}[31m\n\u{e9}";
    let hostile = sweep.sandbox.path(&format!("{name}.parquet"));
    fs::rename(&sweep.files[0], &hostile).unwrap();
    sweep.files[0] = hostile.to_str().unwrap().to_owned();
    let output = sweep.run("a", &[]);
    is_done(&output);
    let tree = sweep.tree("a");
    for part in parts(&tree) {
        let first = part.iter().next().unwrap().to_str().unwrap();
        assert!(first.starts_with("recording=..%3D%252e%20a%1B%5B31m%0A%C3%A9-"), "{first}");
    }
    assert!(!output.stdout.contains(&0x1b));
}

#[test]
fn dry_run_changes_nothing() {
    let sweep = Sweep::new(PLAN, 2);
    let output = sweep.run("a", &["--dry-run"]);
    is_done(&output);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Two policies: 8 tasks on 2 recordings, 0 complete\n");
    assert!(!sweep.sandbox.path("a").exists());
}

/// Compares complete reports: measures, intervals, verdicts and sentences.
#[test]
fn sweep_verdict_equals_the_comparison() {
    let recordings = ["guest-build", "guest-files", "oracle-calm"]
        .map(|name| format!("{}/../../recordings/{name}.parquet", env!("CARGO_MANIFEST_DIR")));
    let names = recordings.each_ref().map(String::as_str);
    let sandbox = Sandbox::new();
    let (plan, into) = (sandbox.argument("plan.toml"), sandbox.argument("a"));
    let cases: [(&str, &[&str]); 4] = [
        ("b = ['freehold']\n", &["--b", "freehold"]),
        ("a = 'linux-6.12,pcp=off'\nb = ['freehold']\n", &["--a", "linux-6.12,pcp=off", "--b", "freehold"]),
        ("[axes]\nsetting = ['recorded', 'vm.min_free_kbytes=65536']\n", &["--setting-b", "vm.min_free_kbytes=65536"]),
        ("b = ['freehold']\n[axes]\ncpus = [16]\n", &["--b", "freehold", "--cpus", "16"]),
    ];
    for (question, compare) in cases {
        fs::write(&plan, format!("title = 'x'\nkind = 'replay'\n{question}")).unwrap();
        // Each question has a folder of its own.
        let _ = fs::remove_dir_all(&into);
        let swept = json(&[&["sweep", &plan], &names[..], &["--into", &into, "--json", "-"]].concat());
        let compared = json(&[&["compare"], &names[..], compare, &["--json", "-"]].concat());
        let report = json(&["sweep", "--report", &into, "--json", "-"]);
        assert_eq!(report, swept, "the report of the dataset must equal that of the sweep");
        for key in ["groups", "tables", "caveats", "sides", "verdict"] {
            assert_eq!(swept["verdicts"][0][key], compared["verdicts"][0][key], "{question}: {key}");
        }
    }
}

const SIMULATED: &str = "title = 'Two CPUs'\nshows = 'That it runs.'\ncpus = [2]\nduration_ms = 1\n\
                         [machine]\nmemory = '64 MiB'\n[workload]\nkind = 'pingpong'\n\
                         [fleet.draw]\n'workload.order' = { least = 0, most = 3 }\n";

fn sweep_with(sandbox: &Sandbox, text: &str, into: &str, jobs: &str) -> (Value, BTreeMap<PathBuf, Vec<u8>>) {
    let plan = sandbox.argument("plan.toml");
    fs::write(&plan, text).unwrap();
    let into = sandbox.argument(into);
    let document = json(&["sweep", &plan, "--into", &into, "--jobs", jobs, "--json", "-"]);
    (document, tree(Path::new(&into)))
}

#[test]
fn simulations_and_fleets_are_swept() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("two.toml"), SIMULATED).unwrap();
    let sim =
        "title = 'x'\nkind = 'sim'\nplan = 'two.toml'\nb = ['freehold']\n[axes]\nseed = 7\n'workload.order' = [0, 3]\n";
    let (document, files) = sweep_with(&sandbox, sim, "sim", "2");
    assert_eq!((document["tasks"].as_u64(), document["comparisons"].as_u64()), (Some(28), Some(2)));
    assert!(files == sweep_with(&sandbox, sim, "sim-1", "1").1);
    let fleet = "title = 'x'\nkind = 'fleet'\nplan = 'two.toml'\nb = ['freehold']\n[axes]\nhost = 7\n";
    let (document, _) = sweep_with(&sandbox, fleet, "fleet", "2");
    let two = sandbox.argument("two.toml");
    let alone = json(&["fleet", &two, "--b", "freehold", "--hosts", "7", "--json", "-"]);
    let groups = &document["verdicts"][0]["groups"];
    let swept = groups[0]["measures"][0]["lines"][0]["b"].as_f64();
    assert_eq!(swept, alone["fleet"][1]["highatomic_pageblocks"]["value"].as_f64(), "{groups}");
}

#[test]
fn simulation_memory_follows_the_cpus_axis() {
    let sandbox = Sandbox::new();
    let plan = sandbox.argument("plan.toml");
    let text = "title = 'x'\nkind = 'sim'\nplan = 'pingpong'\nb = ['freehold']\n\
                set = ['machine.memory_per_cpu=80 GiB']\n[axes]\ncpus = [2]\nseed = 1\n";
    fs::write(&plan, text).unwrap();
    is_done(&freehold(&["sweep", &plan, "--dry-run"]));
}

fn sweep_within_limit(sandbox: &Sandbox, plan: &str, jobs: &str, into: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -v 1800000; exec \"$@\"", "sh"]).arg(assert_cmd::cargo::cargo_bin("freehold"));
    shell.args(["sweep", plan, "--jobs", jobs, "--into", &sandbox.argument(into)]);
    shell.env("RAYON_NUM_THREADS", "16").output().unwrap()
}

/// Each task takes 128 MiB of address space and a little more; sixteen do not fit into the limit.
#[test]
fn fewer_jobs_need_less_memory() {
    let sandbox = Sandbox::new();
    let plan = sandbox.argument("plan.toml");
    fs::write(sandbox.path("two.toml"), SIMULATED).unwrap();
    fs::write(&plan, "title = 'x'\nkind = 'sim'\nplan = 'two.toml'\nb = ['freehold']\n").unwrap();
    assert_refused(&sweep_within_limit(&sandbox, &plan, "16", "many"), "run fewer simulations at a time with --jobs");
    is_done(&sweep_within_limit(&sandbox, &plan, "1", "few"));
}

/// Each plan on the page is copied into a file, and the commands below it are run.
#[test]
fn documented_sweep_plans_work() {
    let page = include_str!("../../../../docs/sweep.md");
    let plans: Vec<&str> = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let [replays, simulations] = plans.as_slice() else { panic!("the page has two plans") };
    assert_eq!(
        include_str!("../../../../plans/sweep-reserve.toml").split_once("[axes]").unwrap().1,
        replays.split_once("[axes]").unwrap().1
    );
    let sweep = Sweep::new(replays, 2);
    is_done(&sweep.run("study", &[]));
    assert_eq!(parts(&sweep.tree("study")).len(), 2 * 6);
    let simulated = Sweep::new(simulations, 0);
    is_done(&simulated.run("study", &[]));
    assert_eq!(parts(&simulated.tree("study")).len(), 2 * 2 * 2 * 8);
}

#[test]
fn sweep_plan_mistakes_are_reported_in_one_line() {
    let sweep = Sweep::new(PLAN, 1);
    for (text, part) in [
        (
            "title = 'x'\nkind = 'replay'\nbb = ['freehold']\n",
            "plan.toml:3: `bb` is not a known key; perhaps `b` is meant",
        ),
        ("title = 'x'\nkind = 'reply'\n", "plan.toml:2: `kind` cannot be `reply`; perhaps `replay` is meant"),
        ("title = 'x'\nkind = 'replay'\nb = ['freehodl']\n", "perhaps `freehold` is meant"),
        (
            "title = 'x'\nkind = 'replay'\nb = ['freehold']\n[axes]\nsettign = ['recorded']\n",
            "plan.toml:5: `axes.settign` is not a known axis; perhaps `setting` is meant",
        ),
        (
            "title = 'x'\nkind = 'replay'\nb = ['freehold']\n[axes]\nsetting = ['vm.min_fre_kbytes=1']\n",
            "a replay cannot change `vm.min_fre_kbytes`",
        ),
        (
            "title = 'x'\nkind = 'replay'\nb = ['freehold']\n[axes]\ncpus = [0]\n",
            "give numbers of CPUs from 1 to 512 or `recorded`",
        ),
        ("title = 'x'\nkind = 'replay'\nb = ['freehold']\n[axes]\ncpus = []\n", "`axes.cpus` is empty"),
        ("title = 'x'\nkind = 'replay'\nb = ['freehold']\n[axes]\ncpus = [8, 8]\n", "contains 8 twice"),
        ("title = 'x'\nkind = 'replay'\nb = ['freehold']\n[axes]\ncpus = [2, '02']\n", "contains 2 twice"),
        (
            "title = 'x'\nkind = 'replay'\nb = ['freehold']\n[axes]\n\
             setting = ['vm.min_free_kbytes=65536', 'vm.min_free_kbytes= 065536']\n",
            "contains vm.min_free_kbytes=65536 twice",
        ),
        (
            "title = 'x'\nkind = 'replay'\nb = ['freehold']\n[axes]\n\
             setting = ['vm.min_free_kbytes=9,vm.compaction_proactiveness=1', \
             'vm.compaction_proactiveness=1, vm.min_free_kbytes=9']\n",
            "contains vm.compaction_proactiveness=1, vm.min_free_kbytes=9 twice",
        ),
        (
            "title = 'x'\nkind = 'sim'\nplan = 'pingpong'\n[axes]\n'machine.memory' = ['1 GiB', '1024 MiB']\n",
            "contains machine.memory = 1024 MiB twice",
        ),
        ("title = 'x'\nkind = 'replay'\nb = ['freehold', 'freehold']\n", "names a policy twice"),
        ("title = 'x'\nkind = 'replay'\na = 'freehold'\nb = ['freehold']\n", "is policy A"),
        ("title = 'x'\nkind = 'replay'\n", "names no policy"),
        ("title = 'x'\nkind = 'replay'\nb = 7\n", "`b` is integer 7; write a list in brackets"),
        ("title = ''\nkind = 'replay'\n", "`title` is empty"),
        ("kind = 'replay'\n", "lacks `title`"),
        ("title = 'x'\nkind = 'sim'\n", "needs `plan`"),
        ("title = 'x'\nkind = 'sim'\nplan = 'prge'\n", "perhaps `purge` is meant"),
        ("title = 'x'\nkind = 'sim'\nplan = 'purge'\n[axes]\nhost = 3\n", "`axes.host` is not a known axis"),
        ("title = 'x'\nkind = 'sim'\nplan = 'pingpong'\n[axes]\nseed = 0\n", "give a number from 1 to 1000"),
        (
            "title = 'x'\nkind = 'sim'\nplan = 'purge'\n[axes]\nmachine.age = [0]\n",
            "write the whole path of a key in quotes",
        ),
        ("title = 'x'\nkind = 'sim'\nplan = 'fragment'\n", "sweeps `machine.age` itself"),
        ("title = \n", "cannot be read as TOML"),
    ] {
        fs::write(&sweep.plan, text).unwrap();
        assert_refused(&sweep.run("a", &[]), part);
        assert!(!sweep.sandbox.path("a").exists());
    }
}

#[test]
fn invalid_sweep_arguments_are_refused() {
    let sweep = Sweep::new(PLAN, 1);
    let into = sweep.sandbox.argument("a");
    assert_refused(&freehold(&["sweep", &sweep.plan, "--into", &into]), "name some after the plan");
    assert_refused(&freehold(&["sweep", &sweep.sandbox.argument("no.toml"), "--into", &into]), "cannot read the plan");
    fs::create_dir(sweep.sandbox.path("empty")).unwrap();
    let empty = sweep.sandbox.argument("empty");
    assert_refused(&freehold(&["sweep", &sweep.plan, &empty, "--into", &into]), "there is no recording in");
}
