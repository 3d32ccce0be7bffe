//! `freehold age` as a program, and starts of simulated machines: files, options, refusals.

use crate::common::{Sandbox, assert_refused, freehold, json, text, write};
use freehold_trace::{Facts, Kind, Row};

/// A plan with little work, on a machine of 64 MiB.
const PLAN: &str = "\
title = 'A host for a moment'
shows = 'That it runs.'
cpus = [2]
seeds = 1
duration_ms = 5
[machine]
memory = '64 MiB'
[workload]
kind = 'webhost'
turnover_s = 1
";

fn plan(sandbox: &Sandbox) -> String {
    std::fs::write(sandbox.path("plan.toml"), PLAN).unwrap();
    sandbox.argument("plan.toml")
}

/// Returns the free pages at the end of a run, as counted in `/proc/vmstat`.
fn free_pages(arguments: &[&str]) -> u64 {
    let found = json(&[arguments, &["--vmstat", "--json", "-"]].concat());
    found["results"][0]["vmstat_by_seed"][0]["nr_free_pages"].as_u64().unwrap()
}

#[test]
fn age_figures_agree_in_table_json_and_file() {
    let sandbox = Sandbox::new();
    let out = sandbox.argument("old.parquet");
    let drawn = json(&["age", "--age", "60", "--memory", "1GiB", "--out", &out, "--json", "-"]);
    assert_eq!((&drawn["age"], &drawn["figures"]["pageblocks"]), (&60.into(), &512.into()));
    let read = json(&["age", "--like", &out, "--json", "-"]);
    assert_eq!(read["figures"]["fixed_pageblocks"], drawn["figures"]["fixed_pageblocks"]);
    assert_eq!(read["figures"]["free"], drawn["figures"]["free"]);
    let shown = text(&["inspect", &out, "--all"]);
    assert!(shown.contains("a snapshot") && shown.contains("drawn at random"), "{shown}");
    assert!(text(&["age", "--memory", "1GiB"]).contains("Age 60"));
}

fn write_and_read(sandbox: &Sandbox, name: &str, seed: &str) -> Vec<u8> {
    let out = sandbox.argument(name);
    text(&["age", "--memory", "64MiB", "--seed", seed, "--out", &out]);
    std::fs::read(out).unwrap()
}

#[test]
fn age_file_depends_only_on_the_seed() {
    let sandbox = Sandbox::new();
    assert_eq!(write_and_read(&sandbox, "a.parquet", "7"), write_and_read(&sandbox, "b.parquet", "7"));
    assert_ne!(write_and_read(&sandbox, "d.parquet", "7"), write_and_read(&sandbox, "c.parquet", "8"));
}

#[test]
fn sim_starts_from_the_given_age_or_file() {
    let sandbox = Sandbox::new();
    let (plan, out) = (plan(&sandbox), sandbox.argument("old.parquet"));
    text(&["age", "--age", "80", "--memory", "64MiB", "--out", &out]);
    let fresh = free_pages(&["sim", &plan]);
    let aged = free_pages(&["sim", &plan, "--age", "80"]);
    let read = free_pages(&["sim", &plan, "--start", &out]);
    assert!(aged < fresh / 2 && read < fresh / 2, "{fresh} {aged} {read}");
    let larger = free_pages(&["sim", &plan, "--start", &out, "--memory", "128MiB"]);
    assert!(larger > read, "{larger} {read}");
    assert_eq!(free_pages(&["sim", &plan, "--age", "0"]), fresh);
}

#[test]
fn fleet_draws_ages() {
    let sandbox = Sandbox::new();
    let drawn = format!("{PLAN}[fleet.draw]\n\"machine.age\" = {{ least = 10, most = 90 }}\n");
    std::fs::write(sandbox.path("plan.toml"), drawn).unwrap();
    let found = text(&["fleet", &sandbox.argument("plan.toml"), "--hosts", "3", "--all"]);
    assert!(found.contains("machine.age"), "{found}");
}

#[test]
fn invalid_starts_are_refused() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox);
    let rows = [Row { pfn: 0, order: 0, ..Row::new(Kind::StartFree) }];
    let foreign = Facts { page_size: 65536, pageblock_order: 10, ..crate::common::facts() };
    write(&sandbox.path("foreign.parquet"), &rows, &Facts { duration: 0, ..foreign });
    let foreign = sandbox.argument("foreign.parquet");
    for (arguments, why) in [
        (&["age", "--memory", "1KiB"][..], "too little"),
        (&["age", "--fixed", "90"], "these shares add up to more than the whole"),
        (&["age", "--like", "README.md"], "README.md"),
        (&["age", "--like", &foreign], "pages of 65536 bytes"),
        (&["age", "--out", "/no/such/folder/old.parquet"], "/no/such/folder"),
        (&["sim", &plan, "--set", "machine.age=101"], "is 101; give an age from 0 to 100"),
        (&["sim", &plan, "--start", "no-such.parquet"], "no-such.parquet"),
        (&["sim", &plan, "--start", &foreign], "pages of 65536 bytes"),
    ] {
        assert_refused(&freehold(arguments), why);
    }
}
