//! Axes of a plot: the coordinates of values, and the values that have labels.

use super::model::{Axis, Plot, Scale, Shape, short};

/// Approximate number of labels along the bottom of a plot.
const TICKS_ALONG: f64 = 6.0;
/// Approximate number of labels on the axis of values.
const TICKS_OF_VALUES: f64 = 5.0;
/// Number of decades above which labels skip decades.
const DECADES_MAX: i32 = 6;
/// Least height of a bar above the bottom of a logarithmic axis, in decades.
const SHORTEST_BAR: f64 = 0.1;

/// An axis: a map from values to coordinates, and its labels.
pub(super) struct Ruler {
    transform: Transform,
    /// Ends of the axis, transformed.
    range: (f64, f64),
    /// Coordinates of both ends.
    span: (f64, f64),
    /// Values with labels, in ascending order.
    pub(super) ticks: Vec<Tick>,
}

/// A value with a label.
pub(super) struct Tick {
    /// The value.
    pub(super) value: f64,
    /// Its label.
    pub(super) label: String,
}

/// The function that makes the axis linear.
#[derive(Clone, Copy)]
enum Transform {
    Identity,
    Log2,
    Log10,
}

impl Ruler {
    /// Returns the axis along the bottom of a plot.
    pub(super) fn along(plot: &Plot) -> Ruler {
        let places = plot.places();
        match &plot.scale {
            Scale::Named(names) => {
                let ticks = names.iter().enumerate().map(|(at, name)| Tick { value: at as f64, label: name.clone() });
                Ruler::new(Transform::Identity, (-0.5, names.len().max(1) as f64 - 0.5), ticks.collect())
            }
            Scale::Even => {
                let end = places.last().copied().filter(|end| *end > 0.0).unwrap_or(1.0);
                let step = round_step(end / TICKS_ALONG);
                let ticks = multiples(step, 0, (end / step * (1.0 + f64::EPSILON)).floor() as i64);
                Ruler::new(Transform::Identity, (0.0, end), ticks.map(|value| Tick::new(value, short(value))).collect())
            }
            Scale::Doubling => {
                let positive: Vec<f64> = places.into_iter().filter(|place| *place > 0.0).collect();
                let low = positive.first().copied().unwrap_or(1.0).log2();
                let high = positive.last().copied().unwrap_or(2.0).log2();
                let ticks = positive.into_iter().map(|value| Tick::new(value, value.to_string())).collect();
                Ruler::new(Transform::Log2, (low, high), ticks)
            }
        }
    }

    /// Returns the axis of values of a plot, given the lowest and the highest drawn value.
    pub(super) fn of_values(plot: &Plot, (low, high): (f64, f64)) -> Ruler {
        match plot.axis {
            Axis::Percent => Ruler::linear(plot.axis, (0.0, 1.0)),
            Axis::Linear if high > 0.0 || low < 0.0 => Ruler::linear(plot.axis, (low.min(0.0), high.max(0.0))),
            Axis::Linear => Ruler::linear(plot.axis, (0.0, 1.0)),
            Axis::Logarithmic if low > 0.0 && low <= high => {
                let (first, last) = (low.log10(), high.log10());
                let room = if plot.shape == Shape::Bars { SHORTEST_BAR } else { 0.0 };
                let floor = (first - room).floor() as i32;
                Ruler::decades(floor, (last.ceil() as i32).max(floor + 1))
            }
            Axis::Logarithmic => Ruler::decades(0, 1),
        }
    }

    fn linear(axis: Axis, (low, high): (f64, f64)) -> Ruler {
        let step = round_step((high - low) / TICKS_OF_VALUES);
        let (first, last) = ((low / step).floor() as i64, (high / step * (1.0 - f64::EPSILON)).ceil() as i64);
        let ticks = multiples(step, first, last).map(|value| Tick::new(value, axis.format(value))).collect();
        Ruler::new(Transform::Identity, (first as f64 * step, last as f64 * step), ticks)
    }

    /// Returns an axis between two powers of ten. An axis of a single decade also has labels within the decade.
    fn decades(low: i32, high: i32) -> Ruler {
        let stride = (high - low + DECADES_MAX - 1) / DECADES_MAX;
        let mut values: Vec<f64> =
            (low..=high).step_by(stride as usize).map(|exponent| 10_f64.powi(exponent)).collect();
        if high - low == 1 {
            values.splice(1..1, [2.0, 5.0].map(|factor| factor * 10_f64.powi(low)));
        }
        let ticks = values.into_iter().map(|value| Tick::new(value, short(value))).collect();
        Ruler::new(Transform::Log10, (f64::from(low), f64::from(high)), ticks)
    }

    fn new(transform: Transform, (low, high): (f64, f64), ticks: Vec<Tick>) -> Ruler {
        let range = if high > low { (low, high) } else { (low - 1.0, low + 1.0) };
        Ruler { transform, range, span: (0.0, 1.0), ticks }
    }

    /// Places the axis between two coordinates.
    pub(super) fn between(self, start: f64, end: f64) -> Ruler {
        Ruler { span: (start, end), ..self }
    }

    /// Removes labels until each has at least this much room.
    pub(super) fn with_room(mut self, room: f64) -> Ruler {
        let (mut last, mut kept) = (f64::NEG_INFINITY, Vec::new());
        for tick in std::mem::take(&mut self.ticks) {
            let Some(position) = self.position(tick.value) else { continue };
            if position - last >= room {
                last = position;
                kept.push(tick);
            }
        }
        Ruler { ticks: kept, ..self }
    }

    /// Returns the coordinate of a value; `None` if the value has none, such as zero on a logarithmic axis.
    pub(super) fn position(&self, value: f64) -> Option<f64> {
        let transformed = match self.transform {
            Transform::Identity => value,
            Transform::Log2 => value.log2(),
            Transform::Log10 => value.log10(),
        };
        let share = (transformed - self.range.0) / (self.range.1 - self.range.0);
        transformed.is_finite().then_some(self.span.0 + share * (self.span.1 - self.span.0))
    }

    /// Returns the coordinate at which the axis begins.
    pub(super) fn start(&self) -> f64 {
        self.span.0
    }

    /// Returns the room of each of this many values, side by side.
    pub(super) fn room_of_each(&self, values: usize) -> f64 {
        (self.span.1 - self.span.0).abs() / values.max(1) as f64
    }
}

impl Tick {
    fn new(value: f64, label: String) -> Tick {
        Tick { value, label }
    }
}

/// Returns the multiples of a step from the first to the last.
fn multiples(step: f64, first: i64, last: i64) -> impl Iterator<Item = f64> {
    (first..=last).map(move |index| index as f64 * step)
}

/// Returns the least number that is not below a step, among 1, 2 and 5 times a power of ten.
fn round_step(step: f64) -> f64 {
    let magnitude = 10_f64.powf(step.log10().floor());
    let lead = [1.0, 2.0, 5.0].into_iter().find(|lead| lead * magnitude >= step * (1.0 - 1e-9));
    lead.unwrap_or(10.0) * magnitude
}

#[cfg(test)]
mod tests {
    use super::super::model::PlotLine;
    use super::*;

    fn plot(axis: Axis, values: &[f64]) -> Plot {
        let points = values.iter().enumerate().map(|(at, &value)| (at as f64, value)).collect();
        Plot { axis, scale: Scale::Even, lines: vec![PlotLine::new("a", points)], ..Plot::default() }
    }

    fn labels(ruler: &Ruler) -> Vec<&str> {
        ruler.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn axis_labels_are_round_and_enclose_the_values() {
        let linear = Ruler::of_values(&plot(Axis::Linear, &[]), (0.0, 9.3));
        assert_eq!(labels(&linear), ["0", "2", "4", "6", "8", "10"]);
        let logarithmic = Ruler::of_values(&plot(Axis::Logarithmic, &[]), (0.4, 12.0));
        assert_eq!(labels(&logarithmic), ["0.1", "1", "10", "100"]);
        let percent = Ruler::of_values(&plot(Axis::Percent, &[]), (0.0, 0.1));
        assert_eq!(labels(&percent), ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]);
    }

    #[test]
    fn logarithmic_labels_adapt_to_the_decades() {
        let axis = plot(Axis::Logarithmic, &[]);
        assert_eq!(labels(&Ruler::of_values(&axis, (2.0, 7.0))), ["1", "2", "5", "10"]);
        assert!(Ruler::of_values(&axis, (1e-9, 1e9)).ticks.len() <= 8);
    }

    #[test]
    fn time_axis_starts_at_zero_and_logarithms_need_positives() {
        let along = Ruler::along(&plot(Axis::Linear, &[1.0; 8])).between(10.0, 80.0);
        assert_eq!((along.position(0.0), along.position(7.0)), (Some(10.0), Some(80.0)));
        let logarithmic = Ruler::of_values(&plot(Axis::Logarithmic, &[]), (1.0, 100.0)).between(0.0, 200.0);
        assert_eq!((logarithmic.position(10.0), logarithmic.position(0.0)), (Some(100.0), None));
    }

    #[test]
    fn labels_keep_the_required_distance() {
        let along = Ruler::along(&plot(Axis::Linear, &[1.0; 7])).between(0.0, 60.0).with_room(25.0);
        assert_eq!(labels(&along), ["0", "3", "6"]);
    }
}
