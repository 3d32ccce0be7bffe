//! Drawing of lines, stacked areas and bars.

use maud::{Markup, html};

use super::model::{Plot, PlotLine, Shape};
use super::scale::Ruler;
use super::stack::{Slice, stack};
use super::style::{LineStyle, LineStyles, is_bright, step};

/// Most points of a line that is drawn with marks.
const MARKS_MAX: usize = 24;
/// Least thickness of an area along its label.
const LABEL_THICKNESS: f64 = 14.0;
/// Half the width of a label.
const LABEL_MARGIN: f64 = 26.0;
/// Share of a place's room that its bars fill.
const BARS_SHARE: f64 = 0.74;

/// A point of a line, and where it is drawn.
struct Dot {
    place: f64,
    value: f64,
    x: f64,
    y: f64,
}

/// Draws all lines of a plot between its axes.
pub(super) fn draw(plot: &Plot, styles: &LineStyles<'_>, x: &Ruler, y: &Ruler) -> Markup {
    let lines = plot.lines.iter().enumerate();
    html! {
        @match plot.shape {
            Shape::Lines => @for (number, line) in lines { (draw_line(plot, number, styles.style(&line.name), x, y)) },
            Shape::Bars => @for (number, line) in lines { (draw_bars(plot, number, styles.style(&line.name), x, y)) },
            Shape::Stacked => {
                @let areas = stack(plot);
                @for (number, area) in areas.iter().enumerate() { (draw_area(plot, number, area, x, y)) }
                @for (number, area) in areas.iter().enumerate() { (label_area(plot, number, area, x, y)) }
            }
        }
    }
}

fn draw_line(plot: &Plot, number: usize, style: LineStyle, x: &Ruler, y: &Ruler) -> Markup {
    let line = &plot.lines[number];
    let dots = dots(line, x, y);
    html! {
        g class=(style.class()) data-line=(number) {
            path.line d=(path(dots.iter().map(|dot| (dot.x, dot.y)))) stroke-dasharray=(style.dash()) {
                title { (line.name) }
            }
            @if dots.len() <= MARKS_MAX {
                @for dot in &dots {
                    path.mark d=(style.mark(dot.x, dot.y)) { title { (describe(plot, line, dot)) } }
                }
            }
        }
    }
}

fn draw_bars(plot: &Plot, number: usize, style: LineStyle, x: &Ruler, y: &Ruler) -> Markup {
    let line = &plot.lines[number];
    let room = x.room_of_each(x.ticks.len()) * BARS_SHARE;
    let width = room / plot.lines.len() as f64;
    let left = number as f64 * width - room / 2.0;
    html! {
        g class=(style.class()) data-line=(number) {
            @for dot in &dots(line, x, y) {
                rect.bars x=(coordinate(dot.x + left)) y=(coordinate(dot.y)) width=(coordinate(width * 0.9))
                    height=(coordinate(y.start() - dot.y)) fill-opacity=(style.opacity()) { title { (describe(plot, line, dot)) } }
            }
        }
    }
}

/// Draws an area: the upper bound from left to right, then the lower bound back.
fn draw_area(plot: &Plot, number: usize, area: &[Slice], x: &Ruler, y: &Ruler) -> Markup {
    let line = &plot.lines[number];
    let upper = area.iter().filter_map(|slice| Some((x.position(slice.place)?, y.position(slice.upper)?)));
    let lower = area.iter().rev().filter_map(|slice| Some((x.position(slice.place)?, y.position(slice.lower)?)));
    let step = step(number, plot.lines.len());
    html! {
        g data-line=(number) {
            path class=(format!("area step-{step}")) d=(format!("{}Z", path(upper.chain(lower)))) {
                title { (line.name) }
            }
        }
    }
}

fn label_area(plot: &Plot, number: usize, area: &[Slice], x: &Ruler, y: &Ruler) -> Markup {
    let is_dark = is_bright(step(number, plot.lines.len()));
    html! {
        @if let Some((x, y)) = label_position(area, x, y) {
            text.within.dark[is_dark] x=(coordinate(x)) y=(coordinate(y + 4.0)) { (plot.lines[number].name) }
        }
    }
}

/// Returns the centre of the place with the most room for a label in an area; `None` if a label fits nowhere.
fn label_position(area: &[Slice], x: &Ruler, y: &Ruler) -> Option<(f64, f64)> {
    let end = x.position(area.last()?.place)?;
    let mut best = None;
    let mut most = LABEL_THICKNESS;
    for slice in area {
        let at = x.position(slice.place)?;
        let (top, bottom) = room_around(area, at, x, y)?;
        let is_within = at >= x.start() + LABEL_MARGIN && at <= end - LABEL_MARGIN;
        if is_within && bottom - top >= most {
            most = bottom - top;
            best = Some((at, f64::midpoint(top, bottom)));
        }
    }
    best
}

/// Returns the highest and the lowest coordinate that are inside an area along a whole label centred at `at`.
fn room_around(area: &[Slice], at: f64, x: &Ruler, y: &Ruler) -> Option<(f64, f64)> {
    let (mut top, mut bottom) = (f64::NEG_INFINITY, f64::INFINITY);
    for slice in area {
        if (x.position(slice.place)? - at).abs() <= LABEL_MARGIN {
            top = top.max(y.position(slice.upper)?);
            bottom = bottom.min(y.position(slice.lower)?);
        }
    }
    Some((top, bottom))
}

/// Returns the points of a line that have a coordinate on both axes.
fn dots(line: &PlotLine, x: &Ruler, y: &Ruler) -> Vec<Dot> {
    let points = line.points.iter();
    points
        .filter_map(|&(place, value)| Some(Dot { place, value, x: x.position(place)?, y: y.position(value)? }))
        .collect()
}

/// Formats the description of a point: its line, place and value.
fn describe(plot: &Plot, line: &PlotLine, dot: &Dot) -> String {
    let (place, value) = (plot.format_place(dot.place), plot.axis.format(dot.value));
    let separator = if plot.unit.is_empty() { "" } else { " " };
    format!("{}, {place}: {value}{separator}{}", line.name, plot.unit)
}

/// Formats a path through points.
fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (x, y) in points {
        let command = if path.is_empty() { 'M' } else { 'L' };
        path.push_str(&format!("{command}{x:.1} {y:.1}"));
    }
    path
}

/// Formats a coordinate with one decimal, so that equal inputs give equal bytes.
pub(super) fn coordinate(position: f64) -> String {
    format!("{position:.1}")
}
