//! Plots as one SVG with a panel each, for a page that is printed or a document that is no page.
//!
//! Every line has a
//! colour that people who do not see all colours can still tell apart, and a mark of its own for who prints in grey; it
//! has both in every panel, and the legend above the panels names them. The drawing is by `plotters`, without fonts:
//! texts are the reader's to render. Coordinates are whole pixels, so the same numbers give the same bytes.

use std::error::Error;
use std::ops::Range;

use plotters::chart::ChartBuilder;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::coord::{CoordTranslate, Shift};
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, Cross, EmptyElement, PathElement, Rectangle, Text, TriangleMarker};
use plotters::prelude::{DrawingBackend, SVGBackend};
use plotters::series::LineSeries;
use plotters::style::{BLACK, Color, IntoFont, RGBColor, ShapeStyle, WHITE};

use super::{Axis, Plot, Scale};

/// Size of a panel, in pixels.
const PANEL: (u32, u32) = (460, 300);
/// Panels side by side.
const ABREAST: usize = 2;
/// Height of the title, of a line of the legend below it, and of what stands above a panel.
const TITLE: u32 = 34;
const LEGEND_LINE: u32 = 20;
const CAPTION: u32 = 40;
/// About how wide a letter is at the size of labels: there are no fonts to ask.
const LETTER: f64 = 6.2;

/// The colours of lines, in their order, after Okabe and Ito.
const COLORS: [RGBColor; 6] = [
    RGBColor(40, 40, 40),
    RGBColor(230, 159, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
];
const GREY: RGBColor = RGBColor(130, 130, 130);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<T> = Result<T, Box<dyn Error>>;

/// All plots as one SVG under a title, with one legend.
pub fn svg(title: &str, plots: &[Plot]) -> String {
    let mut svg = String::new();
    draw(title, plots, &mut svg).expect("drawing into memory cannot fail, and no coordinate is infinite");
    // Who cannot see the picture is told its title.
    svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{}\" ", escaped(title)), 1)
}

fn draw(title: &str, plots: &[Plot], svg: &mut String) -> Drawn<()> {
    let names = names(plots);
    let rows = plots.len().div_ceil(ABREAST).max(1);
    let width = PANEL.0 * ABREAST as u32;
    let legend = legend_places(&names, width);
    let legend_height = legend.last().map_or(0, |place| place.1 as u32 + LEGEND_LINE + 8);
    let height = TITLE + legend_height + PANEL.1 * rows as u32;
    let root = SVGBackend::with_string(svg, (width, height)).into_drawing_area();
    root.fill(&WHITE)?;
    root.draw(&Text::new(title.to_owned(), (14, 10), ("sans-serif", 17).into_font()))?;
    let (_, below) = root.split_vertically(TITLE);
    let (top, panels) = below.split_vertically(legend_height);
    for (line, (name, place)) in names.iter().zip(legend).enumerate() {
        draw_legend(&top, line, name, place)?;
    }
    for (plot, area) in plots.iter().zip(panels.split_evenly((rows, ABREAST))) {
        plot.draw(&names, &area)?;
    }
    root.present()?;
    Ok(())
}

/// The names of all lines, each once, in order of first appearance.
fn names(plots: &[Plot]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for line in plots.iter().flat_map(|plot| &plot.lines) {
        if !names.contains(&line.name.as_str()) {
            names.push(&line.name);
        }
    }
    names
}

/// Where each name of the legend stands: in lines that break where the picture ends.
fn legend_places(names: &[&str], width: u32) -> Vec<(i32, i32)> {
    let mut next = (24, 4);
    let mut places = Vec::with_capacity(names.len());
    for name in names {
        let taken = 50 + (name.chars().count() as f64 * LETTER) as i32;
        if next.0 + taken > width as i32 && next.0 > 24 {
            next = (24, next.1 + LEGEND_LINE as i32);
        }
        places.push(next);
        next.0 += taken;
    }
    places
}

impl Plot {
    fn draw(&self, names: &[&str], area: &Area) -> Drawn<()> {
        area.draw(&Text::new(self.title.clone(), (14, 8), ("sans-serif", 14).into_font()))?;
        area.draw(&Text::new(self.of.clone(), (14, 24), ("sans-serif", 12).into_font().color(&GREY)))?;
        let (_, area) = area.split_vertically(CAPTION);
        let lines: Vec<Vec<(f64, f64)>> = self.lines.iter().map(|line| self.placed(&line.points)).collect();
        let along = self.places_along();
        let ticks = self.axis.ticks(lines.iter().flatten().map(|point| point.1));
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(34)
            .y_label_area_size(52)
            .build_cartesian_2d(Ticked::new(&along, 0.15), Ticked::new(&ticks, 0.0))?;
        chart
            .configure_mesh()
            .x_labels(along.len())
            .y_labels(ticks.len())
            .x_max_light_lines(0)
            .y_max_light_lines(0)
            .bold_line_style(BLACK.mix(0.12))
            .axis_style(GREY)
            .label_style(("sans-serif", 12))
            .x_label_formatter(&|place| self.scale.label(*place))
            .y_label_formatter(&|value| self.axis.label(*value))
            .x_desc(self.along.as_ref())
            .draw()?;
        for (line, points) in self.lines.iter().zip(&lines) {
            let number = names.iter().position(|name| *name == line.name).unwrap_or_default();
            chart.draw_series(LineSeries::new(points.iter().copied(), color(number).stroke_width(2)))?;
            for point in points {
                draw_mark(chart.plotting_area(), number, *point)?;
            }
        }
        Ok(())
    }

    /// Where points lie, for axes that are both even.
    fn placed(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let place = |&(at, value): &(f64, f64)| Some((self.scale.place(at), self.axis.place(value)?));
        points.iter().filter_map(place).collect()
    }

    /// Where numbers stand along the bottom.
    fn places_along(&self) -> Vec<f64> {
        let along = self.lines.iter().flat_map(|line| &line.points).map(|point| point.0);
        match &self.scale {
            Scale::Named(names) => (0..names.len()).map(|number| number as f64).collect(),
            Scale::Even => Axis::Linear.ticks(along),
            Scale::Doubling => {
                let mut places: Vec<f64> = along.map(f64::log2).collect();
                places.sort_unstable_by(f64::total_cmp);
                places.dedup();
                places
            }
        }
    }
}

impl Scale {
    /// Where a number lies along the bottom.
    fn place(&self, at: f64) -> f64 {
        match self {
            Scale::Doubling => at.log2(),
            Scale::Even | Scale::Named(_) => at,
        }
    }

    fn label(&self, place: f64) -> String {
        match self {
            Scale::Doubling => place.exp2().round().to_string(),
            Scale::Even => short(place),
            Scale::Named(names) => names.get(place.round() as usize).cloned().unwrap_or_default(),
        }
    }
}

impl Axis {
    /// Where a value lies; nowhere if the axis does not reach it.
    fn place(self, value: f64) -> Option<f64> {
        match self {
            Axis::Linear | Axis::Percent => Some(value),
            Axis::Logarithmic => (value > 0.0).then(|| value.log10()),
        }
    }

    /// Round places from below the smallest to above the largest of these places, few enough to be read.
    fn ticks(self, places: impl Iterator<Item = f64>) -> Vec<f64> {
        let (low, high) = places.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), at| (l.min(at), h.max(at)));
        let (low, high, step) = match self {
            Axis::Percent => (0.0, 1.0, 0.2),
            Axis::Logarithmic if low <= high => (low.floor(), high.ceil().max(low.floor() + 1.0), 1.0),
            Axis::Linear if high > 0.0 => (0.0, high, round_step(high / 5.0)),
            Axis::Linear | Axis::Logarithmic => (0.0, 1.0, 0.5),
        };
        let count = ((high - low) / step).ceil() as u32;
        (0..=count).map(|index| low + f64::from(index) * step).collect()
    }

    fn label(self, place: f64) -> String {
        match self {
            Axis::Percent => format!("{:.0} %", place * 100.0),
            Axis::Logarithmic => short(10f64.powf(place)),
            Axis::Linear => short(place),
        }
    }
}

/// An axis whose labels stand where they are told to.
struct Ticked {
    coordinates: RangedCoordf64,
    ticks: Vec<f64>,
}

impl Ticked {
    /// An axis from the first tick to the last, with some room around; at least one wide.
    fn new(ticks: &[f64], room: f64) -> Ticked {
        let first = ticks.first().copied().unwrap_or(0.0);
        let last = ticks.last().copied().filter(|last| *last > first).unwrap_or(first + 1.0);
        Ticked { coordinates: (first - room..last + room).into(), ticks: ticks.to_vec() }
    }
}

impl Ranged for Ticked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.coordinates.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.coordinates.range()
    }
}

/// The next of 1, 2, 5, 10, 20, ... from a step upwards.
fn round_step(step: f64) -> f64 {
    let magnitude = 10f64.powf(step.log10().floor());
    let lead = [1.0, 2.0, 5.0].into_iter().find(|lead| lead * magnitude >= step);
    lead.unwrap_or(10.0) * magnitude
}

/// A number for an axis: no more digits than it needs.
fn short(value: f64) -> String {
    let (unit, size) =
        [(" G", 1e9), (" M", 1e6), (" k", 1e3)].into_iter().find(|unit| value >= unit.1).unwrap_or(("", 1.0));
    let text = format!("{:.4}", value / size);
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn color(line: usize) -> RGBColor {
    COLORS[line % COLORS.len()]
}

/// Draws the mark of a line at a point.
fn draw_mark<D, C>(area: &DrawingArea<D, C>, line: usize, at: C::From) -> Drawn<()>
where
    D: DrawingBackend,
    D::ErrorType: 'static,
    C: CoordTranslate,
    C::From: Clone,
{
    let filled: ShapeStyle = color(line).filled();
    let stroked: ShapeStyle = color(line).stroke_width(2);
    match line % 5 {
        0 => area.draw(&Circle::new(at, 4, filled))?,
        1 => area.draw(&(EmptyElement::at(at) + Rectangle::new([(-4, -4), (4, 4)], filled)))?,
        2 => area.draw(&TriangleMarker::new(at, 5, filled))?,
        3 => area.draw(&Cross::new(at, 4, stroked))?,
        _ => area.draw(&Circle::new(at, 4, stroked))?,
    }
    Ok(())
}

fn draw_legend(area: &Area, line: usize, name: &str, (x, y): (i32, i32)) -> Drawn<()> {
    let middle = y + 6;
    area.draw(&PathElement::new(vec![(x, middle), (x + 24, middle)], color(line).stroke_width(2)))?;
    draw_mark(area, line, (x + 12, middle))?;
    area.draw(&Text::new(name.to_owned(), (x + 30, y), ("sans-serif", 13).into_font()))?;
    Ok(())
}

/// Text that is safe inside a tag.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::PlotLine;
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
    fn the_same_numbers_give_the_same_bytes_and_other_numbers_others() {
        assert_eq!(svg(TITLE, &plots()), svg(TITLE, &plots()));
        let mut other = plots();
        other[0].lines[0].points[5].1 = 1.0;
        assert_ne!(svg(TITLE, &plots()), svg(TITLE, &other));
    }

    #[test]
    fn every_line_is_named_once_above_the_panels_and_every_number_is_labelled() {
        let svg = svg(TITLE, &plots());
        for words in ["512", "100 %", "waiting", "burst = 50", "aria-label=\"Many &quot;CPUs&quot; &amp; few\""] {
            assert!(svg.contains(words), "{words}");
        }
        assert_eq!(svg.matches("linux-6.12,pcp=owned").count(), 1);
        assert!(svg.find("linux-6.12,pcp=owned") < svg.find("throughput"));
    }

    #[test]
    fn along_the_bottom_there_may_be_time_or_names() {
        let mut plots = plots();
        plots[0].scale = Scale::Even;
        plots[1].scale = Scale::Named(vec!["median".to_owned(), "worst".to_owned()]);
        let svg = svg(TITLE, &plots);
        for words in ["600", "worst"] {
            assert!(svg.contains(words), "{words}");
        }
    }

    #[test]
    fn nothing_at_all_can_be_drawn() {
        let mut empty = plots();
        empty.iter_mut().for_each(|plot| plot.lines.clear());
        assert!(svg(TITLE, &empty).contains("</svg>") && svg(TITLE, &[]).contains("</svg>"));
    }

    #[test]
    fn ticks_are_round_and_reach_beyond_the_values() {
        assert_eq!(Axis::Linear.ticks([0.0, 9.3].into_iter()), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(Axis::Logarithmic.ticks([-0.5, 1.2].into_iter()), [-1.0, 0.0, 1.0, 2.0]);
        assert_eq!(Axis::Logarithmic.label(4.0), "10 k");
        assert_eq!(Axis::Linear.label(0.25), "0.25");
    }
}
