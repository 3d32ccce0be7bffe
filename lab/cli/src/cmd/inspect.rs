//! `freehold inspect FILE`: shows the contents of a recording.

use std::path::PathBuf;

use clap::Args;
use freehold_inspect::{Extent, Look};
use freehold_report::formats::{Formats, Views};
use freehold_report::terminal::Style;

use super::map;
use crate::error::Error;

/// Arguments of `freehold inspect`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  freehold inspect recording.parquet\n  \
                        freehold inspect recording.parquet --all\n  \
                        freehold inspect recording.parquet --csv tables.csv\n  \
                        freehold inspect recording.parquet --html page.html\n  \
                        freehold inspect recording.parquet --map")]
pub struct InspectArgs {
    /// Recording
    #[arg(value_name = "FILE")]
    recording: PathBuf,

    /// Print a map of memory at the start and at the end, pageblock by pageblock, instead of the tables
    #[arg(long)]
    map: bool,

    /// Print only the frames of pageblock N of the map
    #[arg(long, value_name = "N", requires = "map")]
    block: Option<usize>,

    /// Print all tables: zones, memory by state and use, settings, orders, GFP classes, lifetimes, and more
    #[arg(long, conflicts_with = "map")]
    all: bool,

    #[command(flatten)]
    formats: Formats,
}

/// Prints the contents.
pub(crate) fn run(args: &InspectArgs, style: Style) -> Result<(), Error> {
    Ok(args.formats.emit(&*answer(args)?, style)?)
}

/// Reads the recording once, and returns its contents or its map.
pub(crate) fn answer(args: &InspectArgs) -> Result<Box<dyn Views>, Error> {
    args.formats.try_all([args.recording.as_path()])?;
    let wants_map = args.map || args.formats.wants_page();
    let look = wants_map.then(|| args.block.map_or(Look::Cells, Look::Block));
    let mut inspection = freehold_inspect::inspect(&args.recording, look)?;
    inspection.extent = if args.all { Extent::Everything } else { Extent::FirstScreen };
    match inspection.map.take_if(|_| args.map) {
        Some(map) => Ok(Box::new(map::Printed::new(map, args.block)?)),
        None => Ok(Box::new(inspection)),
    }
}
