//! The report, in the order in which people read it: Freehold's costs relative to other mallocs, table by table.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::origin::{Machine, Program};
use freehold_report::report::{Caveats, Detail, Report, Table};
use freehold_workloads::malloc::Table as LoadTable;
use serde::Serialize;

use super::Outcomes;
use super::costs::Costs;
use super::group::{LoadGroup, ratio_table};
use super::limits::{LimitRow, limit_caveats, limit_table};
use super::ratio::{CONFIDENCE, CPU_OF_STEP, Ratio};
use super::request::Request;
use super::roster::Malloc;
use super::sheet::{Sheet, sheets};
use super::summary::{SummaryRow, summarize, summary_table};

/// Results of the study.
#[derive(Clone, Debug, Serialize)]
pub struct WholeReport {
    program: Program,
    machine: Machine,
    percent: u32,
    rounds: u32,
    seed: u64,
    /// Names of the mallocs; Freehold's is the first.
    mallocs: Vec<String>,
    /// Whole loads with classic patterns.
    #[serde(flatten)]
    loads: LoadGroup,
    /// Programs of other projects.
    programs: LoadGroup,
    summary: Vec<SummaryRow>,
    /// Pairs of an allocation and a free, by band of sizes.
    pairs: Vec<Band>,
    /// Tables of one figure.
    sheets: Vec<Sheet>,
    /// Programs with little memory.
    limits: Vec<LimitRow>,
    /// Loads that could not be run here, or at which another malloc failed.
    left_out: Vec<String>,
}

/// Pairs of a band of sizes.
#[derive(Clone, Debug, Serialize)]
struct Band {
    band: &'static str,
    /// Names of the cases, each with the ratios of Freehold's CPU time to that of each other malloc.
    cases: Vec<(String, Vec<Option<Ratio>>)>,
    /// Geometric means over the cases, by malloc.
    mean: Vec<Option<Ratio>>,
}

/// Returns the bands of pairs, in the order of the loads.
fn bands(costs: &Costs<'_>) -> Vec<Band> {
    let (all, loads) = (costs.loads_of(LoadTable::Pairs), &costs.request.loads);
    let bands = all.chunk_by(|&one, &next| loads[one].group == loads[next].group);
    bands.map(|places| Band::new(costs, places)).collect()
}

impl Band {
    /// Returns the band that consists of the loads with these indices.
    fn new(costs: &Costs<'_>, places: &[usize]) -> Band {
        let loads = &costs.request.loads;
        let cases = places.iter().map(|&load| (loads[load].name.clone(), costs.against(&[load], CPU_OF_STEP)));
        Band { band: loads[places[0]].group, cases: cases.collect(), mean: costs.against(places, CPU_OF_STEP) }
    }

    fn table(&self, mallocs: &[String]) -> Table {
        let title = format!("Pairs of {}: Freehold's CPU time divided by that of the other malloc", self.band);
        let rows = self.cases.iter().map(|(name, ratios)| (name.as_str(), ratios.as_slice()));
        ratio_table(title, mallocs, rows, &self.mean)
    }
}

impl WholeReport {
    pub(super) fn new(request: &Request, mallocs: &[Malloc], outcomes: Outcomes) -> WholeReport {
        let Outcomes { rounds, limits, failures } = outcomes;
        let costs = Costs { request, rounds: &rounds, mallocs: mallocs.len() };
        let names: Vec<String> = mallocs.iter().map(|malloc| malloc.name.clone()).collect();
        let rivals: Vec<usize> = (1..mallocs.len()).filter(|&malloc| mallocs[malloc].options.is_empty()).collect();
        let missing = request.left_out.iter().map(|(load, reason)| format!("the load `{load}`: {reason}"));
        let programs = LoadGroup::new(&costs, LoadTable::Programs);
        WholeReport {
            program: Program::this(),
            machine: Machine::this(),
            percent: request.percent,
            rounds: request.rounds,
            seed: request.seed,
            loads: LoadGroup::new(&costs, LoadTable::Loads),
            summary: if programs.loads.is_empty() { Vec::new() } else { summarize(&costs, &rivals, &names) },
            programs,
            pairs: bands(&costs),
            sheets: sheets(request, &rounds),
            limits,
            left_out: missing.chain(failures).collect(),
            mallocs: names,
        }
    }

    /// Returns the tables that have rows.
    fn tables(&self) -> Vec<Table> {
        let summary = (!self.summary.is_empty()).then(|| summary_table(&self.summary));
        let loads = self.loads.tables("", &self.mallocs).into_iter().chain(summary);
        let programs = self.programs.tables("Programs: ", &self.mallocs);
        let bands = self.pairs.iter().map(|band| band.table(&self.mallocs));
        let sheets = self.sheets.iter().map(|sheet| sheet.shown(&self.mallocs));
        loads.chain(programs).chain(bands).chain(sheets).chain(limit_table(&self.limits, &self.mallocs)).collect()
    }

    fn caveats(&self) -> Vec<Caveats> {
        let left_out = Caveats { title: "Not measured".into(), sentences: self.left_out.clone() };
        limit_caveats(&self.limits).into_iter().chain((!self.left_out.is_empty()).then_some(left_out)).collect()
    }

    fn recipe(&self) -> Vec<(String, String)> {
        let rows = [
            ("freehold", format!("{}, {} build", self.program.version(), self.machine.build)),
            ("processor", self.machine.cpu_model.clone()),
            ("kernel", self.machine.kernel_release.clone()),
            ("rounds", self.rounds.to_string()),
            ("of each load", format!("{} %", self.percent)),
            ("seed", self.seed.to_string()),
        ];
        rows.into_iter().map(|(word, meaning)| (word.to_owned(), meaning)).collect()
    }
}

impl Document for WholeReport {
    fn reports(&self) -> Cow<'_, [Report]> {
        Cow::Owned(vec![Report {
            subject: vec!["malloc: cost of whole loads under Freehold and under other mallocs".to_owned()],
            tables: self.tables(),
            caveats: self.caveats(),
            reading: vec![format!(
                "Ratios and figures are medians over the rounds, with the interval of the median at {} %; less is better.",
                CONFIDENCE * 100.0
            )],
            recipe: self.recipe(),
            detail: Detail::Tables,
            ..Report::default()
        }])
    }
}
