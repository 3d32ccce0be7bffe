//! Terminal output of a map: one moment of it, and the frames of one pageblock.
//!
//! A character shows as many pageblocks as needed for the map to fit. With colour, the colour is the most frequent type
//! of these pageblocks, and the density of the character shows the share of pages in use. Without colour, the character
//! is the letter of that type, in lower case if less than half is in use, and a dot if nothing is in use.

use super::frames::{FrameState, Run};
use super::{ABSENT, Cell, MemoryMap, Side, Sums, TYPES};
use crate::number::{count, percent, unit};
use crate::terminal::Style;

/// Most rows of one side of a map.
const ROWS_MAX: usize = 40;
/// Characters from empty to full.
const DENSITY: [char; 5] = ['.', '░', '▒', '▓', '█'];
/// Colours of the types in a terminal's palette of 256, and their letters: a capital letter if half or more is in use.
const COLORS: [u8; TYPES.len()] = [208, 39, 35, 175, 220, 245];
const LETTERS: [(char, char); TYPES.len()] = [('U', 'u'), ('M', 'm'), ('R', 'r'), ('H', 'h'), ('C', 'c'), ('I', 'i')];
/// Frames in a row.
const FRAMES_ABREAST: usize = 64;

/// Formats the cells of one side at one moment, with a legend.
pub fn moment(map: &MemoryMap, side: &Side, moment: usize, style: Style) -> String {
    let Some(cells) = side.cells.get(moment) else { return String::new() };
    let width = style.width().clamp(20, 160);
    let per_char = cells.len().div_ceil(width * ROWS_MAX).max(1);
    let time = map.moments.get(moment).map_or(0.0, |&ns| ns as f64 / 1e9);
    let blocks = unit(per_char as u64, "pageblocks");
    let mut text = format!("{}: {} at {time:.3} s; one character: {per_char} {blocks}\n", map.of, side.name);
    let mut at = 0;
    for stretch in &map.stretches {
        let blocks = &cells[at..at + stretch.blocks as usize];
        at += blocks.len();
        text += &format!("{} from frame {}\n", stretch.zone, count(stretch.first));
        for row in blocks.chunks(per_char * width) {
            text.extend(row.chunks(per_char).map(|cells| character(cells, map.block_pages, style)));
            text.push('\n');
        }
    }
    text + &legend(&Sums::from_cells(cells), map, style)
}

/// Returns the character for these cells.
fn character(cells: &[Cell], block_pages: u16, style: Style) -> String {
    let there: Vec<&Cell> = cells.iter().filter(|cell| cell.migratetype != ABSENT).collect();
    if there.is_empty() {
        return " ".to_owned();
    }
    let used: u64 = there.iter().map(|cell| u64::from(cell.used)).sum();
    let room = there.len() as u64 * u64::from(block_pages);
    let mut counts = [0; TYPES.len()];
    for cell in &there {
        counts[usize::from(cell.migratetype)] += 1;
    }
    let most = (0..TYPES.len()).max_by_key(|&number| (counts[number], std::cmp::Reverse(number))).unwrap_or_default();
    if style.is_colored() {
        let density = (used * (DENSITY.len() as u64 - 1)).div_ceil(room) as usize;
        return style.colored(COLORS[most], &DENSITY[density.min(DENSITY.len() - 1)].to_string());
    }
    let (full, sparse) = LETTERS[most];
    let letter = if used == 0 {
        DENSITY[0]
    } else if 2 * used >= room {
        full
    } else {
        sparse
    };
    letter.to_string()
}

/// Meaning of the characters, without and with colour.
const LETTERS_MEANING: &str = "letter: most frequent type, as U for Unmovable; capital: half or more of the pages are in \
                               use; small: fewer; dot: none";
const COLORS_MEANING: &str = "colour: most frequent type; density, from . to █: share of the pages in use";

fn legend(sums: &Sums, map: &MemoryMap, style: Style) -> String {
    let types = TYPES.iter().zip(COLORS).zip(sums.by_type).filter(|&(_, blocks)| blocks > 0);
    let types = types.map(|((name, color), blocks)| format!("{} {}", style.colored(color, name), count(blocks.into())));
    let blocks: u32 = sums.by_type.iter().sum();
    let pages = u64::from(blocks) * u64::from(map.block_pages);
    format!(
        "{}\npageblocks by type: {}\npageblocks empty: {}, mixed: {}, owned by a CPU: {}\npages in use: {} of {} ({})\n",
        if style.is_colored() { COLORS_MEANING } else { LETTERS_MEANING },
        types.collect::<Vec<_>>().join(", "),
        count(sums.empty.into()),
        count(sums.mixed.into()),
        count(sums.owned.into()),
        count(sums.used),
        count(pages),
        percent(sums.used as f64 / pages.max(1) as f64),
    )
}

/// Formats the frames of a pageblock on one side, with a legend of the letters; `None` if the frames are not known.
pub fn block(map: &MemoryMap, side: &Side, block: usize) -> Option<String> {
    let runs = side.frames.get(block as u32)?;
    let cell = side.cells.last()?.get(block)?;
    let name = TYPES.get(usize::from(cell.migratetype)).copied().unwrap_or("absent");
    let owner = cell.owner.checked_sub(1).map_or("none".to_owned(), |cpu| format!("CPU {cpu}"));
    let mut text = format!(
        "Pageblock {} (frame {}), {}: {name}, pages in use: {} of {}, movable: {}, owner: {owner}\n",
        count(block as u64),
        count(map.first_frame(block)?),
        side.name,
        cell.used,
        map.block_pages,
        cell.movable,
    );
    let letters: Vec<char> = runs.iter().flat_map(letters).collect();
    for row in letters.chunks(FRAMES_ABREAST) {
        text.extend(row.iter().chain(&['\n']));
    }
    let meaning = FrameState::ALL.map(|state| format!("{} {}", state.letter(), state.about())).join("; ");
    Some(format!("{text}{meaning}\n"))
}

fn letters(run: &Run) -> impl Iterator<Item = char> + use<> {
    std::iter::repeat_n(run.state.letter(), usize::from(run.pages))
}

#[cfg(test)]
mod tests {
    use super::super::{Frames, Stretch, block_of};
    use super::*;

    fn map() -> MemoryMap {
        let cell = |migratetype, used, movable| Cell { migratetype, used, movable, owner: 0 };
        let mut frames = Frames::default();
        for (state, pages) in [(FrameState::Fixed, 2), (FrameState::Movable, 60), (FrameState::Free, 450)] {
            frames.push(2, Run { state, order: 0, pages });
        }
        let cells = vec![vec![cell(1, 0, 0), cell(1, 512, 512), cell(0, 62, 60), cell(ABSENT, 0, 0)]];
        MemoryMap {
            of: "build".to_owned(),
            note: String::new(),
            block_pages: 512,
            stretches: vec![Stretch { zone: "Normal".to_owned(), first: 1 << 20, blocks: 4 }],
            moments: vec![1_500_000_000],
            sides: vec![Side { name: "linux-6.12".to_owned(), command: String::new(), cells, frames }],
        }
    }

    #[test]
    fn map_moment_shows_a_character_per_block_and_totals() {
        let map = map();
        let text = moment(&map, &map.sides[0], 0, Style::with_width(80));
        assert!(text.contains("\n.Mu \n"), "{text}");
        assert!(
            text.ends_with(
                "in use; small: fewer; dot: none\npageblocks by type: Unmovable 1, Movable 2\npageblocks empty: 1, mixed: 1, owned by a CPU: 0\n\
                 pages in use: 574 of 1,536 (37.4 %)\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn map_block_shows_a_letter_per_frame() {
        let map = map();
        let text = block(&map, &map.sides[0], 2).unwrap();
        let first = format!("UU{}..", "M".repeat(60));
        assert!(text.contains(&first) && text.contains("frame 1,049,600"), "{text}");
        assert_eq!(block(&map, &map.sides[0], 1), None);
    }

    #[test]
    fn blocks_and_frames_map_to_each_other() {
        let map = map();
        assert_eq!((map.first_frame(3), map.first_frame(4)), (Some((1 << 20) + 1536), None));
        assert_eq!([(1 << 20) + 1535, 7].map(|pfn| block_of(&map.stretches, 512, pfn)), [Some(2), None]);
    }
}
