//! Maps of memory: cells, frames and sums that agree with each other, at a terminal, as JSON and in a page.

use freehold_report::terminal::Style;
use serde_json::Value;

use crate::answer::{answered, bundled};
use crate::common::{Sandbox, assert_refused, freehold, json, text};

/// Pageblocks of the small machine.
const BLOCKS: u64 = 64;

fn sums(document: &Value) -> &Value {
    &document["sides"][0]["moments"][0]
}

#[test]
fn map_covers_every_pageblock_and_frame() {
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("small.parquet");
    let document = json(&["map", &recording, "--json", "-"]);
    let by_type = sums(&document)["by_type"].as_array().unwrap();
    assert_eq!(by_type.iter().filter_map(Value::as_u64).sum::<u64>(), BLOCKS);
    assert_eq!(document["sides"][0]["name"], "linux-6.12", "the recorded kernel's rules");
    let of_one = json(&["map", &recording, "--block", "3", "--json", "-"]);
    let runs = of_one["frames"][0].as_array().unwrap();
    assert_eq!(runs.iter().filter_map(|run| run["pages"].as_u64()).sum::<u64>(), 512);
    assert_eq!(of_one["first_frame"], 3 * 512);
    let shown = text(&["map", &recording, "--block", "3"]);
    assert!(shown.starts_with("Pageblock 3 (frame 1,536), linux-6.12: Movable, pages in use: 512 of 512"), "{shown}");
    assert_eq!(shown.lines().filter(|line| line.chars().all(|letter| letter == 'M')).count(), 8, "{shown}");
}

fn map_at(recording: &str, time: &str) -> Value {
    json(&["map", recording, "--at", time, "--json", "-"])
}

fn count_used(document: &Value) -> u64 {
    sums(document)["used"].as_u64().unwrap()
}

#[test]
fn map_shows_the_requested_time() {
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("small.parquet");
    // Of every two events, the second frees the page that the first allocated.
    assert_eq!((count_used(&map_at(&recording, "0")), count_used(&map_at(&recording, "1200ns"))), (2048, 2049));
    assert_eq!(map_at(&recording, "1200ns")["moments"][0], 1200);
    assert_eq!(map_at(&recording, "9s")["moments"][0], 1_000_000_000, "a time after the end must show the end");
}

#[test]
fn inspect_shows_the_recorded_map() {
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("small.parquet");
    let shown = text(&["inspect", &recording, "--map"]);
    assert!(shown.contains("recorded kernel at 0.000 s") && shown.contains("MMMM............"), "{shown}");
    let legend = shown.split("\nLegend\n").nth(1).unwrap_or_else(|| panic!("{shown}"));
    assert!(legend.contains("M m   mostly Movable pageblocks\n") && legend.contains("no memory"), "{legend}");
    let colored = text(&["inspect", &recording, "--map", "--color", "always"]);
    assert!(colored.contains("more than 75 %") && !colored.contains("ABC"), "{colored}");
    let document = json(&["inspect", &recording, "--map", "--json", "-"]);
    assert_eq!(sums(&document)["used"], 2048);
}

#[test]
fn map_has_no_empty_rows_and_names_holes() {
    for (name, holes) in [("pressure.parquet", 2), ("oracle-calm.parquet", 0)] {
        let recording = bundled(name);
        for columns in [40, 80] {
            let words = ["inspect", recording.to_str().unwrap(), "--map"];
            let shown = answered(&words).text(Style::with_width(columns));
            let is_blank = |line: &&str| !line.is_empty() && line.trim().is_empty();
            assert_eq!(shown.lines().filter(is_blank).count(), 0, "{shown}");
            assert!(shown.lines().all(|line| line.chars().count() <= usize::from(columns)), "{shown}");
            assert_eq!(shown.matches("no memory: frames 786,432 to").count(), holes, "{shown}");
        }
    }
}

#[test]
fn html_page_is_written_whole_or_not_at_all() {
    let sandbox = Sandbox::new();
    let (recording, page) = (sandbox.recording("small.parquet"), sandbox.argument("page.html"));
    text(&["replay", &recording, "--html", &page]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
    assert_refused(&freehold(&["replay", &recording, "--html", &recording]), "is an input");
    assert_refused(&freehold(&["map", &recording, "--block", "64"]), "give a number from 0 to 63");
    assert_eq!(sandbox.listing(), ["page.html", "small.parquet"]);
}
