//! `freehold sim` as a program: its output formats, its pictures, its refusals, and the dependence of the results on
//! plan and seed alone. The accuracy of the simulation is tested beside the code, and by `freehold calibrate --check`.

use std::fs;
use std::process::Output;

use crate::common::{Sandbox, assert_refused, freehold, json, stderr, text};
use assert_cmd::Command;
use serde_json::Value;

/// A plan with little work: two CPUs, a virtual millisecond.
const PLAN: &str = "\
title = 'Two CPUs'
shows = 'That it runs.'
cpus = [1, 2]
seeds = 2
duration_ms = 1
[machine]
memory = '64 MiB'
[workload]
kind = 'pingpong'
[sweep]
key = 'workload.order'
values = [0, 3]
";

fn plan(sandbox: &Sandbox, text: &str) -> String {
    let path = sandbox.argument("plan.toml");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn list_contains_every_plan() {
    let listed = json(&["sim", "--list", "--json", "-"]);
    let said = text(&["sim", "--list"]);
    for plan in listed["plans"].as_array().unwrap() {
        let (name, title) = (plan["name"].as_str().unwrap(), plan["title"].as_str().unwrap());
        // Long titles are wrapped.
        assert!(said.contains(name) && title.split_whitespace().all(|word| said.contains(word)), "{title}: {said}");
    }
    assert!(["purge", "steady", "build"].iter().all(|name| said.contains(name)), "{said}");
}

#[test]
fn sim_json_has_the_documented_shape_and_recipe() {
    let sandbox = Sandbox::new();
    let path = plan(&sandbox, PLAN);
    let found = json(&["sim", &path, "--b", "linux-6.12,pcp=owned", "--json", "-"]);
    let recipe = &found["recipe"];
    assert!(recipe["command"].as_str().unwrap().starts_with("freehold sim "), "{recipe}");
    assert!(recipe["costs"]["lock_transfer_ps"].as_u64().unwrap() > 0, "{recipe}");
    assert_eq!(found["plan"]["text"], PLAN);
    let rows = found["results"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 2 * 2, "points, CPUs and policies");
    for row in rows {
        assert_row(row);
    }
}

/// Asserts that a row names its run, and has every measure for each seed; only policy B is judged.
fn assert_row(row: &Value) {
    assert!(row["cpus"].as_u64().is_some() && row["policy"].is_string() && row["swept_value"].is_string(), "{row}");
    for name in
        ["throughput", "zone_wait_share", "zone_lock_acquisitions_per_1000", "free_pageblocks_worst", "idle_share"]
    {
        let measure = &row[name];
        assert_eq!(measure["by_seed"].as_array().unwrap().len(), 2, "{name}: {measure}");
        assert!(measure["least"].as_f64() <= measure["median"].as_f64(), "{name}: {measure}");
        assert_eq!(measure["verdict"].is_null(), row["policy"] == "linux-6.12", "{name}: {measure}");
    }
    assert!(row["throughput"]["median"].as_f64().unwrap() > 0.0, "{row}");
}

fn results_of(path: &str, more: &[&str]) -> String {
    json(&[&["sim", path, "--json", "-"], more].concat())["results"].to_string()
}

#[test]
fn sim_results_depend_only_on_plan_and_seed() {
    let sandbox = Sandbox::new();
    let path = plan(&sandbox, PLAN);
    assert_eq!(results_of(&path, &[]), results_of(&path, &[]));
    assert_ne!(results_of(&path, &["--seeds", "1"]), results_of(&path, &["--seeds", "2"]));
    // Other runs of the simulation do not change a run.
    let alone = json(&["sim", &path, "--cpus", "2", "--json", "-"])["results"].clone();
    let beside = json(&["sim", &path, "--json", "-"])["results"].clone();
    assert_eq!(
        alone.as_array().unwrap().iter().collect::<Vec<_>>(),
        beside.as_array().unwrap().iter().filter(|row| row["cpus"] == 2).collect::<Vec<_>>()
    );
}

#[test]
fn quick_run_has_one_seed_by_default() {
    let sandbox = Sandbox::new();
    let path = plan(&sandbox, PLAN);
    let quick = ["sim", &path, "--quick", "--json", "-"];
    assert_eq!(json(&quick)["plan"]["seeds"], 1);
    assert_eq!(json(&[&quick[..], &["--seeds", "3"]].concat())["plan"]["seeds"], 3);
}

#[test]
fn expensive_lock_transfer_lowers_throughput() {
    let sandbox = Sandbox::new();
    let path = plan(&sandbox, PLAN);
    let [cheap, dear] =
        ["100", "10000"].map(|percent| json(&["sim", &path, "--json", "-", "--lock-transfer-percent", percent]));
    let [cheap_throughput, dear_throughput] =
        [&cheap, &dear].map(|found| found["results"][4]["throughput"]["median"].as_f64().unwrap());
    assert!(dear_throughput < cheap_throughput);
    assert!(dear["recipe"]["costs"]["name"].as_str().unwrap().contains("10000 %"));
}

#[test]
fn sim_tables_contain_policies_cpus_and_swept_values() {
    let sandbox = Sandbox::new();
    let said = text(&["sim", &plan(&sandbox, PLAN), "--b", "linux-6.12,pcp=owned", "--b", "freehold"]);
    for words in ["Two CPUs", "workload.order = 0, 3", "linux-6.12", "pcp=owned", "freehold", "--all"] {
        assert!(said.contains(words), "no {words} in {said}");
    }
    let all = text(&["sim", &plan(&sandbox, PLAN), "--b", "freehold", "--all"]);
    assert!(all.contains("free blocks") && all.contains("freehold sim "), "{all}");
}

fn print_as(path: &str, format: &str) -> String {
    text(&["sim", path, "--b", "freehold", "--b", "linux-6.12,pcp=merge", format, "-"])
}

#[test]
fn every_format_contains_the_verdict() {
    let sandbox = Sandbox::new();
    let path = plan(&sandbox, PLAN);
    let csv = print_as(&path, "--csv");
    let line = csv.lines().find(|line| line.starts_with("linux-6.12,freehold,speed,throughput,operations/s,")).unwrap();
    assert_eq!(csv.lines().filter(|line| line.contains(",alloc_p99_ns,")).count(), 2 * 2 * 2, "points, CPUs and Bs");
    assert!(
        ["better", "worse", "no change", "within noise", "too few events"].iter().any(|word| line.contains(word)),
        "{line}"
    );
    assert!(print_as(&path, "--markdown").contains("`alloc_p99_ns`"));
    assert!(print_as(&path, "--mmtests").contains("alloc_p99_ns-2 CPUs, order = 3"));
    let all = text(&["sim", &path, "--b", "freehold", "--all"]);
    assert!(all.contains("ns that zone locks were held") && all.len() > text(&["sim", &path, "--b", "freehold"]).len());
}

#[test]
fn throughput_is_reported_with_latency_and_caveats() {
    let sandbox = Sandbox::new();
    let path = plan(&sandbox, PLAN);
    let said = text(&["sim", &path, "--b", "freehold"]);
    let [headline, speed, p99] = ["better ", "operations a second", "p99 latency"].map(|part| said.find(part).unwrap());
    assert!(headline < speed && speed < p99, "{said}");
    let all = text(&["sim", &path, "--b", "freehold", "--all"]);
    assert!(all.contains("M op/s") && all.contains("docs/findings/owned-pageblocks.md"), "{all}");
    assert!(all.contains("This is a simulation"), "{all}");
}

#[test]
fn bundled_recordings_are_playable_in_any_folder() {
    let sandbox = Sandbox::new();
    let mut command = Command::cargo_bin("freehold").unwrap();
    let output = command
        .current_dir(sandbox.path("."))
        .args(["sim", "mallocs", "--quick", "--cpus", "4", "--b", "linux-6.12,pcp=owned-remote", "--json", "-"])
        .output()
        .expect("the program must run");
    assert!(output.status.success(), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    for point in found["plan"]["points"].as_array().unwrap() {
        let left_out = &point["workload"]["left_out"];
        assert!(left_out["of_others"].as_u64() > Some(0) && left_out["impossible"] == 0, "{point}");
    }
    let refused = freehold(&["sim", "mallocs", "--quick", "--set", "workload.cpus_per_purger=1"]);
    assert_refused(&refused, "give 2 or more");
}

fn run_within(kibibytes: u32, arguments: &str) -> Output {
    let program = assert_cmd::cargo::cargo_bin("freehold");
    let line = format!("ulimit -v {kibibytes}; exec {} {arguments}", program.display());
    std::process::Command::new("sh").args(["-c", &line]).output().expect("`sh` must be installed")
}

#[test]
fn oversized_simulation_is_refused_before_the_run() {
    assert_refused(&run_within(4 << 20, "sim webhost --memory 1TiB"), "simulate less memory");
    assert_refused(&run_within(4 << 20, "fleet webhost --memory 1TiB --hosts 2"), "simulate less memory");
    let small = run_within(4 << 20, "sim webhost --memory 64MiB --cpus 2 --quick");
    assert!(small.status.success(), "{}", stderr(&small));
}

#[test]
fn unwritable_output_is_refused_before_the_run() {
    for option in ["--json", "--csv", "--markdown", "--mmtests", "--picture"] {
        // Simulating this would take hours.
        let output = freehold(&["sim", "purge", "--seeds", "1000", option, "no/such/folder/x.svg"]);
        assert_refused(&output, "cannot write no/such/folder/x.svg");
    }
    assert_refused(&freehold(&["fleet", "--hosts", "10000", "--csv", "no/such/folder/x"]), "cannot write");
    assert_refused(&freehold(&["calibrate", "--turns", "1000", "--out", "no/such/folder/x"]), "cannot write");
}

#[test]
fn picture_and_page_are_written_in_addition_to_tables() {
    let sandbox = Sandbox::new();
    let path = plan(&sandbox, PLAN);
    let (picture, page) = (sandbox.argument("a.svg"), sandbox.argument("a.html"));
    assert!(text(&["sim", &path, "--picture", &picture, "--html", &page]).contains("Two CPUs"));
    assert!(fs::read_to_string(picture).unwrap().starts_with("<svg "));
    let page = fs::read_to_string(page).unwrap();
    for part in ["p99 latency of allocations", "data-plot=\"0\"", "order = 3", "M op/s", "freehold sim "] {
        assert!(page.contains(part), "no {part} in {page}");
    }
    for name in ["picture.png", "picture.html"] {
        assert_refused(&freehold(&["sim", &path, "--picture", name]), "ends in .svg");
    }
}

#[test]
fn plan_and_option_mistakes_are_reported_in_one_line() {
    let sandbox = Sandbox::new();
    let broken = plan(&sandbox, &PLAN.replace("kind = 'pingpong'", "kind = 'pingpnog'"));
    assert_refused(
        &freehold(&["sim", &broken]),
        "plan.toml:9: `workload.kind` cannot be `pingpnog`; perhaps `pingpong`",
    );
    let small = plan(&sandbox, &PLAN.replace("64 MiB", "16 MiB").replace("[0, 3]", "[10]"));
    assert_refused(&freehold(&["sim", &small]), "plan.toml:7: `machine.memory`");
    let right = plan(&sandbox, PLAN);
    assert_refused(&freehold(&["sim", "prge"]), "perhaps `purge` is meant");
    assert_refused(&freehold(&["sim", "no/such.toml"]), "cannot read the plan no/such.toml");
    assert_refused(&freehold(&["sim", &right, "--set", "workload.ordre=3"]), "perhaps `order` is meant");
    assert_refused(&freehold(&["sim", &right, "--b", "linux-6.12,pcp=owend"]), "perhaps `owned` is meant");
    assert_refused(&freehold(&["sim", &right, "--b", "foo"]), "--b foo: there is no policy `foo`");
    assert_refused(&freehold(&["sim", &right, "--memory", "1MiB"]), "--memory 1MiB: `machine.memory` is 1 MiB");
    assert_refused(&freehold(&["sim", &right, "--costs", "no-such-table"]), "cost table no-such-table");
    let costs = sandbox.argument("costs.toml");
    fs::write(&costs, "name = 'mine'\nalloc_sp = 1\n").unwrap();
    assert_refused(&freehold(&["sim", &right, "--costs", &costs]), "costs.toml:2: `alloc_sp`");
    assert_refused(&freehold(&["sim", &right, "my.parquet"]), "--set workload.file=my.parquet");
    assert_refused(&freehold(&["sim", "recording", "no/such.parquet"]), "no/such.parquet");
    for cpus in ["0", "513", "many"] {
        let output = freehold(&["sim", &right, "--cpus", cpus]);
        assert_eq!(output.status.code(), Some(2), "{cpus}");
        assert!(stderr(&output).contains("from 1 to 512"), "{}", stderr(&output));
    }
    assert_eq!(freehold(&["sim"]).status.code(), Some(2), "a plan must be named");
}

/// A web host with reduced work.
const SMALL_HOST: [&str; 11] = [
    "sim",
    "webhost",
    "--quick",
    "--cpus",
    "2",
    "--set",
    "machine.memory=64 MiB",
    "--set",
    "workload.turnover_s=10",
    "--b",
    "linux-6.12,highatomic=skip-costly",
];

#[test]
fn counters_are_printed_in_vmstat_format() {
    let said = text(&[&SMALL_HOST[..], &["--vmstat"]].concat());
    let heads: Vec<&str> = said.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(heads.len(), 2, "{said}");
    assert!(heads[0].starts_with("# webhost: linux-6.12, cpus 2, seed 1, "), "{}", heads[0]);
    assert!(heads[1].starts_with("# webhost: linux-6.12,highatomic=skip-costly, "), "{}", heads[1]);
    for line in said.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let value = line.split_once(' ').and_then(|(_, value)| value.parse::<u64>().ok());
        assert!(value.is_some(), "{line}");
    }
    for name in ["nr_free_pages", "thp_fault_alloc", "thp_fault_fallback", "compact_stall", "pgscan_kswapd"] {
        assert_eq!(said.lines().filter(|line| line.split(' ').next() == Some(name)).count(), 2, "{name} in {said}");
    }
}

#[test]
fn host_reports_memory_that_never_filled() {
    let calm = [&SMALL_HOST[..], &["--set", "warmup_ms=0", "--set", "duration_ms=10"]].concat();
    assert!(text(&calm).contains("Memory never filled, so the policies were not tested"));
    let counted = text(&[&calm[..], &["--vmstat"]].concat());
    assert_eq!(counted.matches("# memory never filled").count(), 2, "{counted}");
    let full = text(&SMALL_HOST) + &text(&[&SMALL_HOST[..], &["--vmstat"]].concat());
    assert!(!full.contains("emory never filled"), "{full}");
}

#[test]
fn json_contains_counters_on_request() {
    let sandbox = Sandbox::new();
    let file = sandbox.argument("out.json");
    let said = text(&[&SMALL_HOST[..], &["--vmstat", "--json", &file]].concat());
    let found: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let rows = found["results"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        for (name, value) in row["vmstat_by_seed"][0].as_object().unwrap() {
            assert!(said.contains(&format!("{name} {value}\n")), "no {name} {value} in {said}");
        }
    }
    let csv = text(&[&SMALL_HOST[..], &["--vmstat", "--csv", "-"]].concat());
    assert!(csv.starts_with("policy_a,policy_b,") && csv.contains(",pressure,thp_success,share,"), "{csv}");
    let without = json(&[&SMALL_HOST[..], &["--json", "-"]].concat());
    assert!(without["results"][0]["vmstat_by_seed"].is_null());
    assert!(without["results"][0]["throughput"]["median"].as_f64().unwrap() > 0.0);
    let success = without["results"][1]["thp_success"]["median"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&success), "{success}");
}

#[test]
fn only_paced_hosts_have_a_pressure_table() {
    let sandbox = Sandbox::new();
    let said = text(&[&SMALL_HOST[..], &["--all"]].concat());
    assert!(said.contains("huge pages") && said.contains("The demand is the same"), "{said}");
    let other = text(&["sim", &plan(&sandbox, PLAN), "--quick", "--all"]);
    assert!(!other.contains("huge pages") && !other.contains("The demand is the same"), "{other}");
}

#[test]
fn vmstat_option_conflicts_with_list() {
    let output = freehold(&["sim", "--vmstat", "--list"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot be used with"), "{}", stderr(&output));
}

#[test]
fn inconsistent_web_host_is_refused() {
    for (change, says) in [
        ("workload.anon_percent=90", "`workload.anon_percent` adds up to 92 %"),
        ("workload.turnover_s=0", "`workload.turnover_s` is 0"),
        ("workload.network.order1_percent=80", "`workload.network` has 130 %"),
        ("workload.network.order4_percent=1", "--set workload.network.order4_percent"),
        ("workload.memory.thp.defrag=often", "workload.memory.thp.defrag"),
    ] {
        assert_refused(&freehold(&[&SMALL_HOST[..], &["--set", change]].concat()), says);
    }
}
