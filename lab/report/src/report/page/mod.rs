//! Renderer of reports as an HTML page: the verdict, the measures, interactive plots and maps, caveats, and the command
//! that made the page.
//!
//! The page is one self-contained file, so it can be mailed or published as it is. Its security policy forbids all
//! network access. Its title and its first line are the verdict. Plots in which nothing happens and rows of zeros are
//! folded ([`folding`]). Plots are SVG ([`super::plot`]), and each map is a picture of the moment in which A and B
//! differ most ([`maps`]), so the page is complete at the first paint, and can be printed and searched. A script shows
//! values at the pointer or for arrow keys, and all moments of a map, from the numbers in the page ([`data`]). Text may
//! come from untrusted recordings, so all of it is escaped: by the templates in Rust, and by assignment as text content
//! in the script.
//!
//! # Design
//!
//! The page is readable without a script: sentences, tables, plots and the first moment of each map are text, SVG and
//! PNG. The script only shows values, hides lines, and redraws maps from the numbers in the page.

mod data;
mod folding;
mod maps;
mod tables;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::map::MemoryMap;
use super::plot::{COLORS, LOOK as PLOT_LOOK, LineStyles, Plot, Shape, inline, key};
use super::{Caveats, Report, Value};

/// Style sheet of the page, without that of the plots.
const LOOK: &str = include_str!("look.css");
/// Scripts of plots, maps and the page.
const SCRIPT: &str = concat!(include_str!("readout.js"), include_str!("map.js"), include_str!("page.js"));

/// Content security policy: only inline scripts and styles and embedded images are allowed.
const SECURITY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// Returns the page for these reports, which have one subject, with the command and the version that made it.
pub fn text(reports: &[Report], command: &str, version: &str) -> String {
    let title = reports.first().and_then(headline).unwrap_or_else(|| "Freehold".to_owned());
    let further_reports = reports.len().saturating_sub(1);
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
                title { (title) @if further_reports > 0 { "; and " (further_reports) " more" } }
                style { (PreEscaped(COLORS)) (PreEscaped(PLOT_LOOK)) (PreEscaped(LOOK)) }
            }
            body {
                main {
                    @for (number, report) in reports.iter().enumerate() { (findings(report, number)) }
                    @if !maps.is_empty() { (maps::figures(&maps)) }
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

/// Returns the title of a report: its verdict with the names of B and A, or its subject if it compares nothing.
fn headline(report: &Report) -> Option<String> {
    let Some(verdict) = comparison_verdict(report) else { return subject(report) };
    let [a, b] = &report.sides;
    Some(if verdict.contains(b.as_str()) { verdict.to_owned() } else { format!("{verdict}: {b} against {a}") })
}

/// Renders the title of a report. A name is broken only if it is longer than a line.
fn heading(report: &Report) -> Option<Markup> {
    let Some(verdict) = comparison_verdict(report) else { return subject(report).map(|subject| html! { (subject) }) };
    let [a, b] = &report.sides;
    Some(html! {
        (verdict)
        @if !verdict.contains(b.as_str()) { ": " span.whole { (b) } " against " span.whole { (a) } }
    })
}

/// Returns the names of the cases and the first subject of a report; `None` if it has neither.
fn subject(report: &Report) -> Option<String> {
    let cases = report.cases.iter().flat_map(|cases| &cases.rows).filter_map(|row| row.first()).map(Value::shown);
    let parts: Vec<String> = cases.chain(report.subject.first().cloned()).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the first sentence of the verdict of a comparison, without its full stop.
fn comparison_verdict(report: &Report) -> Option<&str> {
    let has_sides = report.sides.iter().all(|side| !side.is_empty());
    let verdict = report.verdict.first().filter(|_| has_sides)?;
    Some(verdict.strip_suffix('.').unwrap_or(verdict))
}

/// Renders the headline, the subjects, the rest of the verdict, and the measures behind it. The headline of the first
/// report is that of the page.
fn findings(report: &Report, number: usize) -> Markup {
    let is_comparison = comparison_verdict(report).is_some();
    let subjects = report.subject.iter().skip(usize::from(!is_comparison));
    let sentences = report.verdict.iter().skip(usize::from(is_comparison));
    html! {
        section.findings {
            @match (heading(report), number) {
                (Some(heading), 0) => h1 { (heading) },
                (Some(heading), _) => h2.verdict { (heading) },
                (None, _) => {}
            }
            @for line in subjects { p.subject { (line) } }
            @for (number, sentence) in sentences.enumerate() {
                p.verdict[number == 0 && !is_comparison] { (sentence) }
            }
            @for table in report.cases.iter().chain(&report.answers) { (tables::table(table)) }
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

/// Renders the figures of all plots. A line has the same colour, dash pattern and mark in all plots of a report. Plots
/// in which nothing happens are folded.
fn plot_figures(reports: &[Report]) -> Markup {
    let mut number = 0;
    let (mut shown, mut flat) = (Vec::new(), Vec::new());
    let mut names: Vec<String> = Vec::new();
    for report in reports {
        let styles = LineStyles::new(&report.plots);
        for plot in &report.plots {
            let figure = plot_figure(plot, number, &styles);
            if folding::is_flat(plot) {
                flat.push(figure);
                names.push(if plot.of.is_empty() {
                    plot.title.clone()
                } else {
                    format!("{} ({})", plot.title, plot.of)
                });
            } else {
                shown.push(figure);
            }
            number += 1;
        }
    }
    html! {
        h2 { "Plots" }
        section.plots { @for figure in shown { (figure) } }
        @if !flat.is_empty() {
            details {
                summary {
                    (names.len()) " of " (number) " plots, in which no value changes by more than "
                    (percent_of(folding::FLAT)) " (" (folding::join_names(&names)) ")"
                }
                section.plots { @for figure in flat { (figure) } }
            }
        }
    }
}

/// Formats a share as a whole percentage.
fn percent_of(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
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
    use super::super::plot::PlotLine;
    use super::super::{Column, Table};
    use super::*;
    use freehold_stats::verdict::Verdict;

    fn report() -> Report {
        let rows = [vec![Value::text("a<b"), Value::Judged("better".to_owned(), Verdict::Better)]];
        Report {
            sides: ["old", "new"].map(str::to_owned),
            subject: vec!["A & B".to_owned()],
            verdict: vec!["better 1, worse 0".to_owned(), "B does more.".to_owned()],
            plots: vec![Plot {
                title: "throughput".to_owned(),
                along: "CPUs".into(),
                lines: vec![PlotLine::new("new", vec![(1.0, 2.0), (2.0, 3.0)])],
                ..Plot::default()
            }],
            tables: vec![Table::new("Speed", vec![Column::words("policy"), Column::words("verdict")], rows)],
            recipe: vec![("seeds".to_owned(), "1 to 5".to_owned())],
            ..Report::default()
        }
    }

    #[test]
    fn page_is_ordered_verdict_plots_tables_command() {
        let page = text(&[report()], "freehold sim purge", "0.1.0");
        let parts = [
            "<title>better 1, worse 0: new against old</title>",
            "<h1>better 1, worse 0: <span class=\"whole\">new</span> against <span class=\"whole\">old</span></h1>",
            "A &amp; B",
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

    /// Returns the text of the first element of the body.
    fn first_line(page: &str) -> String {
        let start = page.find("<body>").unwrap() + "<body>".len();
        let end = page.find("</h1>").unwrap();
        page[start..end].split('<').filter_map(|piece| piece.split_once('>')).map(|(_, text)| text).collect()
    }

    #[test]
    fn first_line_is_the_verdict() {
        let page = text(&[report()], "freehold compare", "0.1.0");
        assert_eq!(first_line(&page), "better 1, worse 0: new against old");
        let single = Report { sides: Default::default(), ..report() };
        let page = text(&[single], "freehold inspect", "0.1.0");
        assert!(page.contains("<title>A &amp; B</title>") && first_line(&page) == "A &amp; B");
        assert_eq!(page.matches("A &amp; B").count(), 2, "the subject is not repeated");
        assert!(page.contains("<p class=\"verdict\">better 1, worse 0</p>"), "{page}");
        let cases = Table::new("", vec![Column::words("recording")], [vec![Value::text("build")]]);
        let single = Report { sides: Default::default(), cases: Some(cases), ..report() };
        assert_eq!(first_line(&text(&[single], "freehold replay", "0.1.0")), "build; A &amp; B");
        let page = text(&[report(), report(), report()], "freehold sim", "0.1.0");
        assert!(page.contains("<title>better 1, worse 0: new against old; and 2 more</title>"), "{page}");
    }

    #[test]
    fn plot_in_which_nothing_happens_is_folded() {
        let mut report = report();
        let flat = vec![PlotLine::new("new", vec![(1.0, 7.0), (2.0, 7.0)])];
        report.plots.push(Plot { title: "locks".to_owned(), lines: flat, ..Plot::default() });
        let page = text(&[report], "freehold sim", "0.1.0");
        let summary = "1 of 2 plots, in which no value changes by more than 2 % (locks)";
        let places = [page.find("data-plot=\"0\""), page.find(summary), page.find("data-plot=\"1\"")];
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
        report.plots[0].lines = vec![PlotLine::new(hostile, vec![(1.0, 2.0)])];
        let page = text(&[report], hostile, hostile);
        assert!(!page.contains("<img") && !page.contains("<script>alert"), "{page}");
    }
}
