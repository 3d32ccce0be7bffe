//! The tables of the document, and the list of all its parts.

use freehold_report::number::{self, ABSENT};

use crate::markup::table;

use super::published::{ROWS, Row};
use super::studies::{PLAN, RIVALS, Reports, SKIP, SWITCHES};
use super::{answer, region, sentences};
use freehold_sim::fleet::judge::{HostComparison, estimate_text};
use freehold_sim::fleet::measures::{self, Measure};
use freehold_sim::fleet::report::FleetReport;

/// Makes a part.
type Make = fn(&Reports) -> String;

/// Every part, by its name in the template.
const PARTS: [(&str, Make); 23] = [
    ("answer", answer::all),
    ("region", region::map),
    ("fade", region::fade),
    ("large", region::large),
    ("short", sentences::short),
    ("fleet", |reports| reports.main.hosts_text()),
    ("published", published),
    ("shown", sentences::shown),
    ("differences", differences),
    ("failures", failures),
    ("fail", sentences::fail),
    ("served", served),
    ("fill", sentences::fill),
    ("growth", growth),
    ("switches", |reports| switches(&reports.main)),
    ("switches-waiting", |reports| switches(&reports.waiting)),
    ("steps-waiting", |reports| sentences::steps(&reports.waiting)),
    ("steps", |reports| sentences::steps(&reports.main)),
    ("sweep", sweep),
    ("elsewhere", sentences::elsewhere),
    ("back", sentences::back),
    ("claims", sentences::claims),
    ("recipe", recipe),
];

/// Makes a part; nothing if there is none of this name.
pub fn make(name: &str, reports: &Reports) -> Option<String> {
    PARTS.iter().find(|(known, _)| *known == name).map(|(_, make)| make(reports))
}

/// The published table, with ours beside it.
fn published(reports: &Reports) -> String {
    let main = &reports.main;
    let policies = [0].into_iter().chain(positions(main, &RIVALS));
    let policies: Vec<usize> = policies.collect();
    let mut header = vec!["", "published: before", "published: after"];
    header.extend(policies.iter().map(|&policy| main.label(policy)));
    let ours = |measure: &Measure| -> Vec<String> {
        policies.iter().map(|&policy| estimate_text(measure, main.estimate(measure, policy))).collect()
    };
    let row = |row: &Row| {
        let mut cells: Vec<String> = [row.name, row.text[0], row.text[1]].map(str::to_owned).to_vec();
        cells.extend(ours(&row.measure));
        cells
    };
    let more = [measures::RESERVED, measures::ATOMIC_FAILED].map(|measure| {
        let mut cells = vec![measure.about.to_owned(), ABSENT.to_owned(), ABSENT.to_owned()];
        cells.extend(ours(&measure));
        cells
    });
    table(&header, ROWS.iter().map(row).chain(more))
}

/// How the rivals stand against policy A.
fn differences(reports: &Reports) -> String {
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
    table(&["measure", "policy", "is", "difference", "verdict"], rows)
}

/// Requests of order 1 to 3, and failures, in each fleet that has any; the others in a sentence.
fn failures(reports: &Reports) -> String {
    let header = ["fleet", "policy", "requests of order 1-3", "failed", "in a million", "of order 4 and above"];
    let of = |report: &FleetReport| [0].into_iter().chain(positions(report, &RIVALS)).collect::<Vec<_>>();
    let all = |report: &FleetReport, measure: &Measure| -> f64 {
        of(report).into_iter().map(|policy| sentences::sum(report, measure, policy)).sum()
    };
    let (some, none): (Vec<_>, Vec<_>) =
        sentences::fleets(reports).into_iter().partition(|(_, report)| all(report, &measures::ATOMIC_FAILED) > 0.0);
    let rows = some.iter().flat_map(|(name, report)| {
        let row = move |policy: usize| {
            let sum = |measure: &Measure| sentences::sum(report, measure, policy);
            let (made, failed) = (sum(&measures::ATOMIC), sum(&measures::ATOMIC_FAILED));
            let per_million = if made > 0.0 { number::decimal(failed / made * 1e6) } else { ABSENT.to_owned() };
            vec![
                name.clone(),
                code(report.label(policy)),
                measures::ATOMIC.text(made),
                measures::ATOMIC_FAILED.text(failed),
                per_million,
                measures::ATOMIC_COSTLY.text(sum(&measures::ATOMIC_COSTLY)),
            ]
        };
        of(report).into_iter().map(row).collect::<Vec<_>>()
    });
    let made: f64 = none.iter().map(|(_, report)| all(report, &measures::ATOMIC)).sum();
    let others =
        format!("In the other {} fleets none fails, of {}, under any policy.", none.len(), measures::ATOMIC.text(made));
    if some.is_empty() { others } else { format!("{}\n\n{others}", table(&header, rows)) }
}

/// Who served, and who reserved.
fn served(reports: &Reports) -> String {
    let main = &reports.main;
    let from = [measures::FROM_LIST, measures::FROM_RESERVE, measures::FROM_ORDINARY];
    let header =
        ["policy", "requests", "from a CPU's list", "from the reserve", "from an ordinary block", "joined", "left"];
    let row = |policy: usize| {
        let sums = from.map(|measure| sentences::sum(main, &measure, policy));
        let all: f64 = sums.iter().sum();
        let share = |part: f64| if all > 0.0 { number::percent(part / all) } else { ABSENT.to_owned() };
        let mut cells = vec![code(main.label(policy)), measures::FROM_LIST.text(all)];
        cells.extend(sums.map(share));
        cells.extend([measures::RESERVES, measures::UNRESERVES].map(|m| m.text(sentences::sum(main, &m, policy))));
        cells
    };
    table(&header, [0].into_iter().chain(positions(main, &RIVALS)).map(row))
}

/// The reserve at each look.
fn growth(reports: &Reports) -> String {
    let main = &reports.main;
    let Some(looks) = main.results.first().map(|host| host[0].reserved_pages.len()) else { return String::new() };
    let minutes = main.results[0][0].minutes();
    let heads: Vec<String> =
        (0..looks).map(|look| format!("{:.1} min", minutes * look as f64 / (looks.max(2) - 1) as f64)).collect();
    let mut header = vec!["policy"];
    header.extend(heads.iter().map(String::as_str));
    let row = |policy: usize| {
        let mut cells = vec![code(main.label(policy))];
        cells.extend((0..looks).map(|look| measures::RESERVED.text(sentences::reserved_at(main, policy, look))));
        cells
    };
    table(&header, [0].into_iter().chain(positions(main, &RIVALS)).map(row))
}

/// Single mechanisms of a fleet, switched.
fn switches(fleet: &FleetReport) -> String {
    let shown = sentences::EFFECTS;
    let mut header = vec!["policy".to_owned()];
    for measure in &shown {
        header.extend([measure.about.to_owned(), "against `linux-6.12`".to_owned()]);
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let row = |policy: usize| {
        let mut cells = vec![code(fleet.label(policy))];
        for measure in &shown {
            let judged = fleet.judge(measure, policy).filter(|_| policy > 0);
            cells.push(estimate_text(measure, fleet.estimate(measure, policy)));
            cells.push(judged.map_or(String::new(), |_| both(measure, judged.as_ref())));
        }
        cells
    };
    let policies = [0].into_iter().chain(positions(fleet, &SWITCHES)).chain(positions(fleet, &[SKIP]));
    table(&header, policies.map(row))
}

/// The small fleets.
fn sweep(reports: &Reports) -> String {
    let shown =
        [measures::THP_SUCCESS, measures::COMPACTION_SUCCESS, measures::KSWAPD_SCANNED, measures::ATOMIC_FAILED];
    let header = [
        "respect",
        "hosts",
        "policy",
        "reserved",
        "joined / left",
        "THP success",
        "compaction success",
        "scanned by kswapd a minute",
        "failed, order 1-3",
    ];
    let rows = reports.points.iter().flat_map(|(point, report)| {
        let policies: Vec<usize> = [0].into_iter().chain(positions(report, &RIVALS)).collect();
        let row = |policy: usize| {
            let mut cells = vec![point.respect.to_owned(), point.value.to_owned(), code(report.label(policy))];
            cells.push(estimate_text(&measures::RESERVED_SHARE, report.estimate(&measures::RESERVED_SHARE, policy)));
            let moves = [measures::RESERVES, measures::UNRESERVES].map(|m| m.text(sentences::sum(report, &m, policy)));
            cells.push(moves.join(" / "));
            cells.extend(shown.iter().map(|measure| match policy {
                0 => estimate_text(measure, report.estimate(measure, 0)),
                _ => both(measure, report.judge(measure, policy).as_ref()),
            }));
            cells
        };
        policies.into_iter().map(row).collect::<Vec<_>>()
    });
    table(&header, rows)
}

/// How to have all of this again.
fn recipe(reports: &Reports) -> String {
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
    let others = sentences::fleets(reports).into_iter().skip(1);
    rows.push(vec!["main".to_owned(), format!("`freehold fleet {PLAN} {}`", first.join(" "))]);
    rows.extend(others.map(|(name, report)| {
        let differs: Vec<String> = settings(report).into_iter().filter(|setting| !first.contains(setting)).collect();
        let as_main =
            if differs.is_empty() { "as main".to_owned() } else { format!("as main, with `{}`", differs.join(" ")) };
        vec![name, as_main]
    }));
    table(&["what", "value"], rows.into_iter())
}

/// What the command of a fleet sets, option by option.
fn settings(report: &FleetReport) -> Vec<String> {
    let changes = report.fleet.plan.changes.iter().map(|change| format!("--set {change}"));
    [format!("--hosts {}", report.fleet.hosts)].into_iter().chain(changes).collect()
}

/// The positions of these policies, without those that did not take part.
pub fn positions<'r>(report: &'r FleetReport, labels: &'r [&'r str]) -> impl Iterator<Item = usize> + 'r {
    labels.iter().filter_map(|label| report.policy(label))
}

/// A difference with its interval and the verdict.
fn both(measure: &Measure, judged: Option<&HostComparison>) -> String {
    format!("{}, {}", difference(measure, judged), verdict(judged))
}

/// A difference with its interval.
pub fn difference(measure: &Measure, judged: Option<&HostComparison>) -> String {
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

/// Text as it would be typed.
pub fn code(text: &str) -> String {
    format!("`{text}`")
}
