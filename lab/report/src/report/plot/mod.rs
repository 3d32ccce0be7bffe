//! Plots: a value as a function of time or of a number, with a line for each policy.
//!
//! A plot is data ([`model`]), as tables are. All plots are drawn as SVG by the same code: [`scale`] places values on
//! the axes, [`stack`] adds up areas, [`style`] distinguishes lines, [`series`] draws lines, areas and bars, and
//! [`panel`] adds the axes. A page contains panels in its text ([`super::page`]); [`sheet`] puts several panels on one
//! picture. Colours are CSS variables ([`COLORS`]), so a plot follows the light and the dark theme and can be printed.
//!
//! # Design
//!
//! One path draws all plots: the SVG of a page and that of `sim --picture`. Lines differ in dash pattern and marker as
//! well as in colour. A test in a browser compares every drawn point with the JSON.

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
