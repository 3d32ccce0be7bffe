//! `freehold calibrate` as a program: tables that can be read again, and a check that can fail.
//!
//! No time is judged more closely than by a factor of several: the tests compare the results of a table of this machine
//! with those of a table that is ten times as expensive.

use std::fs;

use crate::common::{Sandbox, assert_refused, freehold, json, text};
use serde_json::Value;

/// Returns the error of simulated throughput in the first case of a check, `steady` on one CPU: the absolute logarithm
/// of the factor by which it is too high or too low.
fn steady_error(checked: &Value) -> f64 {
    let row = &checked["checked"]["rows"][0];
    assert_eq!((&row["workload"], &row["cpus"]), (&"steady".into(), &1.into()));
    let [simulated, threads] = ["simulated", "threads"].map(|name| row["throughput"][name].as_f64().unwrap());
    (simulated / threads).ln().abs()
}

/// Returns the table with every cost multiplied by ten. A cost of 0 is left as it is: few turns may measure 0, and `00`
/// is invalid TOML.
fn ten_times_dearer(table: &str) -> String {
    let lines = table.lines().map(|line| {
        let has_price = line.contains("_ps = ") && !line.ends_with(" 0");
        if has_price { format!("{line}0\n") } else { format!("{line}\n") }
    });
    lines.collect()
}

/// Returns the JSON of a check and its exit status, which may be a failure.
fn check(table: &str) -> (Value, Option<i32>) {
    let arguments = ["calibrate", "--check", "--workload", "steady", "--runs", "11", "--costs", table, "--json", "-"];
    let output = freehold(&arguments);
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.code())
}

#[test]
fn check_prefers_the_calibrated_table_to_a_wrong_table() {
    let sandbox = Sandbox::new();
    let (table, wrong) = (sandbox.argument("table.toml"), sandbox.argument("wrong.toml"));
    let said = text(&["calibrate", "--turns", "1", "--name", "test", "--out", &table]);
    assert!(said.contains("cost table `test`") && said.contains("lock_transfer"), "{said}");
    fs::write(&wrong, ten_times_dearer(&fs::read_to_string(&table).unwrap())).unwrap();
    let (right, _) = check(&table);
    let (wrong, status) = check(&wrong);
    assert_eq!(right["costs"]["name"], "test");
    assert_eq!((&wrong["checked"]["rows"][0]["throughput"]["agreement"], status), (&"differs".into(), Some(1)));
    assert!(steady_error(&right) < steady_error(&wrong), "{right}\n{wrong}");
}

#[test]
fn cost_table_contains_its_recipe() {
    let made = json(&["calibrate", "--turns", "1", "--json", "-"]);
    assert!(made["recipe"]["command"].as_str().unwrap().starts_with("freehold calibrate"), "{made}");
    assert!(made["costs"]["alloc_ps"].as_u64().unwrap() > 0 && made["checked"].is_null(), "{made}");
}

#[test]
fn invalid_calibrate_options_are_refused() {
    let sandbox = Sandbox::new();
    let table = sandbox.argument("table.toml");
    fs::write(&table, "name = \"half\"\nalloc_ps = 3\n").unwrap();
    assert_refused(&freehold(&["calibrate", "--check", "--costs", &table]), "table.toml");
    assert_refused(&freehold(&["calibrate", "--check", "--costs", "/no/such"]), "cannot read");
    assert_refused(&freehold(&["calibrate", "--check", "--runs", "10"]), "give at least 11");
    assert_refused(&freehold(&["calibrate", "--cpu", "60000"]), "cannot pin to CPU 60000");
}
