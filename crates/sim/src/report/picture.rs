//! The scaling picture: what changes as CPUs are added, one line a policy, as one SVG or as a page around it.
//!
//! CPUs stand on a logarithmic axis, because they are doubled and not counted. Every policy has a colour that people
//! who do not see all colours can still tell apart, and a mark of its own for who prints in grey. The drawing is by
//! `plotters`, without fonts: texts are the reader's to render. Coordinates are whole pixels, so the same numbers give
//! the same bytes.

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

/// Size of a panel, in pixels.
const PANEL: (u32, u32) = (460, 300);
/// Panels side by side.
const ABREAST: usize = 2;
/// Height of the title above the panels, and of a line of the legend below them.
const TITLE: u32 = 34;
const LEGEND_LINE: u32 = 20;
/// About how wide a letter is at the size of labels: there are no fonts to ask.
const LETTER: f64 = 6.2;

/// The colours of policies, in their order, after Okabe and Ito.
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

/// A picture with one panel a measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// What it shows.
    pub title: String,
    /// The names of the lines, the same in each panel.
    pub lines: Vec<String>,
    /// The panels, drawn in rows.
    pub panels: Vec<Panel>,
}

/// One measure against the number of CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What is measured, with its unit.
    pub title: String,
    /// How the axis of values runs.
    pub axis: Axis,
    /// The points of each line, as CPUs and value, in the order of [`Picture::lines`].
    pub points: Vec<Vec<(u16, f64)>>,
}

/// How an axis of values runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// From zero, evenly.
    Linear,
    /// By powers of ten. What is not above zero is left out.
    Logarithmic,
    /// A share, from 0 to 100 %.
    Percent,
}

impl Picture {
    /// The picture as SVG.
    pub fn svg(&self) -> String {
        let mut svg = String::new();
        self.draw(&mut svg).expect("drawing into memory cannot fail, and no coordinate is infinite");
        // Who cannot see the picture is told its title.
        svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{}\" ", escaped(&self.title)), 1)
    }

    /// The picture as a page of its own.
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
             <style>body {{ margin: 2em auto; text-align: center }} svg {{ max-width: 100%; height: auto }}</style>\n{}</html>\n",
            self.svg()
        )
    }

    fn draw(&self, svg: &mut String) -> Drawn<()> {
        let rows = self.panels.len().div_ceil(ABREAST);
        let width = PANEL.0 * ABREAST as u32;
        let legend = self.legend_places(width);
        let legend_height = legend.last().map_or(0, |place| place.1 as u32 + LEGEND_LINE + 8);
        let height = TITLE + PANEL.1 * rows as u32 + legend_height;
        let root = SVGBackend::with_string(svg, (width, height)).into_drawing_area();
        root.fill(&WHITE)?;
        root.draw(&Text::new(self.title.clone(), (14, 10), ("sans-serif", 17).into_font()))?;
        let (_, below) = root.split_vertically(TITLE);
        let (middle, bottom) = below.split_vertically(PANEL.1 * rows as u32);
        for (panel, area) in self.panels.iter().zip(middle.split_evenly((rows, ABREAST))) {
            panel.draw(&area)?;
        }
        for (line, (name, place)) in self.lines.iter().zip(legend).enumerate() {
            draw_legend(&bottom, line, name, place)?;
        }
        root.present()?;
        Ok(())
    }

    /// Where each name of the legend stands: in lines that break where the picture ends.
    fn legend_places(&self, width: u32) -> Vec<(i32, i32)> {
        let mut next = (24, 8);
        let mut places = Vec::with_capacity(self.lines.len());
        for name in &self.lines {
            let taken = 50 + (name.chars().count() as f64 * LETTER) as i32;
            if next.0 + taken > width as i32 && next.0 > 24 {
                next = (24, next.1 + LEGEND_LINE as i32);
            }
            places.push(next);
            next.0 += taken;
        }
        places
    }
}

impl Panel {
    fn draw(&self, area: &Area) -> Drawn<()> {
        let lines: Vec<Vec<(f64, f64)>> = self.points.iter().map(|points| self.placed(points)).collect();
        let cpus = self.cpus();
        let ticks = self.axis.ticks(lines.iter().flatten().map(|point| point.1));
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 14))
            .margin(12)
            .x_label_area_size(34)
            .y_label_area_size(52)
            .build_cartesian_2d(Ticked::new(&cpus, 0.15), Ticked::new(&ticks, 0.0))?;
        chart
            .configure_mesh()
            .x_labels(cpus.len())
            .y_labels(ticks.len())
            .x_max_light_lines(0)
            .y_max_light_lines(0)
            .bold_line_style(BLACK.mix(0.12))
            .axis_style(GREY)
            .label_style(("sans-serif", 12))
            .x_label_formatter(&|log| log.exp2().round().to_string())
            .y_label_formatter(&|value| self.axis.label(*value))
            .x_desc("CPUs")
            .draw()?;
        for (line, points) in lines.iter().enumerate() {
            chart.draw_series(LineSeries::new(points.iter().copied(), color(line).stroke_width(2)))?;
            for point in points {
                draw_mark(chart.plotting_area(), line, *point)?;
            }
        }
        Ok(())
    }

    /// Where points lie, for axes that are both even.
    fn placed(&self, points: &[(u16, f64)]) -> Vec<(f64, f64)> {
        let place = |(cpus, value): &(u16, f64)| Some((f64::from(*cpus).log2(), self.axis.place(*value)?));
        points.iter().filter_map(place).collect()
    }

    /// The numbers of CPUs that any line has, as powers of two.
    fn cpus(&self) -> Vec<f64> {
        let mut cpus: Vec<u16> = self.points.iter().flatten().map(|point| point.0).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus.into_iter().map(|cpus| f64::from(cpus).log2()).collect()
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
    use super::*;

    fn picture() -> Picture {
        let line = |factor: f64| [1u16, 2, 8, 32, 128, 512].map(|cpus| (cpus, f64::from(cpus) * factor)).to_vec();
        let share = |factor: f64| [1u16, 512].map(|cpus| (cpus, f64::from(cpus) * factor / 1024.0)).to_vec();
        let panel = |title: &str, axis, points| Panel { title: title.to_owned(), axis, points };
        Picture {
            title: "Many \"CPUs\" & few".to_owned(),
            lines: vec!["linux-6.12".to_owned(), "linux-6.12,pcp=owned".to_owned()],
            panels: vec![
                panel("throughput", Axis::Logarithmic, vec![line(1.0), line(2.0)]),
                panel("waiting", Axis::Percent, vec![share(1.0), share(0.5)]),
                panel("locks", Axis::Linear, vec![line(0.3), line(0.0)]),
            ],
        }
    }

    #[test]
    fn the_same_numbers_give_the_same_bytes_and_other_numbers_others() {
        assert_eq!(picture().svg(), picture().svg());
        let mut other = picture();
        other.panels[0].points[0][5].1 = 1.0;
        assert_ne!(picture().svg(), other.svg());
    }

    #[test]
    fn every_line_is_named_and_every_number_of_cpus_labelled() {
        let svg = picture().svg();
        for words in
            ["linux-6.12,pcp=owned", "512", "100 %", "waiting", "aria-label=\"Many &quot;CPUs&quot; &amp; few\""]
        {
            assert!(svg.contains(words), "{words}");
        }
        assert!(picture().html().contains("<title>Many &quot;CPUs&quot; &amp; few</title>"));
    }

    #[test]
    fn nothing_at_all_can_be_drawn() {
        let mut empty = picture();
        empty.panels.iter_mut().for_each(|panel| panel.points.clear());
        assert!(empty.svg().contains("</svg>"));
    }

    #[test]
    fn ticks_are_round_and_reach_beyond_the_values() {
        assert_eq!(Axis::Linear.ticks([0.0, 9.3].into_iter()), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(Axis::Logarithmic.ticks([-0.5, 1.2].into_iter()), [-1.0, 0.0, 1.0, 2.0]);
        assert_eq!(Axis::Logarithmic.label(4.0), "10 k");
        assert_eq!(Axis::Linear.label(0.25), "0.25");
    }
}
