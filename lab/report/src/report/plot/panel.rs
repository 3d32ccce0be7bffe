//! One plot as SVG: its axes with their labels and units, and its lines.

use maud::{Markup, html};

use super::model::{Plot, Scale, Shape};
use super::scale::{Ruler, Tick};
use super::series::{coordinate, draw};
use super::stack::stack;
use super::style::LineStyles;

/// Width of a plot in a page, in SVG units. Stacked areas are narrower, since their legend is beside them.
const WIDTH: f64 = 480.0;
const WIDTH_OF_AREAS: f64 = 400.0;
/// Vertical position of the axis along the bottom, in a page.
const BOTTOM: f64 = 240.0;
/// Room for the unit of the values, for a line of labels below the axis, and at both sides.
const TOP: f64 = 26.0;
const LABELS: f64 = 20.0;
const LEFT: f64 = 14.0;
const RIGHT: f64 = 14.0;
/// Approximate width of a letter at the size of labels on a phone. Font metrics are not available here.
const LETTER: f64 = 7.4;
/// Room for marks on both sides of the points.
const MARK_ROOM: f64 = 12.0;
/// Slope of labels that do not fit side by side, and the width and the height of one of their letters.
const SLOPE: &str = "-32";
const SLOPE_WIDTH: f64 = 0.85;
const SLOPE_HEIGHT: f64 = 0.46;

/// Layout of the axes of a plot.
struct Frame {
    left: f64,
    right: f64,
    bottom: f64,
    is_sloped: bool,
    x: Ruler,
    y: Ruler,
}

/// Draws a plot for a page.
pub(in super::super) fn inline(plot: &Plot, styles: &LineStyles<'_>) -> Markup {
    let width = if plot.shape == Shape::Stacked { WIDTH_OF_AREAS } else { WIDTH };
    let frame = Frame::new(plot, width, BOTTOM);
    let places = plot.places();
    let positions: Vec<String> = places.iter().filter_map(|&at| frame.x.position(at)).map(coordinate).collect();
    let label = format!("{} {}", plot.title, plot.of);
    html! {
        svg.plot viewBox=(format!("0 0 {width} {:.0}", frame.height())) tabindex="0" role="img" aria-label=(label.trim())
            data-places=(positions.join(" ")) {
            (frame.draw(plot, styles))
            line.cursor x1="0" x2="0" y1=(TOP) y2=(coordinate(frame.bottom)) {}
        }
    }
}

/// Draws the axes and the lines of a plot of this width, with the axis along the bottom at `bottom`.
pub(super) fn draw_panel(plot: &Plot, styles: &LineStyles<'_>, width: f64, bottom: f64) -> Markup {
    Frame::new(plot, width, bottom).draw(plot, styles)
}

/// Returns the height of a panel that [`draw_panel`] draws.
pub(super) fn panel_height(plot: &Plot, width: f64, bottom: f64) -> f64 {
    Frame::new(plot, width, bottom).height()
}

impl Frame {
    fn new(plot: &Plot, width: f64, bottom: f64) -> Frame {
        let y = Ruler::of_values(plot, ends(plot));
        let left = LEFT + LETTER * widest(&y.ticks).max(3.0);
        let right = width - RIGHT;
        let room = if matches!(plot.scale, Scale::Doubling) { MARK_ROOM } else { 0.0 };
        let along = Ruler::along(plot).between(left + room, right - room);
        let widest = LETTER * widest(&along.ticks) + LETTER;
        let is_sloped = matches!(plot.scale, Scale::Named(_)) && widest > along.room_of_each(along.ticks.len());
        if is_sloped {
            return Frame::sloped(left, right, bottom, along, y);
        }
        let x = if matches!(plot.scale, Scale::Named(_)) { along } else { along.with_room(widest) };
        Frame { left, right, bottom, is_sloped: false, x, y: y.between(bottom, TOP) }
    }

    /// Lays out the axes with room at the left for sloped labels, which end below their bars.
    fn sloped(left: f64, right: f64, bottom: f64, along: Ruler, y: Ruler) -> Frame {
        let mut first = left;
        for tick in &along.ticks {
            let width = tick.label.chars().count() as f64 * LETTER * SLOPE_WIDTH;
            let end = along.position(tick.value).unwrap_or(left);
            first = first.max(left + width - end);
        }
        let first = first.min(f64::midpoint(left, right));
        let x = along.between(first, right);
        Frame { left: first, right, bottom, is_sloped: true, x, y: y.between(bottom, TOP) }
    }

    fn draw(&self, plot: &Plot, styles: &LineStyles<'_>) -> Markup {
        html! {
            g.axis data-axis="values" {
                @if !plot.unit.is_empty() { text.unit x=(coordinate(self.left)) y="14" { (plot.unit) } }
                @for tick in &self.y.ticks { (self.draw_value(tick)) }
            }
            g.axis data-axis="along" {
                @for tick in &self.x.ticks { (self.draw_place(tick)) }
                text.along x=(coordinate(f64::midpoint(self.left, self.right))) y=(coordinate(self.name_position())) {
                    (plot.along)
                }
            }
            (draw(plot, styles, &self.x, &self.y))
            path.baseline d=(format!("M{:.1} {:.1}H{:.1}", self.left, self.bottom, self.right)) {}
        }
    }

    fn draw_value(&self, tick: &Tick) -> Markup {
        let y = self.y.position(tick.value).unwrap_or(self.bottom);
        html! {
            path.grid d=(format!("M{:.1} {y:.1}H{:.1}", self.left, self.right)) {}
            text.value data-value=(tick.value) data-at=(coordinate(y)) x=(coordinate(self.left - 7.0))
                y=(coordinate(y + 4.0)) { (tick.label) }
        }
    }

    fn draw_place(&self, tick: &Tick) -> Markup {
        let x = self.x.position(tick.value).unwrap_or(self.left);
        let y = self.bottom + 17.0;
        let slope = self.is_sloped.then(|| format!("rotate({SLOPE} {x:.1} {y:.1})"));
        html! {
            path.tick d=(format!("M{x:.1} {:.1}v4", self.bottom)) {}
            text.place.sloped[self.is_sloped] data-value=(tick.value) data-at=(coordinate(x)) x=(coordinate(x))
                y=(coordinate(y)) transform=[slope] { (tick.label) }
        }
    }

    /// Returns the position of the name of the axis along the bottom.
    fn name_position(&self) -> f64 {
        let labels = if self.is_sloped { LETTER * widest(&self.x.ticks) * SLOPE_HEIGHT } else { 0.0 };
        self.bottom + LABELS + labels + 15.0
    }

    /// Returns the height of the whole drawing.
    fn height(&self) -> f64 {
        self.name_position() + 7.0
    }
}

/// Returns the lowest and the highest value that are drawn. Values that are not above zero are not drawn on a
/// logarithmic axis.
fn ends(plot: &Plot) -> (f64, f64) {
    let is_logarithmic = plot.axis == super::model::Axis::Logarithmic;
    let values: Vec<f64> = match plot.shape {
        Shape::Stacked => stack(plot).iter().flatten().map(|slice| slice.upper).collect(),
        Shape::Lines | Shape::Bars => plot.lines.iter().flat_map(|line| &line.points).map(|point| point.1).collect(),
    };
    let drawn = values.into_iter().filter(|value| value.is_finite() && (!is_logarithmic || *value > 0.0));
    drawn.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// Returns the number of characters of the longest label.
fn widest(ticks: &[Tick]) -> f64 {
    ticks.iter().map(|tick| tick.label.chars().count()).max().unwrap_or_default() as f64
}
