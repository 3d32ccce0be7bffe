//! Plots: how a value changes with time or with a number, a line for each policy.
//!
//! A plot is data ([`model`]), as tables are. One path draws it, as SVG: [`scale`] places values on the axes, [`stack`]
//! adds up areas, [`style`] distinguishes lines, [`series`] draws lines, areas and bars, and [`panel`] adds the axes. A
//! page holds panels among its text ([`super::page`]); [`sheet`] puts several of them on one picture. Colours are CSS
//! variables ([`COLORS`]), so that a plot follows the light and the dark theme and prints.

mod model;
mod panel;
mod scale;
mod series;
mod sheet;
mod stack;
mod style;

pub use model::{Axis, Plot, PlotLine, Scale, Shape};
pub use sheet::svg;

pub(super) use panel::inline;
pub(super) use style::{COLORS, LOOK, LineStyles, key};
