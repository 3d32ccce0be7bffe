//! Pages for browsers, in a real one: they draw, the slider moves, the keyboard works, and what they show is what the
//! JSON says. Without a browser these are left out; the gate has one.

use crate::common::browser::{Page, program};
use crate::common::{Sandbox, facts, freehold, json, rows, stderr, write};
use freehold_trace::facts::Task;
use serde_json::{Value, json};

/// A name that would be markup, a script and an image, if it were anything but text.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>&lt;";

/// A comparison as a page and as JSON.
fn compared(sandbox: &Sandbox) -> (String, Value) {
    let (recording, page) = (sandbox.recording("small.parquet"), sandbox.argument("page.html"));
    let document =
        json(&["compare", &recording, "--a", "linux-6.12", "--b", "freehold", "--html", &page, "--json", "-"]);
    (page, document)
}

/// What the page has drawn, as the JSON has it.
const DRAWN: &str = "freehold.charts().map((chart) => chart.getOption().series.map((line) => ({
    name: line.name, points: line.data.map((point) => (Array.isArray(point) ? point : [null, point])) })))";

/// The first difference between what a page has drawn and what the JSON says of plots.
fn misdrawn(drawn: &Value, plots: &Value) -> Option<String> {
    let known = plots.as_array().expect("the report has plots");
    let drawn = drawn.as_array().expect("the page has charts");
    if known.len() != drawn.len() {
        return Some(format!("{} charts of {} plots", drawn.len(), known.len()));
    }
    let points = |of: &Value| of.as_array().expect("there are points").iter().map(|point| point[1].as_f64()).collect();
    known.iter().zip(drawn).find_map(|(plot, lines)| {
        let mut sides = plot["lines"].as_array()?.iter().zip(lines.as_array()?);
        sides.find_map(|(line, seen)| {
            let (line_points, seen_points): (Vec<_>, Vec<_>) = (points(&line["points"]), points(&seen["points"]));
            let is_same = line["name"] == seen["name"] && line_points == seen_points;
            (!is_same).then(|| format!("{}: {line} and {seen}", plot["title"]))
        })
    })
}

/// Along which axis each area lies upon the one below it.
const STACKED: &str = "freehold.charts().flatMap((chart, at) => freehold.data.plots[at].shape !== 'stacked' ? [] :
    chart.getModel().getSeries().map((line) => line.getData().getCalculationInfo('stackedDimension')))";

/// What the cells of each moment come to, counted in the page.
const SUMS: &str = "freehold.data.maps.map((map, at) => map.sides.map((_, side) => map.moments.map((_, moment) => {
    const shown = freehold.maps[at];
    const sums = { used: 0, mixed: 0, owned: 0, empty: 0 };
    for (let block = 0; block < shown.cells; block += 1) {
        const cell = shown.cell(side, moment, block);
        if (cell.type >= map.types.length) continue;
        sums.used += cell.used;
        sums.mixed += cell.movable > 0 && cell.movable < cell.used ? 1 : 0;
        sums.owned += cell.owner > 0 ? 1 : 0;
        sums.empty += cell.used === 0 ? 1 : 0;
    }
    return sums;
})))";

#[test]
fn what_a_page_shows_is_what_the_json_says() {
    let Some(program) = program() else { return };
    let sandbox = Sandbox::new();
    let (file, document) = compared(&sandbox);
    let report = &document["verdicts"][0];
    let mut page = Page::open(&program, &file, 1200, 2000);
    let drawn = page.evaluate(DRAWN);
    assert_eq!(misdrawn(&drawn, &report["plots"]), None);

    let mut other = report["plots"].clone();
    other[0]["lines"][0]["points"][3][1] = json!(-7);
    assert!(misdrawn(&drawn, &other).is_some(), "a wrong point is noticed");

    let stacked = page.evaluate(STACKED);
    assert!(
        stacked.as_array().is_some_and(|along| !along.is_empty() && along.iter().all(|along| along == "y")),
        "{stacked}"
    );

    let sums = page.evaluate(SUMS);
    for (side, of_side) in report["maps"][0]["sides"].as_array().unwrap().iter().enumerate() {
        for (moment, known) in of_side["moments"].as_array().unwrap().iter().enumerate() {
            let seen = &sums[0][side][moment];
            for key in ["used", "mixed", "owned", "empty"] {
                assert_eq!(seen[key], known[key], "{key} of side {side} at moment {moment}");
            }
        }
    }
    let shown = page.evaluate("document.querySelector('main').innerText");
    let measure = &report["groups"][0]["measures"][0];
    assert!(shown.as_str().unwrap().contains(measure["name"].as_str().unwrap()), "{shown}");
    assert_eq!(page.evaluate("performance.getEntriesByType('resource').length"), 0, "nothing is fetched");
}

#[test]
fn the_slider_moves_and_the_keyboard_reaches_every_cell() {
    let Some(program) = program() else { return };
    let sandbox = Sandbox::new();
    let (file, document) = compared(&sandbox);
    let mut page = Page::open(&program, &file, 1200, 2000);
    let last = document["verdicts"][0]["maps"][0]["moments"].as_array().unwrap().len() - 1;
    let state = "[freehold.maps[0].state.moment, freehold.maps[0].state.block]";
    let at_end = page.evaluate(state);
    assert_eq!(at_end[0], last);
    page.evaluate("document.querySelector('.maps input[type=range]').focus()");
    page.press("ArrowLeft", 37);
    assert_eq!(page.evaluate(state)[0], last - 1, "the slider moves");
    let time = "document.querySelector('.maps label.wide output').textContent";
    let before = page.evaluate(time);
    page.press("ArrowRight", 39);
    assert_ne!(page.evaluate(time), before);

    page.evaluate("document.querySelector('.maps canvas').focus()");
    page.press("ArrowRight", 39);
    let block = page.evaluate(state)[1].clone();
    assert_eq!(block, at_end[1].as_u64().unwrap() + 1);
    let readout = page.evaluate("document.querySelector('.maps .readout').textContent");
    assert!(readout.as_str().unwrap().starts_with(&format!("Pageblock {block} (frame ")), "{readout}");
    assert_eq!(page.evaluate("location.hash"), format!("#map=0&moment={last}&block={block}"));

    page.evaluate("document.querySelector('.plot').focus()");
    page.press("ArrowRight", 39);
    let values = page.evaluate("document.querySelector('.plots .readout').textContent");
    assert!(values.as_str().unwrap().contains("order 10 "), "{values}");
}

#[test]
fn a_link_leads_to_a_moment_and_a_block() {
    let Some(program) = program() else { return };
    let sandbox = Sandbox::new();
    let (file, _) = compared(&sandbox);
    let mut page = Page::open(&program, &format!("{file}#map=0&moment=5&block=17"), 1200, 2000);
    assert_eq!(page.evaluate("[freehold.maps[0].state.moment, freehold.maps[0].state.block]"), json!([5, 17]));
    assert_eq!(page.evaluate("location.hash"), "#map=0&moment=5&block=17");
    let command = page.evaluate("document.querySelector('.frames code').textContent");
    let command = command.as_str().unwrap();
    assert!(command.contains(" --policy linux-6.12 --at 0.") && command.ends_with("s --block 17"), "{command}");
}

#[test]
fn names_of_tasks_stay_text() {
    let Some(program) = program() else { return };
    let sandbox = Sandbox::new();
    let mut facts = facts();
    facts.tasks[1] = Task { pid: 1, name: HOSTILE.to_owned() };
    facts.command = Some(HOSTILE.to_owned());
    write(&sandbox.path("hostile.parquet"), &rows(), &facts);
    let (recording, file) = (sandbox.argument("hostile.parquet"), sandbox.argument("page.html"));
    let output = freehold(&["inspect", &recording, "--html", &file]);
    assert!(output.status.success(), "{}", stderr(&output));
    let mut page = Page::open(&program, &file, 1200, 2000);
    let text = page.evaluate("document.body.textContent");
    assert!(text.as_str().unwrap().contains(HOSTILE), "{text}");
    assert_eq!(page.evaluate("document.images.length"), 0);
}

#[test]
fn it_fits_a_phone_and_follows_the_night_and_goes_to_paper() {
    let Some(program) = program() else { return };
    let sandbox = Sandbox::new();
    let (file, _) = compared(&sandbox);
    let mut page = Page::open(&program, &file, 500, 900);
    let size = json!({ "width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true });
    page.call("Emulation.setDeviceMetricsOverride", &size);
    let width = page.evaluate(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() =>
            done(document.documentElement.scrollWidth))))",
    );
    assert!(width.as_u64().unwrap() <= 390, "{width} pixels on a phone of 390");
    let paper = "getComputedStyle(document.body).backgroundColor";
    page.color_scheme("light");
    let light = page.evaluate(paper);
    page.color_scheme("dark");
    assert_ne!(page.evaluate(paper), light);
    let pdf = page.call("Page.printToPDF", &json!({}));
    assert!(pdf["data"].as_str().is_some_and(|data| data.starts_with("JVBERi")), "it prints");
}
