//! Page about ages: `docs/findings/ages.md`. It compares real machines from the folder `recordings`, machines drawn to
//! resemble them, and machines of an age, by their results under the plan `fragment`.
//!
//! The page is written by hand; this module simulates the runs, and makes its tables and its picture.

use std::path::{Path, PathBuf};

use freehold_report::output::OutputError;
use freehold_report::report::plot::{Axis, Plot, PlotLine, Scale, Shape};
use freehold_sim::costs::Costs;
use freehold_sim::machine::Machine;
use freehold_sim::plan::{Changes, Plan};
use freehold_sim::report::measures::{self, Measure};
use freehold_sim::report::{SimReport, judge};
use freehold_sim::start::{self, Figures, Layout, PAGEBLOCK_PAGES, Start, age};
use freehold_stats::intervals;

use crate::differences::difference_text;
use crate::error::Error;
use crate::picture::{self, Picture};
use crate::regions::{self, Region};
use crate::{Args, Page, command};
use freehold_report::data_table::DataTable;

/// Page with the tables that it had when this program was built.
const PAGE: &str = include_str!("../../../../docs/findings/ages.md");
/// Name of the page.
pub(crate) const NAME: &str = "ages";
/// Picture of the page.
pub(crate) const PICTURE: Picture = Picture { title: "Results by the memory at the start of a run", plots };
/// Plan that is simulated on every machine.
const PLAN: &str = "fragment";
const A: &str = "linux-6.12";
const B: &str = "freehold";
/// Folder of the snapshots, from the root of the sources.
const FOLDER: &str = "recordings";
/// MiB that are simulated of each machine, summed over its seeds. A smaller machine has more seeds.
const MIB_OF_ALL_SEEDS: u64 = 48 << 10;
/// Minimum and maximum number of seeds of a machine: enough for an interval, and enough in any case.
const SEEDS: (u64, u64) = (4, 24);
/// Measures of the tables, which name them.
const MEASURES: [Measure; 3] = [measures::THP_SUCCESS, measures::COMPACTION_SUCCESS, measures::ZONE_LOCKS];

/// Real machines: the name of each snapshot, and a description.
const MACHINES: [(&str, &str); 6] = [
    ("guest-build", "a guest after a build, beside copies of files that do not fit into memory"),
    ("guest-files", "a guest after copies of files, small files, sockets and processes"),
    ("oracle-pressure", "a guest whose memory was fragmented on purpose, with pages of pipes in the holes of a file"),
    ("host-build", "a host after a build, beside readers of files that do not fit into memory"),
    ("malloc-glibc", "a host after a day's work and a server, its page cache dropped"),
    ("malloc-tcmalloc", "the same, at another hour"),
];

/// State of memory at the start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    AsItWas,
    Drawn,
    Shuffled,
    OfAge,
}

impl Begin {
    const ALL: [Begin; 4] = [Begin::AsItWas, Begin::Drawn, Begin::Shuffled, Begin::OfAge];

    /// Returns the title of this state's column.
    fn title(self) -> &'static str {
        match self {
            Begin::AsItWas => "snapshot",
            Begin::Drawn => "drawn from its layout",
            Begin::Shuffled => "pageblocks shuffled",
            Begin::OfAge => "nearest age",
        }
    }
}

/// Machine with its results, indexed by [`Begin`].
struct Trial {
    name: &'static str,
    about: &'static str,
    figures: Figures,
    reports: Vec<SimReport>,
}

/// Simulates all runs of the document, and makes its tables.
///
/// # Errors
/// Returns an error if a snapshot cannot be read, or if a run fails.
pub(crate) fn pages(costs: &Costs, args: &Args) -> Result<Vec<Page>, Error> {
    let trials: Vec<Trial> =
        MACHINES.into_iter().map(|machine| simulate(machine, costs, args)).collect::<Result<_, _>>()?;
    let command = command(NAME, args);
    let mut pages = regions::fill(NAME, PAGE, |region| make_table(region, &trials, &command));
    pages.push(PICTURE.draw(NAME, PAGE, |region| make_table(region, &trials, &command)));
    Ok(pages)
}

/// Simulates the plan on one machine, once for each state of memory at the start.
fn simulate((name, about): (&'static str, &'static str), costs: &Costs, args: &Args) -> Result<Trial, Error> {
    let path = snapshot(name);
    let start = start::read(&path).map_err(|error| Error::Input(error.to_string()))?;
    let figures = Figures::from_start(&start);
    let mut reports = Vec::with_capacity(Begin::ALL.len());
    for begin in Begin::ALL {
        let file = match begin {
            Begin::AsItWas | Begin::OfAge => None,
            Begin::Drawn => Some(StartFile::write(&start::draw_start(&Layout::from_start(&start), 1))?),
            Begin::Shuffled => Some(StartFile::write(&start.shuffled(1))?),
        };
        let start_path = file.as_ref().map_or(&path, |file| &file.path);
        let mut plan = Plan::open(PLAN, &changes(begin, &figures, start_path)).map_err(freehold_sim::Error::from)?;
        if args.quick {
            plan = plan.shortened();
        }
        reports.push(SimReport::simulate(plan, costs).map_err(freehold_sim::Error::from)?);
    }
    Ok(Trial { name, about, figures, reports })
}

/// Returns the path of a machine's snapshot.
fn snapshot(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(FOLDER).join(name).with_extension("parquet")
}

fn changes(begin: Begin, figures: &Figures, path: &Path) -> Changes {
    let mib = figures.pages() / PAGES_PER_MIB;
    let start = (begin != Begin::OfAge).then_some(path);
    Changes {
        start: start.map(|path| path.display().to_string()),
        age: start.is_none().then(|| age::nearest_age(figures)),
        memory: Some(format!("{mib}MiB")),
        a: Some(A.to_owned()),
        b: vec![B.to_owned()],
        seeds: Some(seeds(mib)),
        ..Changes::default()
    }
}

fn seeds(mib: u64) -> u32 {
    (MIB_OF_ALL_SEEDS / mib.max(1)).clamp(SEEDS.0, SEEDS.1) as u32
}

/// Pages per MiB.
const PAGES_PER_MIB: u64 = 256;
/// CPUs of a generated start, as in `freehold age`.
const CPUS: u16 = 32;

/// File with a generated start, removed when dropped.
struct StartFile {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl StartFile {
    fn write(start: &Start) -> Result<StartFile, Error> {
        let folder = tempfile::tempdir().map_err(|source| OutputError::Write { path: std::env::temp_dir(), source })?;
        let path = folder.path().join("made.parquet");
        let machine = Machine { pages: start.len() * PAGEBLOCK_PAGES, nodes: 1 };
        start::write(start, &machine, CPUS, &path).map_err(|error| Error::Input(error.to_string()))?;
        Ok(StartFile { path, _folder: folder })
    }
}

impl Trial {
    /// Returns the values of a measure under all seeds for which it is defined.
    fn values(&self, begin: Begin, measure: &Measure, policy: usize) -> Vec<f64> {
        let report = &self.reports[begin as usize];
        let spread = report.plan.cpus.first().and_then(|&cpus| report.spread(measure, 0, cpus, policy));
        spread.map_or_else(Vec::new, |spread| spread.values.into_iter().filter(|value| value.is_finite()).collect())
    }

    fn median(&self, begin: Begin, measure: &Measure, policy: usize) -> Option<f64> {
        let mut values = self.values(begin, measure, policy);
        (!values.is_empty()).then(|| intervals::median(&mut values))
    }

    /// Returns the difference between the median and that of the real machine.
    fn distance(&self, begin: Begin, measure: &Measure) -> Option<f64> {
        Some((self.median(begin, measure, 0)? - self.median(Begin::AsItWas, measure, 0)?).abs())
    }

    fn age(&self) -> u8 {
        age::nearest_age(&self.figures)
    }
}

/// Makes a table of the page, or returns `None` if there is no such table.
fn make_table(region: &Region, trials: &[Trial], command: &str) -> Option<DataTable> {
    let measure = region.words.first().map(|name| MEASURES.iter().find(|measure| measure.name == name));
    Some(match (region.name.as_str(), measure) {
        ("distances", None) => distances(trials),
        ("machines", None) => machines(trials),
        ("measure", Some(measure)) => measure_table(trials, measure?),
        ("comparison", Some(measure)) => comparison_table(trials, measure?),
        ("recipe", None) => recipe(trials, command),
        _ => return None,
    })
}

/// Makes the table of differences from the real machine, over all machines.
fn distances(trials: &[Trial]) -> DataTable {
    let mut rows = Vec::new();
    for begin in [Begin::Drawn, Begin::Shuffled, Begin::OfAge] {
        for measure in [measures::THP_SUCCESS, measures::COMPACTION_SUCCESS] {
            let mut distances: Vec<f64> = trials.iter().filter_map(|trial| trial.distance(begin, &measure)).collect();
            let most = distances.iter().copied().fold(0.0, f64::max);
            let median = if distances.is_empty() { 0.0 } else { intervals::median(&mut distances) };
            let [median, most] = [median, most].map(|distance| format!("{:.1} points", distance * 100.0));
            rows.push(vec![begin.title().to_owned(), measure.about.to_owned(), median, most]);
        }
    }
    DataTable::new(["start state", "measure", "median", "maximum"], rows)
}

fn machines(trials: &[Trial]) -> DataTable {
    let rows = trials.iter().map(|Trial { name, about, figures, .. }| {
        vec![
            format!("`{FOLDER}/{name}.parquet`"),
            (*about).to_owned(),
            format!("{} MiB", figures.pages() / PAGES_PER_MIB),
            format_share(figures.free, figures.pages()),
            format_share(figures.free_pageblocks, figures.pageblocks),
            format_share(figures.fixed, figures.pages()),
            format_share(figures.fixed_pageblocks, figures.pageblocks),
            age::nearest_age(figures).to_string(),
        ]
    });
    let header = [
        "snapshot",
        "origin",
        "memory",
        "free",
        "pageblocks free as a whole",
        "memory that cannot move",
        "pageblocks with some of it",
        "nearest age",
    ];
    DataTable::new(header, rows)
}

/// Formats a part in percent of the whole.
fn format_share(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 / whole.max(1) as f64 * 100.0)
}

/// Makes the table of a measure of `linux-6.12`, by machine and state of memory at the start.
fn measure_table(trials: &[Trial], measure: &Measure) -> DataTable {
    let header: Vec<&str> = by_begin(measure).chain(["age"]).collect();
    let rows = trials.iter().map(|trial| {
        let begins = Begin::ALL.map(|begin| format_spread(trial, begin, measure));
        [trial.name.to_owned()].into_iter().chain(begins).chain([trial.age().to_string()]).collect()
    });
    DataTable::new(header, rows)
}

/// Returns the plot of a measure: a bar for each machine and state of memory at the start.
fn plots(table: &DataTable) -> Vec<Plot> {
    let Some(title) = table.titles().first() else { return Vec::new() };
    let lines = Begin::ALL.map(|begin| PlotLine::new(begin.title(), picture::points_by_row(table, begin.title())));
    vec![Plot {
        title: title.clone(),
        scale: Scale::Named(table.column(title).map(str::to_owned).collect()),
        axis: Axis::Percent,
        shape: Shape::Bars,
        lines: lines.to_vec(),
        ..Plot::default()
    }]
}

/// Formats the median, the minimum and the maximum of a measure over seeds.
fn format_spread(trial: &Trial, begin: Begin, measure: &Measure) -> String {
    let mut values = trial.values(begin, measure, 0);
    if values.is_empty() {
        return "-".to_owned();
    }
    let median = intervals::median(&mut values);
    let least = values.iter().copied().fold(median, f64::min);
    let most = values.iter().copied().fold(median, f64::max);
    format!("{} ({} to {})", measure.text(median), measure.text(least), measure.text(most))
}

/// Makes the table of changes by policy `freehold`, by machine and state of memory at the start.
fn comparison_table(trials: &[Trial], measure: &Measure) -> DataTable {
    let rows = trials.iter().map(|trial| {
        let begins = Begin::ALL.map(|begin| format_difference(trial, begin, measure));
        [trial.name.to_owned()].into_iter().chain(begins).collect()
    });
    DataTable::new(by_begin(measure), rows)
}

/// Formats the difference of policy B from policy A.
fn format_difference(trial: &Trial, begin: Begin, measure: &Measure) -> String {
    match (trial.median(begin, measure, 0), trial.median(begin, measure, 1)) {
        (Some(a), Some(b)) => difference_text(measure, judge::difference(measure, a, b)),
        _ => "-".to_owned(),
    }
}

/// Returns the column titles of a table about a measure, by state of memory at the start.
fn by_begin(measure: &Measure) -> impl Iterator<Item = &'static str> {
    [measure.about].into_iter().chain(Begin::ALL.map(Begin::title))
}

/// Makes the table with the commands that reproduce the document.
fn recipe(trials: &[Trial], command: &str) -> DataTable {
    let mut rows = vec![vec!["command".to_owned(), format!("`{command}`")]];
    let first = trials.first().map(|trial| &trial.reports[0].recipe);
    rows.extend(first.map(|recipe| vec!["freehold".to_owned(), recipe.program.version()]));
    rows.extend(
        first.map(|recipe| vec!["cost table".to_owned(), format!("`{}`: {}", recipe.costs.name, recipe.costs_text())]),
    );
    for Trial { name, figures, .. } in trials {
        let mib = figures.pages() / PAGES_PER_MIB;
        let like = format!("`freehold age --like {FOLDER}/{name}.parquet --out drawn.parquet`");
        rows.push(vec![(*name).to_owned(), format_sim_command(mib, &format!("--start {FOLDER}/{name}.parquet"))]);
        rows.push(vec![format!("{name}, drawn"), format!("{like}, then the same with `--start drawn.parquet`")]);
        rows.push(vec![format!("{name}, shuffled"), "only this page's command makes it".to_owned()]);
        rows.push(vec![
            format!("{name}, age"),
            format_sim_command(mib, &format!("--age {}", age::nearest_age(figures))),
        ]);
    }
    DataTable::new(["item", "value"], rows)
}

/// Formats the command that simulates a machine of this size.
fn format_sim_command(mib: u64, begin: &str) -> String {
    format!("`freehold sim {PLAN} {begin} --memory {mib}MiB --seeds {} --a {A} --b {B}`", seeds(mib))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_of_the_page_is_made() {
        for region in regions::tests::tables(PAGE) {
            assert!(make_table(&region, &[], "command").is_some(), "{region:?}");
        }
    }

    #[test]
    fn every_snapshot_can_be_read() {
        for (name, _) in MACHINES {
            assert!(start::read(&snapshot(name)).is_ok_and(|start| !start.is_empty()), "{name}");
        }
    }

    #[test]
    fn large_machines_have_fewer_seeds() {
        assert_eq!([512, 9310, 24 << 10].map(seeds), [24, 5, 4]);
    }
}
