//! Styles that distinguish the lines of a plot: colour, dash pattern and mark.
//!
//! A line keeps its style in all plots of a report. Colours are CSS classes. Dash patterns and marks also distinguish
//! lines in greyscale and for readers with a colour vision deficiency.

use maud::{Markup, html};

use super::model::{Plot, Shape};

/// Colours as CSS variables, for the light theme, the dark theme and paper.
pub(in super::super) const COLORS: &str = include_str!("colors.css");
/// Rules for the elements of a plot.
pub(in super::super) const LOOK: &str = include_str!("plot.css");

/// Number of colour classes for lines and bars: `c0` to `c5`.
const COLOR_COUNT: usize = 6;
/// Number of colour classes for areas, from dark to bright: `step-0` to `step-11`.
const STEP_COUNT: usize = 12;
/// Dash patterns; the first is a solid line.
const DASHES: [&str; 6] = ["none", "7 4", "2 3", "10 3 2 3", "5 2", "12 4 3 4"];
/// Opacities of bars, which distinguish neighbours without colour.
const OPACITIES: [&str; 3] = ["0.95", "0.5", "0.15"];
/// Size of a key in a legend.
pub(super) const KEY: (f64, f64) = (28.0, 14.0);

/// Styles of lines by name, in order of first appearance.
#[derive(Default)]
pub(in super::super) struct LineStyles<'p> {
    names: Vec<&'p str>,
}

/// The style of a line.
#[derive(Clone, Copy)]
pub(in super::super) struct LineStyle(usize);

impl<'p> LineStyles<'p> {
    /// Assigns a style to every line of these plots. Stacked areas are skipped, since they have their own colours.
    pub(in super::super) fn new(plots: impl IntoIterator<Item = &'p Plot>) -> LineStyles<'p> {
        let mut names: Vec<&str> = Vec::new();
        let drawn = plots.into_iter().filter(|plot| plot.shape != Shape::Stacked);
        for line in drawn.flat_map(|plot| &plot.lines) {
            if !names.contains(&line.name.as_str()) {
                names.push(&line.name);
            }
        }
        LineStyles { names }
    }

    /// Returns the names that have a style.
    pub(super) fn names(&self) -> &[&'p str] {
        &self.names
    }

    /// Returns the style of the line with a name; the first style if the name is unknown.
    pub(in super::super) fn style(&self, name: &str) -> LineStyle {
        LineStyle(self.names.iter().position(|known| *known == name).unwrap_or_default())
    }
}

impl LineStyle {
    /// Returns the CSS class of the colour.
    pub(super) fn class(self) -> String {
        format!("series c{}", self.0 % COLOR_COUNT)
    }

    /// Returns the dash pattern.
    pub(super) fn dash(self) -> &'static str {
        DASHES[self.0 % DASHES.len()]
    }

    /// Returns the opacity of a bar.
    pub(super) fn opacity(self) -> &'static str {
        OPACITIES[self.0 % OPACITIES.len()]
    }

    /// Returns the outline of the mark at a point.
    pub(super) fn mark(self, x: f64, y: f64) -> String {
        let shape = match self.0 % 5 {
            0 => "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0Z",
            1 => "m-3.2-3.2h6.4v6.4h-6.4Z",
            2 => "m0-4.4l4.2 7.4h-8.4Z",
            3 => "m0-4.6l4.6 4.6l-4.6 4.6l-4.6-4.6Z",
            _ => "m0 4.4l4.2-7.4h-8.4Z",
        };
        format!("M{x:.1} {y:.1}{shape}")
    }
}

/// Returns the colour class number of an area among `count` areas; a higher number is brighter.
pub(super) fn step(number: usize, count: usize) -> usize {
    let steps = STEP_COUNT - 1;
    (number * steps + count.saturating_sub(1) / 2) / count.saturating_sub(1).max(1)
}

/// Returns whether an area of this colour is bright, so that its text is dark.
pub(super) fn is_bright(step: usize) -> bool {
    step > STEP_COUNT / 2
}

/// Draws the key of a line for a legend, with the size [`KEY`].
pub(in super::super) fn key(plot: &Plot, number: usize, styles: &LineStyles<'_>) -> Markup {
    let (width, height) = KEY;
    let content = match plot.shape {
        Shape::Lines => line_key(styles.style(&plot.lines[number].name)),
        Shape::Bars => bar_key(styles.style(&plot.lines[number].name)),
        Shape::Stacked => {
            let class = format!("area step-{}", step(number, plot.lines.len()));
            html! { rect class=(class) x="4" y="1" width="20" height="12" {} }
        }
    };
    html! { svg.key viewBox=(format!("0 0 {width} {height}")) aria-hidden="true" { (content) } }
}

/// Draws a piece of a line with its mark.
pub(super) fn line_key(style: LineStyle) -> Markup {
    html! {
        g class=(style.class()) {
            path.line d="M0 7H28" stroke-dasharray=(style.dash()) {}
            path.mark d=(style.mark(14.0, 7.0)) {}
        }
    }
}

fn bar_key(style: LineStyle) -> Markup {
    html! {
        g class=(style.class()) {
            rect.bars x="4" y="1" width="20" height="12" fill-opacity=(style.opacity()) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn area_shades_ascend_and_use_both_ends() {
        for count in 2..=STEP_COUNT {
            let steps: Vec<usize> = (0..count).map(|number| step(number, count)).collect();
            assert!(steps.windows(2).all(|pair| pair[0] < pair[1]), "{steps:?}");
            assert_eq!((steps[0], steps[count - 1]), (0, STEP_COUNT - 1));
        }
        assert_eq!(step(0, 1), 0);
    }

    #[test]
    fn thirty_line_styles_are_distinct() {
        let looks: Vec<_> = (0..30).map(LineStyle).map(|style| (style.class(), style.mark(0.0, 0.0))).collect();
        assert!((1..looks.len()).all(|at| !looks[..at].contains(&looks[at])));
    }
}
