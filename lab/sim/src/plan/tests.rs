//! Tests of plans. Every error in a plan is one sentence that names the file, the line and the key.

use super::builtin::BUILTINS;
use super::{Changes, Plan};
use crate::workload::Workload;

/// A valid plan. Its lines are numbered from 1 in the expected errors.
const RIGHT: &str = "\
title = 'A plan'
shows = 'Nothing much.'
cpus = [8, 2, 2]
seeds = 2
duration_ms = 5
[machine]
memory_per_cpu = '64 MiB'
[workload]
kind = 'steady'
blocks_per_cpu = 100
[sweep]
key = 'workload.think_ns'
values = [100, 200]
";

fn parse(text: &str) -> Result<Plan, String> {
    Plan::parse("my.toml", text, &Changes::default()).map_err(|error| error.to_string())
}

/// Parses a plan with these changes of the command line.
fn parse_with(text: &str, changes: &[&str]) -> Result<Plan, String> {
    let set = changes.iter().map(|&change| change.to_owned()).collect();
    Plan::parse("my.toml", text, &Changes { set, ..Changes::default() }).map_err(|error| error.to_string())
}

/// Returns the valid plan with one line replaced: the line that starts with `line`.
fn with_line(line: &str, replacement: &str) -> String {
    assert_eq!(RIGHT.lines().filter(|other| other.starts_with(line)).count(), 1, "{line}");
    RIGHT.lines().map(|other| if other.starts_with(line) { replacement } else { other }).collect::<Vec<_>>().join("\n")
}

#[test]
fn valid_plan_is_parsed() {
    let plan = parse(RIGHT).unwrap();
    assert_eq!((plan.cpus.as_slice(), plan.seeds, plan.runs()), ([2, 8].as_slice(), 2, 2 * 2 * 4 * 2));
    assert_eq!(plan.swept.as_deref(), Some("workload.think_ns"));
    let swept: Vec<_> = plan.points.iter().map(|point| point.value.clone().unwrap()).collect();
    assert_eq!(swept, ["100", "200"]);
    let Workload::Steady(steady) = &plan.points[1].workload else { panic!("another workload") };
    assert_eq!((steady.think_ns, steady.blocks_per_cpu), (200, 100));
}

#[test]
fn plan_errors_contain_file_line_and_key() {
    for (line, replacement, place, says) in [
        ("seeds", "sedes = 2", "my.toml:4: `sedes`", "perhaps `seeds` is meant"),
        ("[machine]", "[machin]", "my.toml:6: `machin`", "perhaps `machine` is meant"),
        (
            "blocks_per_cpu",
            "block_per_cpu = 1",
            "my.toml:10: `workload.block_per_cpu`",
            "perhaps `blocks_per_cpu` is meant",
        ),
        ("memory_per_cpu", "memory = '1 GiB'\nnods = 2", "my.toml:8: `machine.nods`", "perhaps `nodes` is meant"),
        ("values", "value = [1]", "my.toml:13: `sweep.value`", "perhaps `values` is meant"),
        ("kind", "kind = 'stedy'", "my.toml:9: `workload.kind`", "perhaps `steady` is meant"),
        ("kind", "", "my.toml:8: `workload` lacks `kind`", "add one of steady"),
        ("seeds", "seeds = 'two'", "my.toml:4: `seeds`", "write a whole number"),
        ("seeds", "seeds = 0", "my.toml:4: `seeds`", "from 1 to 1000"),
        ("duration_ms", "duration_ms = -5", "my.toml:5: `duration_ms`", "write a whole number"),
        ("duration_ms", "duration_ms = 0", "my.toml:5: `duration_ms`", "from 1 to"),
        ("duration_ms", "", "`duration_ms`", "add it"),
        ("title", "title = ''", "my.toml:1: `title`", "describe the purpose of the plan"),
        ("cpus", "cpus = [1, 0]", "my.toml:3: `cpus`", "contains 0"),
        ("cpus", "cpus = [513]", "my.toml:3: `cpus`", "from 1 to 512"),
        ("cpus", "cpus = []", "my.toml:3: `cpus`", "is empty"),
        ("cpus", "cpus = 4", "my.toml:3: `cpus`", "a list in brackets"),
        ("seeds", "a = 'linux-6.21'", "my.toml:4: `a`", "perhaps `linux-6.12` is meant"),
        ("memory_per_cpu", "memory_per_cpu = 64", "my.toml:7: `machine.memory_per_cpu`", "a text in quotes"),
        ("memory_per_cpu", "memory_per_cpu = '64 MB'", "my.toml:7: `machine.memory_per_cpu`", "as in \"512 MiB\""),
        ("memory_per_cpu", "memory_per_cpu = '0 MiB'", "my.toml:7: `machine.memory_per_cpu`", "above 0"),
        ("memory_per_cpu", "memory_per_cpu = '9 TiB'", "my.toml:7: `machine.memory_per_cpu`", "at most 1 TiB"),
        ("memory_per_cpu", "memory = '1 MiB'", "my.toml:7: `machine.memory`", "a node needs 16 MiB"),
        ("memory_per_cpu", "", "my.toml:6: `machine.memory`", "is missing"),
        ("memory_per_cpu", "memory = '1 GiB'\nnodes = 0", "my.toml:8: `machine.nodes`", "from 1 to 8"),
        ("blocks_per_cpu", "blocks_per_cpu = 100000", "my.toml:7: `machine.memory_per_cpu`", "the workload uses"),
        ("values", "values = []", "my.toml:13: `sweep.values`", "is empty"),
        ("values", "values = [100, 'many']", "my.toml:13: `workload.think_ns`", "write a whole number"),
        ("key", "key = 'seeds'", "my.toml:12: `sweep.key`", "name a parameter"),
        ("key", "key = 'workload.thnik_ns'", "my.toml:12: `workload.thnik_ns`", "perhaps `think_ns` is meant"),
        ("title", "title = 'A plan", "my.toml:1: `title`", "correct that line"),
        ("seeds", "seeds = 2\nseeds = 3", "my.toml:5: `seeds`", "duplicate key"),
    ] {
        let error = parse(&with_line(line, replacement)).expect_err(replacement);
        assert!(error.contains(place) && error.contains(says), "{replacement}: {error}");
        assert!(!error.contains('\n') && !error.ends_with('.'), "{replacement}: {error}");
    }
}

#[test]
fn single_cpu_per_purger_is_an_error() {
    let recording = "kind = 'recording'\nfile = 'malloc-glibc.parquet'";
    for (few, kind) in [(0, "kind = 'purge'"), (1, "kind = 'purge'"), (1, recording)] {
        let workload = format!("{kind}\ncpus_per_purger = {few}");
        let text = RIGHT.replace("kind = 'steady'\nblocks_per_cpu = 100", &workload);
        let error =
            parse(&text.replace("think_ns", "cpus_per_purger").replace("[100, 200]", &format!("[{few}]"))).unwrap_err();
        assert!(error.contains(": `workload.cpus_per_purger`") && error.contains("2 or more"), "{error}");
    }
}

#[test]
fn unknown_recorded_tasks_are_errors() {
    for key in ["tasks", "purgers"] {
        let workload = format!("kind = 'recording'\nfile = 'malloc-glibc.parquet'\n{key} = ['recieve']");
        let text = RIGHT.replace("kind = 'steady'\nblocks_per_cpu = 100", &workload).replace("think_ns", "offset_ms");
        let error = parse(&text).unwrap_err();
        assert!(error.contains("`workload.file` cannot be played: the recording has no task recieve"), "{error}");
        assert!(error.contains("answer") && error.contains("receive") && !error.contains('\n'), "{error}");
    }
}

#[test]
fn command_line_values_override_the_plan_and_are_checked() {
    let plan =
        parse_with(RIGHT, &["duration_ms=7", "machine.memory_per_cpu=128 MiB", "workload.high_order_percent = 9"])
            .unwrap();
    assert_eq!(plan.points[0].duration_ms, 7);
    assert_eq!(plan.points[0].machine.memory_per_cpu.unwrap().to_string(), "128 MiB");
    for (change, place, says) in [
        ("duration_ms", "--set duration_ms", "key=value"),
        ("duration_ms=soon", "--set duration_ms: `duration_ms`", "write a whole number"),
        ("workload.blocks=9", "--set workload.blocks: `workload.blocks`", "perhaps `blocks_per_cpu` is meant"),
        ("wrokload.think_ns=9", "--set wrokload.think_ns", "perhaps `workload` is meant"),
        ("cpus=[1]", "--set cpus", "one number or word"),
    ] {
        let error = parse_with(RIGHT, &[change]).expect_err(change);
        assert!(error.contains(place) && error.contains(says) && !error.contains('\n'), "{change}: {error}");
    }
}

#[test]
fn wrong_command_line_value_is_reported() {
    let set = ["seeds=3", "workload.blocks_per_cpu=many", "machine.memory_per_cpu=128 MiB"].map(str::to_owned).to_vec();
    let changes = Changes { set, ..Changes::default() };
    let error = Plan::parse("my.toml", RIGHT, &changes).expect_err("it is no number").to_string();
    assert!(error.starts_with("--set workload.blocks_per_cpu: `workload.blocks_per_cpu`"), "{error}");
}

#[test]
fn unwritten_table_can_be_set_from_the_command_line() {
    let text =
        RIGHT.replace("kind = 'steady'\nblocks_per_cpu = 100", "kind = 'webhost'").replace("think_ns", "read_ns");
    let plan = parse_with(&text, &["workload.memory.thp.madvised_percent=5"]).unwrap();
    let Workload::Webhost(host) = &plan.points[0].workload else { panic!("another workload") };
    assert_eq!(host.memory.thp.madvised_percent, 5);
    let error = parse_with(&text, &["workload.memroy.thp.madvised_percent=5"]).unwrap_err();
    assert!(error.starts_with("--set workload.memroy") && error.contains("perhaps `memory` is meant"), "{error}");
}

fn parse_error(changes: &Changes) -> String {
    Plan::parse("my.toml", RIGHT, changes).expect_err("it is wrong").to_string()
}

#[test]
fn errors_repeat_the_option_as_typed() {
    let small = parse_error(&Changes { memory: Some("1MiB".to_owned()), ..Changes::default() });
    assert!(
        small.starts_with("--memory 1MiB: `machine.memory` is 1 MiB, too little with 2 CPUs and 1 node;"),
        "{small}"
    );
    let rival = parse_error(&Changes { b: vec!["foo".to_owned()], ..Changes::default() });
    assert!(rival.starts_with("--b foo: there is no policy `foo`"), "{rival}");
}

/// Returns `memory` and `memory_per_cpu` of a plan, in MiB.
fn memory_sizes(plan: &Plan) -> [Option<u64>; 2] {
    let machine = &plan.points[0].machine;
    [machine.memory, machine.memory_per_cpu].map(|size| size.map(|size| size.get() >> 20))
}

#[test]
fn memory_and_memory_per_cpu_replace_each_other() {
    let changes = Changes { memory: Some("2GiB".to_owned()), ..Changes::default() };
    let plan = Plan::parse("my.toml", RIGHT, &changes).unwrap();
    assert_eq!(memory_sizes(&plan), [Some(2048), None]);
    assert_eq!(plan.changes, ["machine.memory=2GiB"]);
    let set = ["machine.memory=1 GiB", "machine.memory_per_cpu=32 MiB"].map(str::to_owned).to_vec();
    let plan = Plan::parse("my.toml", RIGHT, &Changes { set, ..Changes::default() }).unwrap();
    assert_eq!(memory_sizes(&plan), [None, Some(32)]);
}

#[test]
fn command_line_value_ends_its_sweep() {
    let given = Changes { set: vec!["workload.think_ns=300".to_owned()], ..Changes::default() };
    let plan = Plan::parse("my.toml", RIGHT, &given).unwrap();
    assert_eq!((plan.swept.as_deref(), plan.points.len()), (None, 1));
    let other = Changes { set: vec!["workload.blocks_per_cpu=10".to_owned()], ..Changes::default() };
    assert_eq!(Plan::parse("my.toml", RIGHT, &other).unwrap().points.len(), 2);
    let sizes = with_line("key", "key = 'machine.memory_per_cpu'").replace("[100, 200]", "['1 GiB', '2 GiB']");
    let sized = Changes { memory: Some("2GiB".to_owned()), ..Changes::default() };
    assert_eq!(Plan::parse("my.toml", &sizes, &sized).unwrap().points.len(), 1);
}

#[test]
fn start_and_age_replace_each_other() {
    let ages = with_line("key", "key = 'machine.age'").replace("[100, 200]", "[0, 60]");
    let aged = with_line("[machine]", "[machine]\nage = 60");
    let started = Changes { start: Some("host.parquet".to_owned()), ..Changes::default() };
    for text in [ages, aged] {
        let error = Plan::parse("my.toml", &text, &started).unwrap_err().to_string();
        assert!(error.contains("host.parquet"), "there is no such file, and nothing else is wrong: {error}");
    }
    let begun = with_line("[machine]", "[machine]\nstart = 'host.parquet'");
    let older = Changes { age: Some(30), ..Changes::default() };
    assert_eq!(Plan::parse("my.toml", &begun, &older).unwrap().points[0].machine.age, 30);
    // If the command line gives both, neither replaces the other: the start is still set, and cannot be read.
    let both = Changes { set: vec!["machine.age=30".to_owned()], ..started };
    let error = Plan::parse("my.toml", RIGHT, &both).unwrap_err().to_string();
    assert!(error.contains("host.parquet"), "{error}");
}

#[test]
fn command_line_options_override_the_plan() {
    let changes = Changes {
        cpus: vec![32, 1],
        a: Some("freehold".to_owned()),
        b: vec!["linux-6.12".to_owned(), "linux-6.12".to_owned()],
        seeds: Some(9),
        ..Changes::default()
    };
    let plan = Plan::parse("my.toml", RIGHT, &changes).unwrap();
    let names: Vec<_> = plan.policies.iter().map(|policy| policy.name.as_str()).collect();
    assert_eq!((plan.cpus, plan.seeds, names), (vec![1, 32], 9, vec!["freehold", "linux-6.12"]));
}

#[test]
fn builtin_plans_are_valid() {
    for builtin in BUILTINS {
        let plan = Plan::open(builtin.name, &Changes::default());
        let plan = plan.unwrap_or_else(|error| panic!("{}: {error}", builtin.name));
        assert!(!plan.title.ends_with('.') && plan.title.chars().count() <= 100, "{}", builtin.name);
    }
}

#[test]
fn missing_plan_error_suggests_the_nearest_name() {
    for (name, says) in [("prge", "perhaps `purge` is meant"), ("no/such/plan.toml", "no/such/plan.toml")] {
        let error = Plan::open(name, &Changes::default()).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
