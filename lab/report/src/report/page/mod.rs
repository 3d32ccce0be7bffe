//! Renderer of reports as an HTML page: the verdict, the measures, interactive plots and maps, caveats, and the command
//! that made the page.
//!
//! The page is one self-contained file, so it can be mailed or published as it is. Its security policy forbids all
//! network access. Tables, sentences and plots do not need the script, so the page can be printed and searched. Plots
//! are SVG ([`super::plot`]). A script shows values at the pointer or for arrow keys, and draws maps, from the numbers
//! in the page ([`data`]). Text may come from untrusted recordings, so all of it is escaped: by the templates in Rust,
//! and by assignment as text content in the script.
//!
//! # Design
//!
//! The page is readable without a script: sentences, tables and plots are text and SVG. The script only shows values,
//! hides rows, and draws maps from the numbers in the page.

mod data;
mod tables;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::map::MemoryMap;
use super::plot::{COLORS, LOOK as PLOT_LOOK, LineStyles, Plot, Shape, inline, key};
use super::{Caveats, Report};

/// Style sheet of the page, without that of the plots.
const LOOK: &str = include_str!("look.css");
/// Scripts of plots, maps and the page.
const SCRIPT: &str = concat!(include_str!("readout.js"), include_str!("map.js"), include_str!("page.js"));

/// Content security policy: only inline scripts and styles and embedded images are allowed.
const SECURITY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// Returns the page for these reports, which have one subject, with the command and the version that made it.
pub fn text(reports: &[Report], command: &str, version: &str) -> String {
    let title = reports.iter().flat_map(|report| &report.subject).next().map_or("Freehold", String::as_str);
    let plots: Vec<&Plot> = reports.iter().flat_map(|report| &report.plots).collect();
    let maps: Vec<&MemoryMap> = reports.iter().flat_map(|report| &report.maps).collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(SECURITY);
                title { (title) }
                style { (PreEscaped(COLORS)) (PreEscaped(PLOT_LOOK)) (PreEscaped(LOOK)) }
            }
            body {
                header { h1 { (title) } }
                main {
                    @for report in reports { (findings(report)) }
                    @if !maps.is_empty() { (map_figures(&maps)) }
                    @if !plots.is_empty() { (plot_figures(reports)) }
                    @for report in reports { (further(report)) }
                    (recipe(reports, command, version))
                }
                @if !(plots.is_empty() && maps.is_empty()) {
                    script type="application/json" id="data" { (PreEscaped(data::json(&plots, &maps))) }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// Renders the subjects beyond the title, the verdict, and the measures behind it.
fn findings(report: &Report) -> Markup {
    html! {
        section.findings {
            @for line in report.subject.iter().skip(1) { p.subject { (line) } }
            @for (number, sentence) in report.verdict.iter().enumerate() {
                p.verdict[number == 0] { (sentence) }
            }
            (tables::measures(report))
        }
    }
}

/// Renders tables, caveats, and references to further documents.
fn further(report: &Report) -> Markup {
    html! {
        @if !report.tables.is_empty() {
            section.tables { @for table in &report.tables { (tables::table(table)) } }
        }
        @for caveats in &report.caveats { (caveat_list(caveats)) }
        @for sentence in &report.reading { p { (sentence) } }
    }
}

fn caveat_list(caveats: &Caveats) -> Markup {
    html! {
        @if !caveats.sentences.is_empty() {
            section.caveats {
                h2 { (caveats.title) }
                ul { @for sentence in &caveats.sentences { li { (sentence) } } }
            }
        }
    }
}

/// Renders the figures of all plots. A line has the same colour, dash pattern and mark in all plots of a report.
fn plot_figures(reports: &[Report]) -> Markup {
    let mut number = 0;
    let mut figures = Vec::new();
    for report in reports {
        let styles = LineStyles::new(&report.plots);
        for plot in &report.plots {
            figures.push(plot_figure(plot, number, &styles));
            number += 1;
        }
    }
    html! { section.plots { @for figure in figures { (figure) } } }
}

/// Renders a figure: the plot with its legend, a field for the values at the pointer, and a table of all numbers.
fn plot_figure(plot: &Plot, number: usize, styles: &LineStyles<'_>) -> Markup {
    html! {
        figure data-plot=(number) {
            figcaption {
                strong { (plot.title) }
                @if !plot.of.is_empty() { " " span.faint { (plot.of) } }
                @if !plot.caption.is_empty() { p { (plot.caption) } }
            }
            div.drawing.stacked[plot.shape == Shape::Stacked] {
                (inline(plot, styles))
                (legend(plot, styles))
            }
            output.readout aria-live="polite" {}
            details { summary { "Table of the values" } (tables::numbers(plot)) }
        }
    }
}

/// Renders the legend of a plot. The highest of stacked areas is first.
fn legend(plot: &Plot, styles: &LineStyles<'_>) -> Markup {
    let mut numbers: Vec<usize> = (0..plot.lines.len()).collect();
    if plot.shape == Shape::Stacked {
        numbers.reverse();
    }
    html! {
        ul.legend {
            @for number in numbers {
                li data-line=(number) { (key(plot, number, styles)) span { (plot.lines[number].name) } }
            }
        }
    }
}

/// Renders an empty figure for each map; a script draws the map.
fn map_figures(maps: &[&MemoryMap]) -> Markup {
    html! {
        section.maps {
            h2 { "Memory, pageblock by pageblock" }
            @for (number, map) in maps.iter().enumerate() {
                figure data-map=(number) {
                    figcaption {
                        strong { (map.title()) }
                        p { (map.caption()) }
                    }
                    noscript { p { "The map needs JavaScript, which is off in this browser." } }
                }
            }
        }
    }
}

fn recipe(reports: &[Report], command: &str, version: &str) -> Markup {
    let rows = reports.iter().flat_map(|report| &report.recipe).filter(|(_, entry)| entry != command);
    html! {
        section.recipe {
            h2 { "How to reproduce this page" }
            p { code #command { (command) } " " button type="button" data-copy="command" { "Copy" } }
            table {
                @for (what, entry) in rows { tr { td { (what) } td { code { (entry) } } } }
                tr { td { "freehold" } td { (version) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Column, Table, Value};
    use super::*;
    use freehold_stats::verdict::Verdict;

    fn report() -> Report {
        let rows = [vec![Value::text("a<b"), Value::Judged("better".to_owned(), Verdict::Better)]];
        Report {
            subject: vec!["A & B".to_owned()],
            verdict: vec!["B does more.".to_owned()],
            plots: vec![Plot { title: "throughput".to_owned(), along: "CPUs".into(), ..Plot::default() }],
            tables: vec![Table::new("Speed", vec![Column::words("policy"), Column::words("verdict")], rows)],
            recipe: vec![("seeds".to_owned(), "1 to 5".to_owned())],
            ..Report::default()
        }
    }

    #[test]
    fn page_is_ordered_verdict_plots_tables_command() {
        let page = text(&[report()], "freehold sim purge", "0.1.0");
        let parts = [
            "<title>A &amp; B</title>",
            "B does more.",
            "data-plot=\"0\"",
            "a&lt;b",
            "class=\"better\"",
            "freehold sim purge",
            "1 to 5",
        ];
        let places: Vec<Option<usize>> = parts.iter().map(|part| page.find(part)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in {page}");
    }

    #[test]
    fn page_embeds_plots_and_loads_nothing() {
        let with = text(&[report()], "freehold diff", "0.1.0");
        let without = text(&[Report { plots: Vec::new(), ..report() }], "freehold diff", "0.1.0");
        assert!(with.contains("<svg class=\"plot\"") && !without.contains("<svg"));
        assert!(["src=", "href=", "@import", "url("].iter().all(|outward| !with.contains(outward)));
    }

    #[test]
    fn markup_in_names_is_escaped() {
        let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>";
        let mut report = report();
        report.subject = vec![hostile.to_owned()];
        report.plots[0].lines = vec![crate::report::plot::PlotLine::new(hostile, vec![(1.0, 2.0)])];
        let page = text(&[report], hostile, hostile);
        assert!(!page.contains("<img") && !page.contains("<script>alert"), "{page}");
    }
}
