//! Stacked areas: each line is added to the lines before it.

use super::model::Plot;

/// A place along the bottom of a plot, and the bounds of an area there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slice {
    pub(super) place: f64,
    pub(super) lower: f64,
    pub(super) upper: f64,
}

/// Returns the area of each line of a plot, the lowest first. A line without a point at a place counts as zero there.
pub(super) fn stack(plot: &Plot) -> Vec<Vec<Slice>> {
    let places = plot.places();
    let mut heights = vec![0.0; places.len()];
    let mut areas = Vec::with_capacity(plot.lines.len());
    for line in &plot.lines {
        let mut area = Vec::with_capacity(places.len());
        for (place, height) in places.iter().zip(&mut heights) {
            let lower = *height;
            *height += line.value_at(*place).unwrap_or(0.0);
            area.push(Slice { place: *place, lower, upper: *height });
        }
        areas.push(area);
    }
    areas
}

#[cfg(test)]
mod tests {
    use super::super::model::PlotLine;
    use super::*;

    #[test]
    fn stacked_area_starts_at_the_area_below() {
        let lines = vec![PlotLine::new("a", vec![(0.0, 1.0), (1.0, 2.0)]), PlotLine::new("b", vec![(1.0, 5.0)])];
        let areas = stack(&Plot { lines, ..Plot::default() });
        let slice = |place, lower, upper| Slice { place, lower, upper };
        assert_eq!(areas[0], [slice(0.0, 0.0, 1.0), slice(1.0, 0.0, 2.0)]);
        assert_eq!(areas[1], [slice(0.0, 1.0, 1.0), slice(1.0, 2.0, 7.0)]);
    }
}
