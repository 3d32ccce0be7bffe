//! Cases of reports: each load with its arguments, and the table of its results.

use clap::ValueEnum;
use serde::Serialize;

use super::{Limit, Workload, programs};

/// A table of a report: loads with the same measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Table {
    /// Whole programs with classic patterns: CPU time and peak resident memory.
    Loads,
    /// A free and an allocation of one size, or of random sizes of a band: CPU time.
    Pairs,
    /// Blocks that are held, all of them written: ratio of resident to live memory.
    Resident,
    /// Threads that are idle, or start and end: resident memory per thread.
    Threads,
    /// A small program: resident memory and page faults beyond those with the C library's malloc.
    Start,
    /// Forks while threads allocate: children that fail.
    Forks,
    /// Patterns of services: CPU time, and resident memory at the end.
    Services,
    /// Mostly free memory under huge pages (`always`): resident and charged memory after an idle minute.
    HugePages,
    /// Programs of other projects: CPU time and peak resident memory.
    Programs,
    /// Programs of other projects with 64 MiB of memory: whether they run.
    Limits,
}

/// A load as a report runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Table of the results.
    pub table: Table,
    /// Group within the table, over which a mean is computed.
    pub group: &'static str,
    /// Name in tables.
    pub name: String,
    /// Arguments after `freehold load malloc`.
    pub arguments: Vec<String>,
    /// Description in a sentence.
    pub about: String,
    workload: Workload,
    limit: Option<Limit>,
}

impl Case {
    /// Returns the reason why the load cannot be run on this machine, if there is one.
    pub fn obstacle(&self) -> Option<String> {
        programs::obstacle(self.workload, self.limit)
    }
}

/// A band of sizes.
struct Band {
    name: &'static str,
    window: &'static str,
    least: usize,
    most: usize,
    sizes: &'static [usize],
}

/// Sizes of pairs: the first and last sizes of size classes, and sizes in between.
const BANDS: [Band; 2] = [
    Band {
        name: "8 to 32 KiB",
        window: "100 of 8 to 32 KiB",
        least: 8 << 10,
        most: 32 << 10,
        sizes: &[8192, 8200, 12_288, 17_000, 24_576, 32_768],
    },
    Band {
        name: "32 KiB to 1 MiB",
        window: "100 of 32 KiB to 1 MiB",
        least: (32 << 10) + 1,
        most: 1 << 20,
        sizes: &[40_000, 65_536, 100_000, 131_072, 300_000, 524_288, 1_048_576],
    },
];

/// Returns all cases, in the order of reports.
pub fn cases() -> Vec<Case> {
    let all = Workload::value_variants().iter();
    let limited = Limit::value_variants().iter().flat_map(|&limit| limited_cases(limit));
    all.flat_map(|&workload| workload_cases(workload)).chain(limited).collect()
}

/// Returns the cases of programs with this memory limit.
fn limited_cases(limit: Limit) -> impl Iterator<Item = Case> {
    let programs = Workload::value_variants().iter().filter(move |workload| is_limited(**workload, limit));
    programs.filter_map(move |&workload| Case::plain(workload)?.limited(limit))
}

/// Returns whether a program is run with this limit. Some programs reserve more address space than they use, and fail
/// under every malloc if that is limited.
fn is_limited(workload: Workload, limit: Limit) -> bool {
    match workload {
        Workload::Redis | Workload::Git | Workload::Sqlite | Workload::Python | Workload::Nginx => true,
        _ => limit == Limit::Group && workload.table() == Table::Programs,
    }
}

fn workload_cases(workload: Workload) -> Vec<Case> {
    match workload {
        Workload::Pairs => BANDS.iter().flat_map(pair_cases).collect(),
        _ => Case::plain(workload).into_iter().collect(),
    }
}

/// Returns the cases of a band: each size alone, and many sizes at once.
fn pair_cases(band: &Band) -> impl Iterator<Item = Case> {
    let about_one = "One block of this size, freed at once";
    let single = band.sizes.iter().map(move |&size| band.case(size.to_string(), about_one, [size, size, 1]));
    let about_many = "A hundred blocks of random sizes, one of which is replaced at a time";
    let window = band.case(band.window.to_owned(), about_many, [band.least, band.most, 100]);
    single.chain(std::iter::once(window))
}

impl Band {
    /// Returns the case of pairs with these minimum and maximum bytes, and this number of live blocks.
    fn case(&self, name: String, about: &str, [least, most, live]: [usize; 3]) -> Case {
        let options = ["--least", &least.to_string(), "--most", &most.to_string(), "--live", &live.to_string()];
        let arguments = std::iter::once("pairs").chain(options).map(str::to_owned).collect();
        let about = about.to_owned();
        Case { table: Table::Pairs, group: self.name, name, arguments, about, workload: Workload::Pairs, limit: None }
    }
}

impl Case {
    /// Returns the case of a load without arguments.
    fn plain(workload: Workload) -> Option<Case> {
        let value = workload.to_possible_value()?;
        Some(Case {
            table: workload.table(),
            group: "",
            name: value.get_name().to_owned(),
            arguments: vec![value.get_name().to_owned()],
            about: value.get_help().map(ToString::to_string).unwrap_or_default(),
            workload,
            limit: None,
        })
    }

    /// Returns this case with a memory limit.
    fn limited(self, limit: Limit) -> Option<Case> {
        let value = limit.to_possible_value()?;
        let (name, help) = (value.get_name(), value.get_help()?);
        let arguments = self.arguments.into_iter().chain(["--limit", name].map(str::to_owned));
        Some(Case {
            table: Table::Limits,
            name: format!("{}-{name}", self.name),
            arguments: arguments.collect(),
            about: format!("{}; limited to 64 MiB: {help}", self.about),
            limit: Some(limit),
            ..self
        })
    }
}

impl Workload {
    fn table(self) -> Table {
        match self {
            Workload::Pairs => Table::Pairs,
            Workload::HeldSmall | Workload::HeldWide | Workload::HeldAbove | Workload::Phases | Workload::Producers => {
                Table::Resident
            }
            Workload::IdleThreads | Workload::ComeAndGo => Table::Threads,
            Workload::Starts => Table::Start,
            Workload::Forks => Table::Forks,
            Workload::Cycles | Workload::ForkServer => Table::Services,
            Workload::SparseSmall | Workload::SparseLarge => Table::HugePages,
            // These two programs belong to the loads of earlier reports, whose means include them.
            Workload::Redis | Workload::Compiler => Table::Loads,
            _ if programs::Program::of_workload(self).is_some() => Table::Programs,
            _ => Table::Loads,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malloc_cases_cover_every_table_with_unique_names() {
        let cases = cases();
        for table in Table::value_variants() {
            assert!(cases.iter().any(|case| case.table == *table), "{table:?}");
        }
        let mut names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), cases.len());
        assert_eq!(cases.iter().filter(|case| case.table == Table::Loads).count(), 14);
        for band in &BANDS {
            assert!(band.sizes.iter().all(|size| (band.least..=band.most).contains(size)), "{}", band.name);
        }
    }
}
