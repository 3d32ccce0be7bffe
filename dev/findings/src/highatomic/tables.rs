//! Tables of the document about the high-atomic reserve.

use freehold_report::number::{self, ABSENT};

use freehold_report::data_table::DataTable;

use super::fleets::{self, EFFECTS};
use super::published::ROWS;
use super::region;
use super::studies::{BACK, PLAN, RIVALS, Reports, SKIP, SWITCHES};
use freehold_sim::fleet::judge::{HostComparison, estimate_text};
use freehold_sim::fleet::measures::{self, Measure};
use freehold_sim::fleet::report::FleetReport;

/// Function that makes a table.
type Make = fn(&Reports) -> DataTable;

/// All tables, by their names on the page.
const TABLES: [(&str, Make); 13] = [
    ("region", region::map),
    ("large", large),
    ("short", short),
    ("published", published),
    ("differences", differences),
    ("failures", failures),
    ("totals", totals),
    ("served", served),
    ("growth", growth),
    ("switches", |reports| switches(&reports.main)),
    ("switches-waiting", |reports| switches(&reports.waiting)),
    ("sweep", sweep),
    ("recipe", recipe),
];

/// Makes a table, or returns `None` if there is no table of this name.
pub(super) fn make(name: &str, reports: &Reports) -> Option<DataTable> {
    TABLES.iter().find(|(known, _)| *known == name).map(|(_, make)| make(reports))
}

/// Makes the published table, with the simulated values beside it.
fn published(reports: &Reports) -> DataTable {
    let main = &reports.main;
    let policies: Vec<usize> = [0].into_iter().chain(positions(main, &RIVALS)).collect();
    let mut header = vec!["measure", "published: before", "published: after"];
    header.extend(policies.iter().map(|&policy| main.label(policy)));
    let published = ROWS.iter().map(|row| ([row.name, row.text[0], row.text[1]], row.measure));
    let more = [measures::RESERVED, measures::ATOMIC_FAILED].map(|measure| ([measure.about, ABSENT, ABSENT], measure));
    let rows = published.chain(more).map(|(labels, measure)| {
        let ours = policies.iter().map(|&policy| estimate_text(&measure, main.estimate(&measure, policy)));
        labels.map(str::to_owned).into_iter().chain(ours).collect()
    });
    DataTable::new(header, rows)
}

/// Makes the table of differences between the rivals and policy A.
fn differences(reports: &Reports) -> DataTable {
    let shown = [
        measures::RESERVED,
        measures::THP_SUCCESS,
        measures::COMPACTION_SUCCESS,
        measures::COMPACT_STALLS,
        measures::MIGRATED,
        measures::KSWAPD_SCANNED,
        measures::RECLAIM_STALLS,
        measures::ATOMIC_FAILED,
        measures::FREE_IN_RESERVE,
        measures::FREE_BLOCKS,
    ];
    let main = &reports.main;
    let rows = shown.iter().flat_map(|measure| {
        positions(main, &RIVALS).map(move |policy| {
            let judged = main.judge(measure, policy);
            let mut cells = vec![measure.about.to_owned(), code(main.label(policy))];
            cells
                .extend([estimate_text(measure, main.estimate(measure, policy)), difference(measure, judged.as_ref())]);
            cells.push(verdict(judged.as_ref()));
            cells
        })
    });
    DataTable::new(["measure", "policy", "value", "difference", "verdict"], rows)
}

/// Makes the table of requests of order 1 to 3 and their failures, for each fleet in which a request failed.
fn failures(reports: &Reports) -> DataTable {
    let header = ["fleet", "policy", "requests of order 1-3", "failed", "in a million", "of order 4 and above"];
    let mut rows = Vec::new();
    for (name, report) in fleets::all_fleets(reports) {
        let policies: Vec<usize> = [0].into_iter().chain(positions(report, &RIVALS)).collect();
        if policies.iter().all(|&policy| fleets::sum(report, &measures::ATOMIC_FAILED, policy) <= 0.0) {
            continue;
        }
        for policy in policies {
            let made = fleets::sum(report, &measures::ATOMIC, policy);
            let failed = fleets::sum(report, &measures::ATOMIC_FAILED, policy);
            let costly = fleets::sum(report, &measures::ATOMIC_COSTLY, policy);
            rows.push(vec![
                name.clone(),
                code(report.label(policy)),
                measures::ATOMIC.text(made),
                measures::ATOMIC_FAILED.text(failed),
                if made > 0.0 { number::decimal(failed / made * 1e6) } else { ABSENT.to_owned() },
                measures::ATOMIC_COSTLY.text(costly),
            ]);
        }
    }
    DataTable::new(header, rows)
}

/// Makes the table of requests of order 1 to 3 and their failures, summed over all fleets.
fn totals(reports: &Reports) -> DataTable {
    let header = ["policy", "requests of order 1-3", "failed", "in a million"];
    let rows = [None].into_iter().chain(RIVALS.map(Some)).map(|label| {
        let (mut made, mut failed) = (0.0, 0.0);
        for (_, report) in fleets::all_fleets(reports) {
            if let Some(policy) = label.map_or(Some(0), |label| report.policy(label)) {
                made += fleets::sum(report, &measures::ATOMIC, policy);
                failed += fleets::sum(report, &measures::ATOMIC_FAILED, policy);
            }
        }
        let per_million = if made > 0.0 { number::decimal(failed / made * 1e6) } else { ABSENT.to_owned() };
        let label = label.unwrap_or(freehold_policies::BASELINE);
        vec![code(label), measures::ATOMIC.text(made), measures::ATOMIC_FAILED.text(failed), per_million]
    });
    DataTable::new(header, rows)
}

/// Makes the table of requests of order 1 to 3 and their failures in the fleet that runs out of memory, compared with
/// policy A.
fn short(reports: &Reports) -> DataTable {
    let report = &reports.short;
    let rows = [0].into_iter().chain(positions(report, &RIVALS)).map(|policy| {
        let measure = &measures::ATOMIC_FAILED;
        let judged = report.judge(measure, policy).filter(|_| policy > 0);
        let [change, verdict] = judged.map_or([String::new(), String::new()], |judged| {
            [difference(measure, Some(&judged)), judged.verdict.word().to_owned()]
        });
        let made = measures::ATOMIC.text(fleets::sum(report, &measures::ATOMIC, policy));
        let failed = measure.text(fleets::sum(report, measure, policy));
        vec![code(report.label(policy)), made, failed, change, verdict]
    });
    DataTable::new(["policy", "requests of order 1-3", "failed", "difference", "verdict"], rows)
}

/// Makes the table of the fleet with as much memory as the published hosts.
fn large(reports: &Reports) -> DataTable {
    let shown = [
        measures::RESERVED,
        measures::THP_SUCCESS,
        measures::COMPACTION_SUCCESS,
        measures::KSWAPD_SCANNED,
        measures::FREE_IN_RESERVE,
        measures::ATOMIC_FAILED,
    ];
    let report = &reports.large;
    let rows = shown.iter().flat_map(|measure| {
        positions(report, &[SKIP, BACK]).map(move |policy| {
            let judged = report.judge(measure, policy);
            let [is, was] = [policy, 0].map(|policy| measure.text(fleets::median(report, measure, policy)));
            let verdict = judged.as_ref().map_or("", |judged| judged.verdict.word()).to_owned();
            let change = difference(measure, judged.as_ref());
            vec![measure.about.to_owned(), was, code(report.label(policy)), is, change, verdict]
        })
    });
    DataTable::new(["measure", "`linux-6.12`", "policy", "value", "difference", "verdict"], rows)
}

/// Makes the table of the sources that served requests, and of pageblocks that joined and left the reserve.
fn served(reports: &Reports) -> DataTable {
    let main = &reports.main;
    let from = [measures::FROM_LIST, measures::FROM_RESERVE, measures::FROM_ORDINARY];
    let header =
        ["policy", "requests", "from a CPU's list", "from the reserve", "from an ordinary block", "joined", "left"];
    let rows = [0].into_iter().chain(positions(main, &RIVALS)).map(|policy| {
        let sums = from.map(|measure| fleets::sum(main, &measure, policy));
        let all: f64 = sums.iter().sum();
        let mut cells = vec![code(main.label(policy)), measures::FROM_LIST.text(all)];
        cells.extend(sums.map(|part| if all > 0.0 { number::percent(part / all) } else { ABSENT.to_owned() }));
        cells.extend([measures::RESERVES, measures::UNRESERVES].map(|m| m.text(fleets::sum(main, &m, policy))));
        cells
    });
    DataTable::new(header, rows)
}

/// Makes the table of the reserve's size at each sampling time.
fn growth(reports: &Reports) -> DataTable {
    let main = &reports.main;
    let Some(looks) = main.results.first().map(|host| host[0].reserved_pages.len()) else {
        return DataTable::default();
    };
    let minutes = main.results[0][0].minutes();
    let heads: Vec<String> =
        (0..looks).map(|look| format!("{:.1} min", minutes * look as f64 / (looks.max(2) - 1) as f64)).collect();
    let mut header = vec!["policy"];
    header.extend(heads.iter().map(String::as_str));
    let rows = [0].into_iter().chain(positions(main, &RIVALS)).map(|policy| {
        let mut cells = vec![code(main.label(policy))];
        cells.extend((0..looks).map(|look| measures::RESERVED.text(fleets::reserved_at(main, policy, look))));
        cells
    });
    DataTable::new(header, rows)
}

/// Makes the table of a fleet in which single mechanisms of the reserve are switched to their alternatives.
fn switches(fleet: &FleetReport) -> DataTable {
    let shown = EFFECTS;
    let mut header = vec!["policy".to_owned()];
    for measure in &shown {
        header.extend([measure.about.to_owned(), "against `linux-6.12`".to_owned()]);
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let policies = [0].into_iter().chain(positions(fleet, &SWITCHES)).chain(positions(fleet, &[SKIP]));
    let rows = policies.map(|policy| {
        let mut cells = vec![code(fleet.label(policy))];
        for measure in &shown {
            let judged = fleet.judge(measure, policy).filter(|_| policy > 0);
            cells.push(estimate_text(measure, fleet.estimate(measure, policy)));
            cells.push(judged.map_or(String::new(), |_| difference_and_verdict(measure, judged.as_ref())));
        }
        cells
    });
    DataTable::new(header, rows)
}

/// Makes the table of the small fleets.
fn sweep(reports: &Reports) -> DataTable {
    let shown =
        [measures::THP_SUCCESS, measures::COMPACTION_SUCCESS, measures::KSWAPD_SCANNED, measures::ATOMIC_FAILED];
    let header = [
        "parameter",
        "value",
        "policy",
        "reserved",
        "joined / left",
        "THP success",
        "compaction success",
        "scanned by kswapd a minute",
        "failed, order 1-3",
    ];
    let mut rows = Vec::new();
    for (point, report) in &reports.points {
        for policy in [0].into_iter().chain(positions(report, &RIVALS)) {
            let mut cells = vec![point.parameter.to_owned(), point.value.to_owned(), code(report.label(policy))];
            cells.push(estimate_text(&measures::RESERVED_SHARE, report.estimate(&measures::RESERVED_SHARE, policy)));
            let moves = [measures::RESERVES, measures::UNRESERVES].map(|m| m.text(fleets::sum(report, &m, policy)));
            cells.push(moves.join(" / "));
            cells.extend(shown.iter().map(|measure| match policy {
                0 => estimate_text(measure, report.estimate(measure, 0)),
                _ => difference_and_verdict(measure, report.judge(measure, policy).as_ref()),
            }));
            rows.push(cells);
        }
    }
    DataTable::new(header, rows)
}

/// Makes the table with the commands that reproduce the document.
fn recipe(reports: &Reports) -> DataTable {
    let recipe = &reports.main.recipe;
    let mut rows = vec![
        vec!["command".to_owned(), code(&reports.command)],
        vec!["freehold".to_owned(), recipe.program.version()],
        vec!["cost table".to_owned(), format!("`{}`: {}", recipe.costs.name, recipe.costs_text())],
    ];
    rows.extend(
        recipe.policies.iter().map(|(name, choices)| vec!["policy".to_owned(), format!("`{name}` is {choices}")]),
    );
    let first = settings(&reports.main);
    let others = fleets::all_fleets(reports).into_iter().skip(1);
    rows.push(vec!["main".to_owned(), format!("`freehold fleet {PLAN} {}`", first.join(" "))]);
    rows.extend(others.map(|(name, report)| {
        let differs: Vec<String> = settings(report).into_iter().filter(|setting| !first.contains(setting)).collect();
        let as_main =
            if differs.is_empty() { "as main".to_owned() } else { format!("as main, with `{}`", differs.join(" ")) };
        vec![name, as_main]
    }));
    DataTable::new(["item", "value"], rows)
}

/// Returns the options that a fleet's command needs.
fn settings(report: &FleetReport) -> Vec<String> {
    let changes = report.fleet.plan.changes.iter().map(|change| format!("--set {change}"));
    [format!("--hosts {}", report.fleet.hosts)].into_iter().chain(changes).collect()
}

/// Returns the positions of these policies, without policies that the fleet does not have.
fn positions<'r>(report: &'r FleetReport, labels: &'r [&'r str]) -> impl Iterator<Item = usize> + 'r {
    labels.iter().filter_map(|label| report.policy(label))
}

/// Formats a difference with its interval and the verdict.
fn difference_and_verdict(measure: &Measure, judged: Option<&HostComparison>) -> String {
    format!("{}, {}", difference(measure, judged), verdict(judged))
}

/// Formats a difference with its interval.
fn difference(measure: &Measure, judged: Option<&HostComparison>) -> String {
    let Some(HostComparison { difference, .. }) = judged else { return ABSENT.to_owned() };
    let value = measure.difference_text(difference.value) + measure.difference_unit();
    match difference.interval {
        Some((low, high)) if low < high => {
            format!("{value} [{}, {}]", measure.difference_text(low), measure.difference_text(high))
        }
        _ => value,
    }
}

fn verdict(judged: Option<&HostComparison>) -> String {
    judged.map_or(ABSENT, |judged| judged.verdict.word()).to_owned()
}

/// Formats text as Markdown code.
fn code(text: &str) -> String {
    format!("`{text}`")
}

#[cfg(test)]
mod tests {
    use super::super::studies::{POINTS, cells};
    use super::super::{PAGE, studies};
    use super::*;
    use crate::regions;
    use freehold_sim::costs::Costs;
    use freehold_sim::fleet::Fleet;
    use freehold_sim::fleet::host::{Host, HostResult};
    use freehold_sim::outcome::vmstat::Vmstat;
    use freehold_sim::plan::{Changes, Plan};

    /// Hosts of a fleet.
    const HOSTS: u32 = 2;

    /// Creates the report of a fleet without a simulation: all hosts have equal counters under every policy.
    fn fleet(rivals: &[&str]) -> FleetReport {
        let changes = Changes {
            b: rivals.iter().map(|change| format!("{},{change}", freehold_policies::BASELINE)).collect(),
            ..Changes::default()
        };
        let fleet = Fleet::new(Plan::open(PLAN, &changes).unwrap(), Costs::reference(), HOSTS, 1).unwrap();
        let hosts: Vec<Host> = (1..=HOSTS).map(|number| Host::draw(&fleet.plan, 1, number).unwrap()).collect();
        let result = HostResult {
            duration_ms: 60_000,
            memory_pages: 1 << 20,
            free_pageblocks: 3,
            reserved_pages: vec![0, 512, 1024],
            vmstat: Vmstat::new(vec![
                ("thp_fault_alloc", 60),
                ("atomic_order1_3", 1000),
                ("atomic_order1_3_failed", 7),
            ]),
        };
        let results = vec![vec![result; fleet.plan.policies.len()]; HOSTS as usize];
        FleetReport::new(fleet, hosts, results)
    }

    fn reports() -> Reports {
        let all: Vec<&str> = RIVALS.iter().chain(&SWITCHES).copied().collect();
        Reports {
            command: String::new(),
            main: fleet(&all),
            waiting: fleet(&all),
            region: cells().map(|cell| (cell, fleet(&RIVALS))).collect(),
            short: fleet(&RIVALS),
            large: fleet(&RIVALS),
            points: POINTS.iter().take(2).map(|point: &studies::Point| (*point, fleet(&RIVALS))).collect(),
            states: Vec::new(),
        }
    }

    #[test]
    fn every_table_of_the_page_is_made() {
        let reports = reports();
        for region in regions::tests::tables(PAGE) {
            let table = make(&region.name, &reports).unwrap_or_else(|| panic!("{region:?}"));
            assert!(table.cells().count() > 4, "{region:?}");
        }
    }

    #[test]
    fn failures_of_all_fleets_are_summed() {
        let totals = totals(&reports()).to_csv();
        // There are eighteen fleets of two hosts.
        assert!(totals.contains("`highatomic=reuse-first`,\"36,000\",252,\"7,000\""), "{totals}");
    }
}
