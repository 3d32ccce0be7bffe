//! Pictures of one moment of a map, as PNG files with one pixel for each cell.
//!
//! A page contains them as data, so that the map is visible before the script runs and without a script. The script
//! draws the same cells at the same places, with the colours and the layout of this file.

use serde::Serialize;

use super::{Cell, MemoryMap, TYPES};

/// Colours of the types, after Okabe and Ito.
pub const TYPE_COLORS: [[u8; 3]; TYPES.len()] =
    [[0xd5, 0x5e, 0x00], [0x00, 0x72, 0xb2], [0x00, 0x9e, 0x73], [0xcc, 0x79, 0xa7], [0xe6, 0x9f, 0x00], [0x80; 3]];
/// Colour of a pageblock that differs between A and B, and of one that does not.
pub const DIFFERENCE_COLORS: [[u8; 3]; 2] = [[0xe8, 0x30, 0x5f], [0x80; 3]];
/// Colours of owning CPUs. CPUs whose numbers differ by a multiple of the number of colours have the same colour.
pub const OWNER_COLORS: [[u8; 3]; 8] = [
    [0x00, 0x72, 0xb2],
    [0xd5, 0x5e, 0x00],
    [0x00, 0x9e, 0x73],
    [0xcc, 0x79, 0xa7],
    [0xe6, 0x9f, 0x00],
    [0x56, 0xb4, 0xe9],
    [0x8a, 0x6d, 0x00],
    [0x7b, 0x4f, 0xa3],
];
/// Opacity of a pageblock without a page in use, and of one that does not differ.
pub const FAINTEST: f64 = 0.13;
/// Opacity of a pageblock with the smallest difference, so that it can be seen.
pub const SMALLEST_DIFFERENCE: f64 = 0.55;

/// Most and fewest cells in a row of a map.
const COLUMNS_MAX: usize = 384;
const COLUMNS_MIN: usize = 16;

/// Places of the cells of a map, in cells. Each stretch begins a new row, after an empty row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// Cells in a row.
    pub columns: usize,
    /// Number of rows.
    pub rows: usize,
    /// First row of each stretch.
    pub tops: Vec<usize>,
}

impl Layout {
    /// Lays out a map, about as high as it is wide.
    pub fn new(map: &MemoryMap) -> Layout {
        let columns = (map.len() as f64).sqrt().ceil() as usize;
        let columns = columns.next_multiple_of(8).clamp(COLUMNS_MIN, COLUMNS_MAX);
        let mut next = 0;
        let mut tops = Vec::with_capacity(map.stretches.len());
        for stretch in &map.stretches {
            tops.push(next);
            next += (stretch.blocks as usize).div_ceil(columns) + 1;
        }
        Layout { columns, rows: next.saturating_sub(1).max(1), tops }
    }

    /// Returns the centre of a cell in percent of the width and the height of a picture.
    pub fn center(&self, map: &MemoryMap, block: usize) -> [f64; 2] {
        let position = self.positions(map).get(block).copied().unwrap_or_default();
        let places = [(position % self.columns, self.columns), (position / self.columns, self.rows)];
        places.map(|(at, size)| 100.0 * (at as f64 + 0.5) / size as f64)
    }

    /// Returns the position of each cell in a picture, row by row.
    fn positions(&self, map: &MemoryMap) -> Vec<usize> {
        let stretches = map.stretches.iter().zip(&self.tops);
        stretches
            .flat_map(|(stretch, top)| (0..stretch.blocks as usize).map(move |at| top * self.columns + at))
            .collect()
    }
}

/// Returns the picture of a side at a moment, coloured by type: a stronger colour has more pages in use.
pub fn draw_side(map: &MemoryMap, side: usize, moment: usize) -> Vec<u8> {
    draw(map, map.cells(side, moment).iter().map(|cell| color_by_type(cell, map.block_pages)))
}

/// Returns the picture of the difference between the first two sides at a moment.
pub fn draw_difference(map: &MemoryMap, moment: usize) -> Vec<u8> {
    let pairs = map.cells(0, moment).iter().zip(map.cells(1, moment));
    draw(map, pairs.map(|(a, b)| color_by_difference(a, b, map.block_pages)))
}

fn color_by_type(cell: &Cell, block_pages: u16) -> [u8; 4] {
    let Some(color) = TYPE_COLORS.get(usize::from(cell.migratetype)) else { return [0; 4] };
    blend(*color, FAINTEST + (1.0 - FAINTEST) * share(u32::from(cell.used), block_pages))
}

fn color_by_difference(a: &Cell, b: &Cell, block_pages: u16) -> [u8; 4] {
    let [different, equal] = DIFFERENCE_COLORS;
    match a.distance(b) {
        0 if a.is_present() => blend(equal, FAINTEST),
        0 => [0; 4],
        distance => blend(different, SMALLEST_DIFFERENCE + (1.0 - SMALLEST_DIFFERENCE) * share(distance, block_pages)),
    }
}

fn share(pages: u32, block_pages: u16) -> f64 {
    (f64::from(pages) / f64::from(block_pages.max(1))).min(1.0)
}

fn blend([red, green, blue]: [u8; 3], opacity: f64) -> [u8; 4] {
    [red, green, blue, (opacity * 255.0).round() as u8]
}

fn draw(map: &MemoryMap, colors: impl Iterator<Item = [u8; 4]>) -> Vec<u8> {
    let layout = Layout::new(map);
    let mut pixels = vec![[0; 4]; layout.columns * layout.rows];
    for (at, color) in layout.positions(map).into_iter().zip(colors) {
        pixels[at] = color;
    }
    encode(layout.columns as u32, layout.rows as u32, pixels.as_flattened())
        .expect("a picture of valid size in memory can be encoded")
}

fn encode(width: u32, height: u32, pixels: &[u8]) -> Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_compression(png::Compression::High);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::super::{ABSENT, Side, Stretch};
    use super::*;

    fn map() -> MemoryMap {
        let cell = |migratetype, used| Cell { migratetype, used, movable: 0, owner: 0 };
        let side = |cells: [Cell; 3]| Side { cells: vec![cells.to_vec()], ..Side::default() };
        let stretch = |zone: &str, first, blocks| Stretch { zone: zone.to_owned(), first, blocks };
        MemoryMap {
            of: "build".to_owned(),
            note: String::new(),
            block_pages: 512,
            stretches: vec![stretch("DMA", 0, 1), stretch("Normal", 4096, 2)],
            moments: vec![0],
            sides: vec![
                side([cell(0, 512), cell(1, 0), cell(ABSENT, 0)]),
                side([cell(0, 512), cell(1, 512), cell(ABSENT, 0)]),
            ],
        }
    }

    /// Decodes a picture.
    fn pixels(file: &[u8]) -> (u32, Vec<[u8; 4]>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let width = reader.next_frame(&mut bytes).unwrap().width;
        (width, bytes.chunks(4).map(|pixel| pixel.try_into().unwrap()).collect())
    }

    #[test]
    fn stretches_begin_new_rows_after_a_gap() {
        let layout = Layout::new(&map());
        assert_eq!(layout, Layout { columns: COLUMNS_MIN, rows: 3, tops: vec![0, 2] });
        assert_eq!(layout.center(&map(), 2), [100.0 * 1.5 / 16.0, 100.0 * 2.5 / 3.0]);
    }

    #[test]
    fn cells_are_coloured_by_type_and_use() {
        let (width, pixels) = pixels(&draw_side(&map(), 0, 0));
        assert_eq!((width as usize, pixels.len()), (COLUMNS_MIN, 3 * COLUMNS_MIN));
        assert_eq!(pixels[0], [0xd5, 0x5e, 0x00, 255], "Unmovable, full");
        assert_eq!(pixels[2 * COLUMNS_MIN], [0x00, 0x72, 0xb2, 33], "Movable, empty");
        assert_eq!(pixels[2 * COLUMNS_MIN + 1], [0; 4], "absent");
    }

    #[test]
    fn pageblocks_that_differ_stand_out() {
        let (_, pixels) = pixels(&draw_difference(&map(), 0));
        assert_eq!(pixels[0], [0x80, 0x80, 0x80, 33], "equal");
        assert_eq!(pixels[2 * COLUMNS_MIN], [0xe8, 0x30, 0x5f, 255], "all pages differ");
    }
}
