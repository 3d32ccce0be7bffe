//! Several plots on one picture, under a title and with one legend: an SVG file for print and for documents.

use maud::{Markup, PreEscaped, html};

use super::model::Plot;
use super::panel::{draw_panel, panel_height};
use super::series::coordinate;
use super::style::{COLORS, KEY, LOOK, LineStyles, line_key};

/// Size of a panel without its title. A panel with sloped labels is higher.
const PANEL: (f64, f64) = (460.0, 262.0);
/// Vertical position of the axis along the bottom of a panel.
const BOTTOM: f64 = 214.0;
/// Panels side by side.
const ABREAST: usize = 2;
/// Height of the title, of a line of the legend, and of the title of a panel.
const TITLE: f64 = 36.0;
const LEGEND_LINE: f64 = 20.0;
const CAPTION: f64 = 44.0;
/// Margin at the left of titles and of the legend.
const MARGIN: f64 = 16.0;
/// Approximate width of a letter of the legend. Font metrics are not available here.
const LETTER: f64 = 6.6;

/// Draws plots under a title, with one legend.
pub fn svg(title: &str, plots: &[Plot]) -> String {
    let styles = LineStyles::new(plots);
    let width = PANEL.0 * ABREAST as f64;
    let legend = legend_positions(styles.names(), width);
    let top = TITLE + legend.last().map_or(0.0, |position| position.1 + LEGEND_LINE + 8.0);
    let mut tops = vec![top];
    let mut height = top;
    for row in plots.chunks(ABREAST) {
        height += CAPTION + row_height(row);
        tops.push(height);
    }
    let height = height.max(top + CAPTION + PANEL.1);
    let style = format!("{COLORS}{LOOK}");
    let drawing = html! {
        svg.sheet xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {width} {height}")) width=(width)
            height=(height) role="img" aria-label=(title) {
            style { (PreEscaped(style)) }
            rect.paper width=(width) height=(height) {}
            text.title x=(MARGIN) y="25" { (title) }
            @for (name, position) in styles.names().iter().zip(&legend) { (draw_entry(name, &styles, *position)) }
            @for (number, plot) in plots.iter().enumerate() {
                @let (column, row) = (number % ABREAST, number / ABREAST);
                (draw_plot(plot, &styles, column as f64 * PANEL.0, tops[row]))
            }
        }
    };
    // One element on each line, so that a picture in a repository has readable differences.
    drawing.into_string().replace("><", ">\n<") + "\n"
}

/// Returns the height of a row of panels without their titles.
fn row_height(plots: &[Plot]) -> f64 {
    plots.iter().map(|plot| panel_height(plot, PANEL.0, BOTTOM)).fold(PANEL.1, f64::max)
}

fn draw_plot(plot: &Plot, styles: &LineStyles<'_>, x: f64, y: f64) -> Markup {
    html! {
        g.plot transform=(format!("translate({x:.1} {y:.1})")) {
            text.name x=(MARGIN) y="18" { (plot.title) }
            text.faint x=(MARGIN) y="35" { (plot.of) }
            g transform=(format!("translate(0 {CAPTION:.1})")) { (draw_panel(plot, styles, PANEL.0, BOTTOM)) }
        }
    }
}

fn draw_entry(name: &str, styles: &LineStyles<'_>, (x, y): (f64, f64)) -> Markup {
    html! {
        g.plot transform=(format!("translate({x:.1} {:.1})", TITLE + y)) {
            (line_key(styles.style(name)))
            text.entry x=(coordinate(KEY.0 + 6.0)) y="11" { (name) }
        }
    }
}

/// Returns the position of each name of the legend, in lines that wrap at the right edge of the picture.
fn legend_positions(names: &[&str], width: f64) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (MARGIN, 0.0);
    let mut positions = Vec::with_capacity(names.len());
    for name in names {
        let room = KEY.0 + 26.0 + name.chars().count() as f64 * LETTER;
        if x + room > width && x > MARGIN {
            (x, y) = (MARGIN, y + LEGEND_LINE);
        }
        positions.push((x, y));
        x += room;
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::super::model::{Axis, PlotLine, Scale};
    use super::*;

    fn plots() -> Vec<Plot> {
        let line = |name: &str, factor: f64| {
            PlotLine::new(name, [1.0, 2.0, 8.0, 32.0, 128.0, 512.0].map(|cpus| (cpus, cpus * factor)).to_vec())
        };
        let plot = |title: &str, axis, factor: f64| Plot {
            title: title.to_owned(),
            of: "burst = 50".to_owned(),
            along: "CPUs".into(),
            axis,
            lines: vec![line("linux-6.12", factor), line("linux-6.12,pcp=owned", 0.5 * factor)],
            ..Plot::default()
        };
        vec![
            plot("throughput", Axis::Logarithmic, 1.0),
            plot("waiting", Axis::Percent, 1.0 / 1024.0),
            plot("locks", Axis::Linear, 0.3),
        ]
    }

    const TITLE: &str = "Many \"CPUs\" & few";

    #[test]
    fn svg_depends_only_on_its_data() {
        assert_eq!(svg(TITLE, &plots()), svg(TITLE, &plots()));
        let mut other = plots();
        other[0].lines[0].points[5].1 = 1.0;
        assert_ne!(svg(TITLE, &plots()), svg(TITLE, &other));
    }

    #[test]
    fn legend_lists_each_line_once_and_panels_are_labelled() {
        let svg = svg(TITLE, &plots());
        for words in ["512", "100 %", "waiting", "burst = 50", "aria-label=\"Many &quot;CPUs&quot; &amp; few\""] {
            assert!(svg.contains(words), "{words}");
        }
        assert_eq!(svg.matches(">linux-6.12,pcp=owned</text>").count(), 1);
        assert!(svg.find(">linux-6.12,pcp=owned</text>") < svg.find(">throughput</text>"));
    }

    #[test]
    fn horizontal_axis_shows_time_or_names() {
        let mut plots = plots();
        plots[0].scale = Scale::Even;
        plots[1].scale = Scale::Named(vec!["median".to_owned(), "worst".to_owned()]);
        let svg = svg(TITLE, &plots);
        for words in [">500<", ">worst<"] {
            assert!(svg.contains(words), "{words}");
        }
    }

    #[test]
    fn sloped_labels_have_room() {
        let mut plots = plots();
        let low = row_height(&plots);
        let names = ["one", "eight", "many"].map(|name| format!("{name} machines with a long name"));
        plots[0].scale = Scale::Named(names.to_vec());
        assert!(low <= PANEL.1 && row_height(&plots) > low + 50.0);
    }

    #[test]
    fn empty_plots_are_drawable() {
        let mut empty = plots();
        empty.iter_mut().for_each(|plot| plot.lines.clear());
        for svg in [svg(TITLE, &empty), svg(TITLE, &[])] {
            assert!(svg.contains("</svg>") && !svg.contains("NaN") && !svg.contains("inf"));
        }
    }
}
