//! Maps of a page at the first paint: pictures of the opening moment, controls, a legend and sums.
//!
//! The script replaces the pictures by canvases of the same size, and updates the numbers when the reader selects
//! another moment. The map opens at the moment at which most pageblocks differ between A and B.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use maud::{Markup, html};

use super::super::map::difference::Opening;
use super::super::map::picture::{DIFFERENCE_COLORS, Layout, OWNER_COLORS, TYPE_COLORS, draw_difference, draw_side};
use super::super::map::{MemoryMap, Sums, TYPES};
use crate::number::count;

/// Names of the sides of a map with several sides.
const LETTERS: [&str; 2] = ["A", "B"];

/// A map at its opening moment.
struct Figure<'m> {
    map: &'m MemoryMap,
    number: usize,
    opening: Opening,
    /// Sums of each side at the opening moment.
    sums: Vec<Sums>,
    /// Types that occur at any moment, by number.
    types: Vec<usize>,
    /// Largest number of an owning CPU plus one, at any moment.
    owners: u16,
    /// Number of pageblocks that differ at the opening moment; `None` if the map has one side.
    differing: Option<usize>,
}

/// Renders a figure for each map.
pub(super) fn figures(maps: &[&MemoryMap]) -> Markup {
    html! {
        section.maps {
            h2 { "Memory, pageblock by pageblock" }
            @for (number, map) in maps.iter().enumerate() { (Figure::new(map, number).render()) }
        }
    }
}

impl Figure<'_> {
    fn new(map: &MemoryMap, number: usize) -> Figure<'_> {
        let opening = map.opening();
        let mut occurs = [false; TYPES.len() + 1];
        let mut owners = 0;
        for cell in map.sides.iter().flat_map(|side| &side.cells).flatten() {
            occurs[usize::from(cell.migratetype).min(TYPES.len())] = true;
            owners = owners.max(cell.owner);
        }
        Figure {
            map,
            number,
            opening,
            sums: (0..map.sides.len()).map(|side| Sums::from_cells(map.cells(side, opening.moment))).collect(),
            types: (0..TYPES.len()).filter(|&number| occurs[number]).collect(),
            owners,
            differing: map.difference_counts().get(opening.moment).copied(),
        }
    }

    fn render(&self) -> Markup {
        html! {
            figure data-map=(self.number) {
                figcaption { strong { (self.title()) } p { (self.caption()) } }
                (self.controls())
                (self.legend())
                div.body.single[self.differing.is_none()] {
                    div.sides {
                        @for side in 0..self.map.sides.len() {
                            div data-side=(side) {
                                h3 { (self.side_name(side)) }
                                (self.picture(&draw_side(self.map, side, self.opening.moment), &self.side_name(side)))
                            }
                        }
                        @if let Some(differing) = self.differing { (self.difference(differing)) }
                    }
                    div.below {
                        (self.sums())
                        div { output.readout aria-live="polite" { (self.contents()) } div.frames {} }
                    }
                }
            }
        }
    }

    fn title(&self) -> String {
        match self.map.sides.as_slice() {
            [a, b] => format!("{}: memory under {} (A) and {} (B)", self.map.of, a.name, b.name),
            _ => self.map.title(),
        }
    }

    fn side_name(&self, side: usize) -> String {
        let name = &self.map.sides[side].name;
        let letter = LETTERS.get(side).filter(|_| self.map.sides.len() > 1);
        letter.map_or_else(|| name.clone(), |letter| format!("{letter}: {name}"))
    }

    fn caption(&self) -> String {
        let mut zones: Vec<String> = Vec::new();
        for stretch in &self.map.stretches {
            if zones.last() != Some(&stretch.zone) {
                zones.push(stretch.zone.clone());
            }
        }
        let note = if self.map.note.is_empty() { String::new() } else { format!(" {}", self.map.note) };
        format!(
            "Each cell is a pageblock of {} pages, in the order of addresses, from top to bottom: zone {}. The slider \
             selects the moment. A click on a cell, or the arrow keys, select a pageblock and show its contents.{note}",
            self.map.block_pages,
            zones.join(", ")
        )
    }

    fn controls(&self) -> Markup {
        let (map, moment) = (self.map, self.opening.moment);
        let time = format!("{:.3} s", map.moments.get(moment).map_or(0.0, |&ns| ns as f64 / 1e9));
        let modes = [("type", "type and use"), ("mixed", "mixed pageblocks"), ("owner", "owning CPU")];
        let modes = modes.into_iter().filter(|(mode, _)| *mode != "owner" || self.owners > 0);
        let differing = if map.sides.len() > 1 { map.differing() } else { Vec::new() };
        html! {
            div.controls {
                label.wide {
                    "Moment "
                    input type="range" min="0" max=(map.moments.len().saturating_sub(1)) step="1" value=(moment)
                        autocomplete="off";
                    output { (time) }
                }
                @if self.differing.is_some_and(|blocks| blocks > 0) {
                    span.faint { "opened at " (time) ", where A and B differ most" }
                }
                fieldset {
                    legend { "Show" }
                    @for (mode, about) in modes {
                        label {
                            input type="radio" name=(format!("mode-{}", self.number)) value=(mode)
                                checked[mode == "type"] autocomplete="off";
                            " " (about)
                        }
                    }
                }
                @if !differing.is_empty() {
                    select aria-label="Pageblocks that differ most at the end" autocomplete="off" {
                        option value="" { "Pageblocks that differ most at the end" }
                        @for block in differing { option value=(block) { "pageblock " (count(block as u64)) } }
                    }
                }
                noscript { p { "The slider needs JavaScript, which is off in this browser." } }
            }
        }
    }

    /// Renders a legend for each way to colour the cells. The script shows that of the selected one.
    fn legend(&self) -> Markup {
        let colors = OWNER_COLORS.iter().take(usize::from(self.owners));
        html! {
            ul.legend.static data-mode="type" {
                @for &number in &self.types { li { (swatch(&css(TYPE_COLORS[number]))) (TYPES[number]) } }
                li { span.swatch.ramp {} "pages in use: 0 to " (self.map.block_pages) }
                @if self.differing.is_some() {
                    li { (swatch(&css(DIFFERENCE_COLORS[0]))) "differs between A and B in type or pages in use" }
                }
            }
            ul.legend.static data-mode="mixed" hidden {
                li { (swatch(&css(TYPE_COLORS[0]))) "mixed: movable and unmovable pages in use" }
                li { span.swatch.pale {} "other pageblocks" }
            }
            ul.legend.static data-mode="owner" hidden {
                @for (cpu, color) in colors.enumerate() {
                    li {
                        (swatch(&css(*color))) "CPU " (cpu)
                        @if usize::from(self.owners) > OWNER_COLORS.len() {
                            ", " (cpu + OWNER_COLORS.len()) ", \u{2026}"
                        }
                    }
                }
                li { span.swatch.pale {} "no owner" }
            }
        }
    }

    fn difference(&self, differing: usize) -> Markup {
        html! {
            div data-side="difference" {
                h3 {
                    span data-differ { (count(differing as u64)) }
                    " of " (count(self.map.present() as u64)) " pageblocks differ"
                }
                (self.picture(&draw_difference(self.map, self.opening.moment), "Difference of A and B"))
            }
        }
    }

    fn picture(&self, file: &[u8], about: &str) -> Markup {
        let data = format!("data:image/png;base64,{}", BASE64_STANDARD.encode(file));
        let [left, top] = Layout::new(self.map).center(self.map, self.opening.block);
        let place = format!("left:{left:.3}%;top:{top:.3}%");
        html! { div.map { img src=(data) alt=(about) decoding="sync"; span.selected style=(place) {} } }
    }

    /// Returns the contents of the pageblock with which the map opens.
    fn contents(&self) -> String {
        let Opening { moment, block } = self.opening;
        let mut text = format!("Pageblock {}", count(block as u64));
        if let Some((frame, zone)) = self.map.first_frame(block).zip(self.map.zone(block)) {
            text += &format!(" (frame {}, zone {zone}).", count(frame));
        }
        for (number, side) in self.map.sides.iter().enumerate() {
            let Some(cell) = self.map.cells(number, moment).get(block) else { continue };
            let owner = cell.owner.checked_sub(1).map_or_else(|| "none".to_owned(), |cpu| format!("CPU {cpu}"));
            let name = TYPES.get(usize::from(cell.migratetype)).unwrap_or(&"absent");
            text += &format!(
                " {}: {name}, pages in use: {} of {}, movable: {}, owner: {owner}.",
                side.name, cell.used, self.map.block_pages, cell.movable
            );
        }
        text
    }

    /// Renders the sums over all cells: a row for each type, then other counts.
    fn sums(&self) -> Markup {
        html! {
            div.scroll {
                table.sums {
                    thead {
                        tr {
                            th { "pageblocks" }
                            @for side in 0..self.sums.len() { th.number { (self.side_name(side)) } }
                        }
                    }
                    tbody { @for row in self.sum_rows() { (row) } }
                }
            }
        }
    }

    fn sum_rows(&self) -> Vec<Markup> {
        let types = self.types.iter().map(|&number| {
            let counts = self.sums.iter().map(|sums| sums.by_type[number].into());
            sum_row(&number.to_string(), TYPES[number], counts)
        });
        let others = [
            ("empty", "without a page in use", self.sums_of(|sums| sums.empty.into())),
            ("mixed", "mixed: movable and unmovable pages in use", self.sums_of(|sums| sums.mixed.into())),
            ("owned", "owned by a CPU", self.sums_of(|sums| sums.owned.into())),
            ("used", "pages in use", self.sums_of(|sums| sums.used)),
        ];
        let others = others.into_iter().filter(|(key, ..)| *key != "owned" || self.owners > 0);
        let others = others.map(|(key, name, sums)| sum_row(key, name, sums.into_iter()));
        types.chain(others).collect()
    }

    /// Returns one of the sums of each side.
    fn sums_of(&self, value: fn(&Sums) -> u64) -> Vec<u64> {
        self.sums.iter().map(value).collect()
    }
}

/// Renders a row of sums. The script finds its cells by the key.
fn sum_row(key: &str, name: &str, sums: impl Iterator<Item = u64>) -> Markup {
    html! {
        tr {
            td { (name) }
            @for (side, sum) in sums.enumerate() { td.number data-sum=(key) data-of=(side) { (count(sum)) } }
        }
    }
}

fn swatch(color: &str) -> Markup {
    html! { span.swatch style=(format!("background:{color}")) {} }
}

fn css([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::super::super::map::{Cell, Side, Stretch};
    use super::*;

    fn map() -> MemoryMap {
        let side = |name: &str, used: [u16; 2]| {
            let cell = |used| Cell { migratetype: 1, used, movable: 0, owner: 0 };
            let cells = vec![vec![cell(0); 2], used.map(cell).to_vec(), vec![cell(9); 2]];
            Side { name: name.to_owned(), cells, ..Side::default() }
        };
        MemoryMap {
            of: "build".to_owned(),
            note: String::new(),
            block_pages: 512,
            stretches: vec![Stretch { zone: "Normal".to_owned(), first: 0, blocks: 2 }],
            moments: vec![0, 1_520_000_000, 2_000_000_000],
            sides: vec![side("linux", [3, 5]), side("freehold", [3, 8])],
        }
    }

    #[test]
    fn map_has_pictures_of_the_moment_with_the_most_differences() {
        let text = figures(&[&map()]).into_string();
        assert_eq!(text.matches("<img src=\"data:image/png;base64,").count(), 3, "{text}");
        for part in [
            "opened at 1.520 s, where A and B differ most",
            "value=\"1\"",
            "<span data-differ>1</span> of 2 pageblocks differ",
            "differs between A and B",
            "Pageblock 1 (frame 512, zone Normal). linux: Movable, pages in use: 5 of 512, movable: 0, owner: none.",
            "style=\"left:9.375%;top:50.000%\"",
            "<td class=\"number\" data-sum=\"used\" data-of=\"1\">11</td>",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("value=\"owner\""), "no CPU owns a pageblock");
    }

    #[test]
    fn map_of_one_side_has_no_difference() {
        let mut map = map();
        map.sides.truncate(1);
        let text = figures(&[&map]).into_string();
        assert_eq!(text.matches("<img").count(), 1);
        assert!(!text.contains("differ") && text.contains("2.000 s"), "{text}");
    }
}
