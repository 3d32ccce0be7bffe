//! Terminal output of a map: one moment of it, and the frames of one pageblock.
//!
//! A character shows as many pageblocks as needed for the map to fit. With colour, the colour is the most frequent type
//! of these pageblocks, and the density of the character shows the share of pages in use. Without colour, the character
//! is the letter of that type, in lower case if less than half is in use, and a dot if nothing is in use. Pageblocks
//! without memory are folded into one line if they would fill a row.

use super::frames::{FrameState, Run};
use super::{ABSENT, Cell, MemoryMap, Side, Sums, TYPES};
use crate::number::{count, percent, unit};
use crate::terminal::{Style, wrapped};

/// Most rows of one side of a map.
const ROWS_MAX: usize = 40;
/// Characters from empty to full.
const DENSITY: [char; 5] = ['.', '░', '▒', '▓', '█'];
/// Colours of the types in a terminal's palette of 256, and their letters: a capital letter if half or more is in use.
const COLORS: [u8; TYPES.len()] = [208, 39, 35, 175, 220, 245];
const LETTERS: [(char, char); TYPES.len()] = [('U', 'u'), ('M', 'm'), ('R', 'r'), ('H', 'h'), ('C', 'c'), ('I', 'i')];
/// Frames in a row.
const FRAMES_ABREAST: usize = 64;

/// Formats the cells of one side at one moment, with their sums. [`legend`] explains the characters.
pub fn moment(map: &MemoryMap, side: &Side, moment: usize, style: Style) -> String {
    let Some(cells) = side.cells.get(moment) else { return String::new() };
    let width = width_of_rows(style);
    let per_char = blocks_per_character(map, style);
    let time = map.moments.get(moment).map_or(0.0, |&ns| ns as f64 / 1e9);
    let mut text = wrapped(&format!("{}: {} at {time:.3} s", map.of, side.name), style);
    let mut at = 0;
    for stretch in &map.stretches {
        let blocks = &cells[at..at + stretch.blocks as usize];
        at += blocks.len();
        text += &wrapped(&format!("{} from frame {}", stretch.zone, count(stretch.first)), style);
        for part in parts(blocks, per_char * width) {
            let first = stretch.first + part.start as u64 * u64::from(map.block_pages);
            match part.kind {
                PartKind::Hole => text += &wrapped(&describe_hole(first, part.blocks.len(), map.block_pages), style),
                PartKind::Memory => {
                    for row in part.blocks.chunks(per_char * width) {
                        text.extend(row.chunks(per_char).map(|cells| character(cells, map.block_pages, style)));
                        text.push('\n');
                    }
                }
            }
        }
    }
    text + &sums(&Sums::from_cells(cells), map, style)
}

/// Returns the number of characters in a row.
fn width_of_rows(style: Style) -> usize {
    style.width().clamp(20, 160)
}

/// Returns the number of pageblocks that a character shows.
fn blocks_per_character(map: &MemoryMap, style: Style) -> usize {
    map.len().div_ceil(width_of_rows(style) * ROWS_MAX).max(1)
}

/// Pageblocks of a stretch that are shown alike.
struct Part<'c> {
    kind: PartKind,
    /// Number of the first pageblock within the stretch.
    start: usize,
    blocks: &'c [Cell],
}

/// Form in which pageblocks are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PartKind {
    /// As characters.
    Memory,
    /// As one line that names the frames.
    Hole,
}

/// Splits the pageblocks of a stretch at its holes: pageblocks without memory at an end of the stretch, or at least
/// `row` of them. A smaller hole is a part of a row.
fn parts(blocks: &[Cell], row: usize) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut start = 0;
    for run in blocks.chunk_by(|a, b| is_absent(a) == is_absent(b)) {
        let end = start + run.len();
        let is_hole = is_absent(&run[0]) && (start == 0 || end == blocks.len() || run.len() >= row);
        match parts.last_mut() {
            Some(last) if !is_hole && last.kind == PartKind::Memory => last.blocks = &blocks[last.start..end],
            _ => parts.push(Part { kind: if is_hole { PartKind::Hole } else { PartKind::Memory }, start, blocks: run }),
        }
        start = end;
    }
    parts
}

fn is_absent(cell: &Cell) -> bool {
    cell.migratetype == ABSENT
}

/// Describes pageblocks without memory, the first of which has the frame `first`.
fn describe_hole(first: u64, blocks: usize, block_pages: u16) -> String {
    let last = first + (blocks as u64 * u64::from(block_pages)).saturating_sub(1);
    let blocks = blocks as u64;
    format!("no memory: frames {} to {} ({} {})", count(first), count(last), count(blocks), unit(blocks, "pageblocks"))
}

/// Returns the character for these cells.
fn character(cells: &[Cell], block_pages: u16, style: Style) -> String {
    let there: Vec<&Cell> = cells.iter().filter(|cell| !is_absent(cell)).collect();
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

/// Formats the sums over the pageblocks of a moment.
fn sums(sums: &Sums, map: &MemoryMap, style: Style) -> String {
    let types = TYPES.iter().zip(COLORS).zip(sums.by_type).filter(|&(_, blocks)| blocks > 0);
    let types = types.map(|((name, _), blocks)| format!("{name} {}", count(blocks.into())));
    let blocks: u32 = sums.by_type.iter().sum();
    let pages = u64::from(blocks) * u64::from(map.block_pages);
    let lines = [
        format!("pageblocks by type: {}", types.collect::<Vec<_>>().join(", ")),
        format!(
            "pageblocks empty: {}, mixed: {}, owned by a CPU: {}",
            count(sums.empty.into()),
            count(sums.mixed.into()),
            count(sums.owned.into())
        ),
        format!(
            "pages in use: {} of {} ({})",
            count(sums.used),
            count(pages),
            percent(sums.used as f64 / pages.max(1) as f64)
        ),
    ];
    lines.iter().map(|line| wrapped(line, style)).collect()
}

/// Formats the meaning of the characters, for all moments of all sides.
pub fn legend(map: &MemoryMap, style: Style) -> String {
    let blocks = blocks_per_character(map, style) as u64;
    let size = format!("{} {} of {} pages", count(blocks), unit(blocks, "pageblocks"), map.block_pages);
    let mut text = style.heading("Legend");
    text += &wrapped(&format!("one character: {size}, in the order of addresses"), style);
    let cells: Vec<&Cell> = map.sides.iter().flat_map(|side| side.cells.iter().flatten()).collect();
    let is_shown = |number: usize| cells.iter().any(|cell| usize::from(cell.migratetype) == number);
    for number in (0..TYPES.len()).filter(|&number| is_shown(number)) {
        let (full, sparse) = LETTERS[number];
        let mark = match style.is_colored() {
            true => style.colored(COLORS[number], &DENSITY[1..].iter().collect::<String>()),
            false => format!("{full} {sparse} "),
        };
        text += &format!("{mark}  mostly {} pageblocks\n", TYPES[number]);
    }
    let densities: &[(&str, &str)] = if style.is_colored() { &DENSITIES } else { &LETTER_SIZES };
    let densities = densities.iter().chain(&[(".   ", "no pages in use"), ("    ", "(blank) no memory")]);
    text.extend(densities.map(|(mark, meaning)| format!("{mark}  {meaning}\n")));
    text
}

/// Meaning of the characters in a coloured map: the share of pages in use.
const DENSITIES: [(&str, &str); 4] = [
    ("░   ", "up to 25 % of the pages in use"),
    ("▒   ", "up to 50 %"),
    ("▓   ", "up to 75 %"),
    ("█   ", "more than 75 %"),
];
/// Meaning of the sizes of letters in a map without colours.
const LETTER_SIZES: [(&str, &str); 2] =
    [("ABC ", "half or more of the pages in use"), ("abc ", "less than half in use")];

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
    Some(text + &wrapped(&meaning, Style::PLAIN))
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
        let expected = "build: linux-6.12 at 1.500 s\nNormal from frame 1,048,576\n.Mu\n\
                        no memory: frames 1,050,112 to 1,050,623 (1 pageblock)\n\
                        pageblocks by type: Unmovable 1, Movable 2\n\
                        pageblocks empty: 1, mixed: 1, owned by a CPU: 0\npages in use: 574 of 1,536 (37.4 %)\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn legend_explains_the_types_that_occur() {
        let map = map();
        let text = legend(&map, Style::with_width(40));
        let expected = "Legend\none character: 1 pageblock of 512 pages,\nin the order of addresses\n\
                        U u   mostly Unmovable pageblocks\nM m   mostly Movable pageblocks\n\
                        ABC   half or more of the pages in use\nabc   less than half in use\n\
                        .     no pages in use\n      (blank) no memory\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn holes_of_a_row_or_at_an_end_are_folded() {
        let cells = |types: &[u8]| -> Vec<Cell> {
            types.iter().map(|&migratetype| Cell { migratetype, ..Cell::default() }).collect()
        };
        let lengths = |types: &[u8]| -> Vec<(bool, usize, usize)> {
            let cells = cells(types);
            parts(&cells, 3).iter().map(|part| (part.kind == PartKind::Hole, part.start, part.blocks.len())).collect()
        };
        assert_eq!(lengths(&[6, 1, 6, 6, 1, 6, 6]), [(true, 0, 1), (false, 1, 4), (true, 5, 2)]);
        assert_eq!(lengths(&[1, 6, 6, 6, 0]), [(false, 0, 1), (true, 1, 3), (false, 4, 1)]);
        assert_eq!((lengths(&[6, 6]), lengths(&[])), (vec![(true, 0, 2)], vec![]));
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
