//! `freehold fleet` as a program: its output formats, the dependence of hosts on seed and draws, the continuation of an
//! interrupted fleet, and its refusals. The measurements are tested beside the code.

use std::fs;
use std::process::Output;

use crate::common::{Sandbox, assert_refused, stderr};
use assert_cmd::Command;
use serde_json::Value;

/// A plan with little work: two CPUs, a virtual millisecond.
const PLAN: &str = "\
title = 'Two CPUs'
shows = 'That it runs.'
cpus = [2]
duration_ms = 1
[machine]
memory = '64 MiB'
[workload]
kind = 'pingpong'
[fleet.draw]
'workload.order' = { least = 0, most = 3 }
";
/// Policy B of most tests: the default policies of a fleet make no difference on this plan.
const B: &str = "linux-6.12,pcp=merge";

/// A folder with the plan in it.
struct Fleet {
    sandbox: Sandbox,
    plan: String,
}

impl Fleet {
    fn new() -> Fleet {
        Fleet::from_plan(PLAN)
    }

    fn from_plan(text: &str) -> Fleet {
        let sandbox = Sandbox::new();
        let plan = sandbox.argument("plan.toml");
        fs::write(&plan, text).unwrap();
        Fleet { sandbox, plan }
    }

    /// Runs `freehold fleet` with the plan and these arguments. Its state is kept in the folder.
    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::cargo_bin("freehold").expect("the binary is built with the tests");
        let state = self.sandbox.path("state");
        command
            .env("XDG_STATE_HOME", state)
            .args(["fleet", &self.plan])
            .args(arguments)
            .output()
            .expect("the program must run")
    }

    fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).expect("stdout is UTF-8")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.text(&[arguments, &["--json", "-"]].concat())).expect("stdout is JSON")
    }
}

#[test]
fn fleet_json_has_the_documented_shape_and_recipe() {
    let fleet = Fleet::new();
    let found = fleet.json(&["--hosts", "7", "--b", B, "--b", "freehold"]);
    assert!(found["recipe"]["command"].as_str().unwrap().starts_with("freehold fleet "), "{}", found["recipe"]);
    assert_eq!((&found["plan"]["text"], &found["seed"]), (&Value::from(PLAN), &Value::from(1)));
    let policies = found["fleet"].as_array().unwrap();
    assert_eq!(policies.len(), 3);
    for policy in policies {
        let entry = &policy["free_pageblocks_end"];
        let interval = entry["interval"].as_array().unwrap();
        assert!(interval[0].as_f64() <= entry["value"].as_f64() && entry["hosts"] == 7, "{entry}");
        assert_eq!(entry["verdict"].is_null(), policy["policy"] == "linux-6.12", "{entry}");
    }
    let hosts = found["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 7);
    for host in hosts {
        assert!((0..=3).contains(&host["drawn"]["workload.order"].as_u64().unwrap()), "{host}");
        let results = host["results"].as_array().unwrap();
        assert_eq!(results[1]["policy"], B);
        assert!(results.iter().all(|run| run["vmstat"]["nr_free_pages"].as_u64() > Some(0)), "{host}");
    }
}

fn hosts_of(fleet: &Fleet, seed: &str, hosts: &str) -> Value {
    fleet.json(&["--b", B, "--seed", seed, "--hosts", hosts])["hosts"].clone()
}

#[test]
fn fleet_hosts_depend_only_on_the_seed() {
    let fleet = Fleet::new();
    assert_eq!(hosts_of(&fleet, "1", "3"), hosts_of(&fleet, "1", "3"));
    assert_ne!(hosts_of(&fleet, "1", "3"), hosts_of(&fleet, "2", "3"));
    // A larger fleet has the hosts of the smaller one.
    assert_eq!(hosts_of(&fleet, "1", "4").as_array().unwrap()[..3], hosts_of(&fleet, "1", "3").as_array().unwrap()[..]);
}

fn policies_of(fleet: &Fleet, arguments: &[&str]) -> Value {
    fleet.json(&[&["--hosts", "1"], arguments].concat())["plan"]["policies"].clone()
}

#[test]
fn custom_plan_sets_the_policies() {
    let fleet = Fleet::from_plan(&PLAN.replace("duration_ms", &format!("a = 'freehold'\nb = ['{B}']\nduration_ms")));
    assert_eq!(policies_of(&fleet, &[]), serde_json::json!(["freehold", B]));
    assert_eq!(policies_of(&fleet, &["--b", "linux-6.12"]), serde_json::json!(["freehold", "linux-6.12"]));
}

#[test]
fn fleet_tables_contain_policies_draws_and_optional_hosts() {
    let fleet = Fleet::new();
    let said = fleet.text(&["--b", B, "--hosts", "2"]);
    for words in ["Two CPUs", "pcp=merge", "undecided", "at least 6 hosts"] {
        assert!(said.contains(words), "no {words} in {said}");
    }
    let all = fleet.text(&["--b", B, "--hosts", "2", "--all"]);
    assert!(all.contains("each host draws") && all.contains("workload.order"), "{all}");
    let listed = fleet.text(&["--b", B, "--hosts", "2", "--hosts-table"]);
    assert!(listed.contains("host  policy") && listed.len() > said.len(), "{listed}");
}

fn plan_of_webhosts(seconds: u32) -> String {
    PLAN.replace("pingpong'", &format!("webhost'\nturnover_s = {seconds}"))
        .replace("[fleet.draw]\n'workload.order' = { least = 0, most = 3 }\n", "")
}

#[test]
fn fleet_reports_memory_that_never_filled() {
    let host = ["--b", "linux-6.12,highatomic=skip-costly", "--hosts", "1"];
    let said = Fleet::from_plan(&plan_of_webhosts(75).replace("duration_ms = 1", "duration_ms = 10")).text(&host);
    assert!(said.contains("Memory never filled"), "{said}");
    // A tenth of this time is less than a turnover, but a quick host has two turnovers nevertheless.
    let long = plan_of_webhosts(1).replace("duration_ms = 1", "warmup_ms = 3000\nduration_ms = 3000");
    let said = Fleet::from_plan(&long).text(&[&host[..], &["--quick"]].concat());
    assert!(
        !said.contains("Memory never filled") && said.contains("1 s of virtual time each after a warm-up of 1 s"),
        "{said}"
    );
}

#[test]
fn interrupted_fleet_resumes_with_equal_results() {
    let fleet = Fleet::new();
    let state = fleet.sandbox.argument("state.jsonl");
    let arguments = ["--b", B, "--hosts", "3", "--resume", &state];
    let whole = fleet.json(&arguments);
    let lines = fs::read_to_string(&state).unwrap();
    assert_eq!(lines.lines().count(), 1 + 3 * 2);
    // Simulates an interruption while the third run was being written.
    let kept: String = lines.split_inclusive('\n').take(3).collect();
    fs::write(&state, kept + "{\"host\":2,").unwrap();
    let output = fleet.run(&[arguments.as_slice(), &["--json", "-"]].concat());
    assert!(stderr(&output).contains("2 of 6 runs are already in"), "{}", stderr(&output));
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["fleet"], whole["fleet"]);
    assert_eq!(fs::read_to_string(&state).unwrap().lines().count(), 1 + 3 * 2);
}

#[test]
fn resumed_runs_are_not_repeated() {
    let fleet = Fleet::new();
    let state = fleet.sandbox.argument("state.jsonl");
    let arguments = ["--b", B, "--hosts", "2", "--resume", &state];
    fleet.text(&arguments);
    // Only a run that is read from the file, and not simulated, can yield this number.
    let lines = fs::read_to_string(&state).unwrap();
    let at = lines.find("\"free_pageblocks\":").unwrap();
    let end = at + lines[at..].find(',').unwrap();
    fs::write(&state, format!("{}\"free_pageblocks\":987654{}", &lines[..at], &lines[end..])).unwrap();
    assert!(fleet.json(&arguments)["hosts"].to_string().contains("987654"));
}

#[test]
fn finished_fleet_leaves_no_state_file() {
    let fleet = Fleet::new();
    fleet.text(&["--b", B, "--hosts", "2"]);
    assert_eq!(fs::read_dir(fleet.sandbox.path("state/freehold")).unwrap().count(), 0);
    assert_eq!(fleet.sandbox.listing(), ["plan.toml", "state"]);
}

fn resume(fleet: &Fleet, state: &str, more: &[&str]) -> Output {
    fleet.run(&[&["--hosts", "1", "--resume", state], more].concat())
}

#[test]
fn fleet_mistakes_are_reported_in_one_line() {
    let fleet = Fleet::new();
    let state = fleet.sandbox.argument("state.jsonl");
    fleet.text(&["--b", B, "--hosts", "1", "--resume", &state]);
    assert_refused(
        &resume(&fleet, &state, &["--b", "freehold"]),
        "belongs to the policies linux-6.12 linux-6.12,pcp=merge",
    );
    assert_refused(&resume(&fleet, &state, &["--b", B, "--seed", "2"]), "with other values, costs or another seed");
    assert_refused(
        &resume(&fleet, &state, &["--b", B, "--memory", "128MiB"]),
        "with other values, costs or another seed",
    );
    assert_refused(&fleet.run(&["--b", B, "--resume", &fleet.plan]), "is not the state of a fleet");
    assert_refused(&fleet.run(&["--b", B, "--resume", "no/such/folder/x"]), "no/such/folder/x");
    assert_refused(&fleet.run(&["--b", "linux-6.12,pcp=megre"]), "perhaps `merge` is meant");
    assert_refused(&fleet.run(&["--b", B, "--memory", "1MiB"]), "--memory 1MiB: `machine.memory` is 1 MiB, too little");
    assert_refused(&fleet.run(&["--b", "foo"]), "--b foo: there is no policy `foo`");
    assert_refused(&fleet.run(&["--a", "foo"]), "--a foo: there is no policy `foo`");
    assert_refused(&fleet.run(&["--b", B, "--set", "workload.oder=1"]), "perhaps `order` is meant");
    assert_refused(&Fleet::from_plan(&PLAN.replace("[2]", "[2, 4]")).run(&["--b", B]), "choose one with --cpus");
    let swept = PLAN.to_owned() + "[sweep]\nkey = 'workload.order'\nvalues = [0]\n";
    assert_refused(&Fleet::from_plan(&swept).run(&["--b", B]), "sweeps `workload.order`");
    assert_refused(
        &Fleet::from_plan(&PLAN.replace("workload.order", "workload.oder")).run(&["--b", B]),
        "plan.toml:10",
    );
    for memory in ["4", "64MB"] {
        let output = fleet.run(&["--memory", memory]);
        let said = stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains(&format!("'{memory}' for '--memory")), "{said}");
    }
    for hosts in ["0", "many", "10001"] {
        assert_eq!(fleet.run(&["--hosts", hosts]).status.code(), Some(2), "{hosts}");
    }
}
