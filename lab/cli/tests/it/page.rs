//! Pages in a real browser: plots are drawn, the slider moves, the keyboard works, and the page shows the values of the
//! JSON. Without a browser these tests are skipped; the gate requires one.

use crate::common::browser::{Page, program};
use crate::common::{Sandbox, facts, freehold, json, rows, stderr, write};
use freehold_trace::facts::Task;
use serde_json::{Value, json};

/// A name that would be markup, a script and an image if it were not escaped.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>&lt;";

/// Writes a comparison as a page, and returns the page's path and the JSON of the comparison.
fn compared(sandbox: &Sandbox) -> (String, Value) {
    let (recording, page) = (sandbox.recording("small.parquet"), sandbox.argument("page.html"));
    let document =
        json(&["compare", &recording, "--a", "linux-6.12", "--b", "freehold", "--html", &page, "--json", "-"]);
    (page, document)
}

/// Writes a comparison of a recorded build as a page, in which A and B differ, and returns the path of the page.
fn compared_build(sandbox: &Sandbox) -> String {
    let recording = format!("{}/../../recordings/guest-build.parquet", env!("CARGO_MANIFEST_DIR"));
    let page = sandbox.argument("page.html");
    let output = freehold(&["compare", &recording, "--b", "freehold", "--html", &page]);
    assert!(output.status.success(), "{}", stderr(&output));
    page
}

/// Expression for the drawn plots, in the order of the JSON; folded plots are at the end of the page. For each plot it
/// returns both axes, as values and coordinates of their labels, and
/// the drawn lines: coordinates of a path, or the middle, the top and the bottom of each bar.
const DRAWN: &str = "[...document.querySelectorAll('figure[data-plot]')]
    .sort((a, b) => a.dataset.plot - b.dataset.plot).map((figure) => {
    const labels = (axis) => [...figure.querySelectorAll(`[data-axis=${axis}] text[data-value]`)]
        .map(({ dataset }) => [Number(dataset.value), Number(dataset.at)]);
    const number = (bar, name) => Number(bar.getAttribute(name));
    const path = (line) => line.querySelector('path.line, path.area')?.getAttribute('d').match(/-?[\\d.]+/g) ?? [];
    const bars = (line) => [...line.querySelectorAll('rect.bars')].map((bar) => [
        number(bar, 'x') + number(bar, 'width') / 2,
        number(bar, 'y'),
        number(bar, 'y') + number(bar, 'height'),
    ]);
    return {
        along: labels('along'),
        values: labels('values'),
        names: [...figure.querySelectorAll('.legend li')].map((entry) => entry.textContent),
        lines: [...figure.querySelectorAll('.plot [data-line]')]
            .map((line) => ({ path: path(line).map(Number), bars: bars(line) })),
    };
})";

/// Tolerance for coordinates: they have one decimal, and so have those of the labels that they are compared with.
const TOLERANCE: f64 = 0.25;

/// An axis as a browser shows it: values and coordinates of its labels.
struct ShownAxis {
    labels: Vec<(f64, f64)>,
    transform: fn(f64) -> f64,
}

impl ShownAxis {
    fn new(labels: &Value, transform: fn(f64) -> f64) -> ShownAxis {
        ShownAxis { labels: serde_json::from_value(labels.clone()).expect("labels are pairs"), transform }
    }

    fn along(plot: &Value, drawn: &Value) -> ShownAxis {
        ShownAxis::new(&drawn["along"], if plot["scale"] == "doubling" { f64::log2 } else { f64::from })
    }

    fn of_values(plot: &Value, drawn: &Value) -> ShownAxis {
        ShownAxis::new(&drawn["values"], if plot["axis"] == "logarithmic" { f64::log10 } else { f64::from })
    }

    /// Returns the coordinate of a value, by the first and the last label.
    fn position(&self, value: f64) -> f64 {
        let (first, last) = (self.labels[0], self.labels[self.labels.len() - 1]);
        let [first_at, value_at, last_at] = [first.0, value, last.0].map(self.transform);
        first.1 + (value_at - first_at) / (last_at - first_at) * (last.1 - first.1)
    }

    /// Returns a value that is two hundredths of the axis above another one.
    fn displace(&self, value: f64) -> f64 {
        let last = self.labels[self.labels.len() - 1].0;
        if (self.transform)(2.0) == 2.0 { value + last * 0.02 } else { value * 1.2 }
    }
}

/// Returns the points of a line that its plot can show.
fn points(plot: &Value, line: &Value) -> Vec<(f64, f64)> {
    let points: Vec<(f64, f64)> = serde_json::from_value(line["points"].clone()).expect("points are pairs");
    points.into_iter().filter(|point| plot["axis"] != "logarithmic" || point.1 > 0.0).collect()
}

/// Returns the coordinates at which the lines of a plot should be, each with those of its lower bound if it has one.
fn expected_lines(plot: &Value, drawn: &Value) -> Vec<Vec<(f64, f64)>> {
    let (along, values) = (ShownAxis::along(plot, drawn), ShownAxis::of_values(plot, drawn));
    let lines = plot["lines"].as_array().expect("plots have lines");
    let is_stacked = plot["shape"] == "stacked";
    let mut heights = vec![0.0; points(plot, &lines[0]).len()];
    let mut expected = Vec::new();
    for line in lines {
        let points = points(plot, line);
        let mut upper = Vec::new();
        let mut lower = Vec::new();
        for (number, (place, value)) in points.into_iter().enumerate() {
            if is_stacked {
                lower.push((along.position(place), values.position(heights[number])));
                heights[number] += value;
                upper.push((along.position(place), values.position(heights[number])));
            } else {
                upper.push((along.position(place), values.position(value)));
            }
        }
        lower.reverse();
        upper.extend(lower);
        expected.push(upper);
    }
    expected
}

/// Returns the coordinates at which a page draws a line.
fn drawn_line(line: &Value) -> Vec<(f64, f64)> {
    let path: Vec<f64> = serde_json::from_value(line["path"].clone()).expect("a path has numbers");
    path.chunks(2).map(|point| (point[0], point[1])).collect()
}

/// Returns the first difference between the plots of a page and those of the JSON.
fn find_difference(drawn: &Value, plots: &Value) -> Option<String> {
    let plots = plots.as_array().expect("the report has plots");
    let drawn = drawn.as_array().expect("the page has figures");
    if plots.len() != drawn.len() {
        return Some(format!("{} figures of {} plots", drawn.len(), plots.len()));
    }
    plots.iter().zip(drawn).find_map(|(plot, drawn)| find_difference_of_plot(drawn, plot))
}

fn find_difference_of_plot(drawn: &Value, plot: &Value) -> Option<String> {
    let mut names: Vec<&Value> = plot["lines"].as_array()?.iter().map(|line| &line["name"]).collect();
    if plot["shape"] == "stacked" {
        names.reverse();
    }
    if drawn["names"] != json!(names) {
        return Some(format!("{}: {} in the legend", plot["title"], drawn["names"]));
    }
    let along = ShownAxis::along(plot, drawn);
    let room = (along.labels[1].1 - along.labels[0].1) / 2.0;
    for (number, expected) in expected_lines(plot, drawn).into_iter().enumerate() {
        let line = &drawn["lines"][number];
        let (seen, tolerance) = match plot["shape"].as_str() {
            Some("bars") => (drawn_bars(line, &drawn["values"]), room),
            _ => (drawn_line(line), TOLERANCE),
        };
        let are_near = seen.iter().zip(&expected).all(|(seen, expected)| {
            (seen.0 - expected.0).abs() <= tolerance && (seen.1 - expected.1).abs() <= TOLERANCE
        });
        if seen.len() != expected.len() || !are_near {
            return Some(format!("{}, line {number}: {expected:?} and {seen:?}", plot["title"]));
        }
    }
    None
}

/// Returns the upper ends of bars, all of which begin at the bottom of the axis.
fn drawn_bars(line: &Value, labels: &Value) -> Vec<(f64, f64)> {
    let bars: Vec<[f64; 3]> = serde_json::from_value(line["bars"].clone()).expect("bars have three coordinates");
    let bottom = labels[0][1].as_f64().expect("a label has a coordinate");
    assert!(bars.iter().all(|bar| (bar[2] - bottom).abs() <= TOLERANCE), "bars begin at {bottom}: {bars:?}");
    bars.into_iter().map(|[middle, top, _]| (middle, top)).collect()
}

/// Plants a wrong point into a plot, two hundredths of its axis too high.
fn plant_wrong_point(plots: &Value, drawn: &Value, number: usize) -> Value {
    let mut other = plots.clone();
    let axis = ShownAxis::of_values(&plots[number], &drawn[number]);
    let lines = other[number]["lines"].as_array_mut().expect("plots have lines");
    let points = lines.iter_mut().find_map(|line| Some(line["points"].as_array_mut()?).filter(|all| !all.is_empty()));
    let points = points.expect("a plot has a point");
    let point = points.last_mut().expect("the list must not be empty");
    point[1] = json!(axis.displace(point[1].as_f64().expect("a value is a number")));
    other
}

/// Asserts that each area begins where the one below it ends.
fn assert_stacked(drawn: &Value, plots: &Value) {
    let plots = plots.as_array().expect("the report has plots").iter().zip(drawn.as_array().expect("figures"));
    let stacked: Vec<&Value> =
        plots.filter(|(plot, _)| plot["shape"] == "stacked").map(|(_, drawn)| &drawn["lines"]).collect();
    assert!(!stacked.is_empty());
    for lines in stacked {
        for pair in lines.as_array().expect("lines").windows(2) {
            let (below, above) = (drawn_line(&pair[0]), drawn_line(&pair[1]));
            let (upper, mut lower) = (&below[..below.len() / 2], above[above.len() / 2..].to_vec());
            lower.reverse();
            assert_eq!(upper, lower);
        }
    }
}

/// Expression for the sums over the cells of each moment, computed in the page.
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
fn drawn_plots_match_the_json() {
    let Some(program) = program() else { return };
    let sandbox = Sandbox::new();
    let (file, document) = compared(&sandbox);
    let report = &document["verdicts"][0];
    let mut page = Page::open(&program, &file, 1200, 2000);
    let drawn = page.evaluate(DRAWN);
    assert_eq!(find_difference(&drawn, &report["plots"]), None);
    for number in 0..drawn.as_array().unwrap().len() {
        let wrong = plant_wrong_point(&report["plots"], &drawn, number);
        assert!(find_difference(&drawn, &wrong).is_some(), "a wrong point of plot {number} was not detected");
    }
    assert_stacked(&drawn, &report["plots"]);
    page.evaluate("document.querySelectorAll('details').forEach((folded) => (folded.open = true))");
    let heights = "[...document.querySelectorAll('svg.plot')].map((plot) => plot.getBoundingClientRect().height)";
    let heights: Vec<f64> = serde_json::from_value(page.evaluate(heights)).unwrap();
    assert!(heights.iter().all(|height| *height > 100.0), "{heights:?}");

    let sums = page.evaluate(SUMS);
    for (side, of_side) in report["maps"][0]["sides"].as_array().unwrap().iter().enumerate() {
        for (moment, known) in of_side["moments"].as_array().unwrap().iter().enumerate() {
            let seen = &sums[0][side][moment];
            for key in ["used", "mixed", "owned", "empty"] {
                assert_eq!(seen[key], known[key], "{key} of side {side} at moment {moment}");
            }
        }
    }
    let name = report["groups"][0]["measures"][0]["name"].as_str().unwrap();
    let title = page.evaluate(&format!("document.querySelector('td.name[title={name}]').textContent"));
    assert!(!title.as_str().unwrap().is_empty(), "{name}");
    assert_eq!(
        page.evaluate("performance.getEntriesByType('resource').length"),
        0,
        "the page must not load other files"
    );
}

/// Tests bars with names below them, and lines over numbers of CPUs.
#[test]
fn bars_and_logarithmic_axes_are_drawn_correctly() {
    let Some(program) = program() else { return };
    let sandbox = Sandbox::new();
    let file = sandbox.argument("page.html");
    for command in [&["bench", "flags", "--quick", "--runs", "1"][..], &["sim", "purge", "--quick", "--cpus", "1,2,8"]]
    {
        let output = freehold(&[command, &["--html", &file]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let mut page = Page::open(&program, &file, 1200, 2000);
        let (drawn, plots) = (page.evaluate(DRAWN), page.evaluate("freehold.data.plots"));
        assert_eq!(find_difference(&drawn, &plots), None);
        let wrong = plant_wrong_point(&plots, &drawn, 0);
        assert!(find_difference(&drawn, &wrong).is_some(), "a wrong point was not detected in {command:?}");
    }
}

#[test]
fn slider_and_cells_are_reachable_by_keyboard() {
    let Some(program) = program() else { return };
    let sandbox = Sandbox::new();
    let (file, document) = compared(&sandbox);
    let mut page = Page::open(&program, &file, 1200, 2000);
    let last = document["verdicts"][0]["maps"][0]["moments"].as_array().unwrap().len() - 1;
    let state = "[freehold.maps[0].state.moment, freehold.maps[0].state.block]";
    page.evaluate("document.querySelector('.maps input[type=range]').focus()");
    page.press("End", 35);
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
    let hidden = "document.querySelector('.plot [data-line=\"10\"]').classList.contains('hidden')";
    assert_eq!(page.evaluate(hidden), false);
    page.evaluate("document.querySelector('.legend li[data-line=\"10\"]').focus()");
    page.press("Enter", 13);
    assert_eq!(page.evaluate(hidden), true, "the legend hides a line");
}

/// Expression for the number of pageblocks that differ at each moment, computed in the page, and the moment shown.
const DIFFERENCES: &str = "(() => {
    const [map, shown] = [freehold.data.maps[0], freehold.maps[0]];
    const differs = (moment, block) => {
        const [a, b] = [0, 1].map((side) => shown.cell(side, moment, block));
        return a.type !== b.type || a.used !== b.used || a.movable !== b.movable;
    };
    const blocks = [...Array(shown.cells).keys()];
    return {
        counts: map.moments.map((_, moment) => blocks.filter((block) => differs(moment, block)).length),
        moment: shown.state.moment,
        shown: document.querySelector('[data-differ]').textContent,
    };
})()";

#[test]
fn map_opens_at_the_moment_with_the_most_differences() {
    let Some(program) = program() else { return };
    let sandbox = Sandbox::new();
    let file = compared_build(&sandbox);
    let mut page = Page::open(&program, &file, 1200, 2000);
    let found = page.evaluate(DIFFERENCES);
    let counts: Vec<u64> = serde_json::from_value(found["counts"].clone()).unwrap();
    let most = *counts.iter().max().unwrap();
    assert!(most > 0 && found["moment"].as_u64() == counts.iter().position(|count| *count == most).map(|at| at as u64));
    assert_eq!(found["shown"].as_str().unwrap().replace(',', ""), most.to_string());
    page.evaluate("document.querySelector('.maps input[type=range]').focus()");
    page.press("Home", 36);
    assert_eq!(page.evaluate(DIFFERENCES)["shown"], counts[0].to_string(), "the number follows the slider");
}

/// Expression for the pixels of a map: the picture of the page, or the canvas that replaced it.
const PIXELS: &str = "[...document.querySelectorAll('.map')].map((map) => {
    const drawn = map.firstElementChild;
    const size = [drawn.naturalWidth ?? drawn.width, drawn.naturalHeight ?? drawn.height];
    const canvas = Object.assign(document.createElement('canvas'), { width: size[0], height: size[1] });
    const pen = canvas.getContext('2d');
    pen.drawImage(drawn, 0, 0);
    return [drawn.tagName, ...pen.getImageData(0, 0, ...size).data];
})";

/// Returns the element and the pixels of each map.
fn pixels(page: &mut Page) -> Vec<(String, Vec<u8>)> {
    let maps: Vec<Vec<Value>> = serde_json::from_value(page.evaluate(PIXELS)).unwrap();
    let bytes = |values: &[Value]| values.iter().map(|value| value.as_u64().unwrap() as u8).collect();
    maps.iter().map(|map| (map[0].as_str().unwrap().to_owned(), bytes(&map[1..]))).collect()
}

#[test]
fn pictures_of_the_page_match_the_canvases_of_the_script() {
    let Some(program) = program() else { return };
    let sandbox = Sandbox::new();
    let file = compared_build(&sandbox);
    let mut page = Page::open(&program, &file, 1200, 2000);
    let drawn = pixels(&mut page);
    // Without its script, the page has the pictures only.
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, after) = text.split_once("<script>").expect("the page has a script");
    let rest = after.split_once("</script>").expect("the script has an end").1;
    let ready = "<script>window.freehold = { ready: true }</script>";
    std::fs::write(&file, format!("{before}{ready}{rest}")).unwrap();
    let pictures = pixels(&mut Page::open(&program, &file, 1200, 2000));
    assert_eq!(pictures.len(), 3, "A, B and the difference");
    for ((picture, expected), (canvas, seen)) in pictures.iter().zip(&drawn) {
        assert_eq!((picture.as_str(), canvas.as_str()), ("IMG", "CANVAS"));
        let largest = expected.iter().zip(seen).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(expected.len() == seen.len() && largest <= Some(8), "the pixels differ by {largest:?}");
    }
}

#[test]
fn link_selects_a_time_and_a_pageblock() {
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
fn task_names_are_not_interpreted_as_html() {
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
fn page_fits_a_phone_supports_dark_mode_and_prints() {
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
    let letter = page.evaluate("document.querySelector('.plot text').getBoundingClientRect().height");
    assert!(letter.as_f64().unwrap() > 9.0, "labels of {letter} pixels");
    let colors = "[getComputedStyle(document.body).backgroundColor,
        getComputedStyle(document.querySelector('path.line')).stroke]";
    page.color_scheme("light");
    let light = page.evaluate(colors);
    page.color_scheme("dark");
    let dark = page.evaluate(colors);
    assert!(dark[0] != light[0] && dark[1] != light[1], "{light} and {dark}");
    let pdf = page.call("Page.printToPDF", &json!({}));
    assert!(pdf["data"].as_str().is_some_and(|data| data.starts_with("JVBERi")), "the page must be printable as PDF");
}
