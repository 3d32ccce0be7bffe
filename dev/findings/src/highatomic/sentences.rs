//! Sentences of the document whose words hang on what came out. None takes a side before the numbers do.

use freehold_report::number::{self, ABSENT};
use freehold_stats::intervals;
use freehold_stats::verdict::Direction;
use freehold_stats::verdict::Verdict;

use crate::markup::list;

use super::parts::{code, difference, positions};
use super::published::{ROWS, Row};
use super::studies::{BACK, Point, REUSE, RIVALS, Reports, SKIP, SWITCHES};
use freehold_sim::fleet::judge::HostComparison;
use freehold_sim::fleet::measures::{self, Measure};
use freehold_sim::fleet::report::FleetReport;
use freehold_sim::measure::Unit;
use freehold_sim::report::judge::MARGIN;

/// What production showed to hang on the reserve.
pub const EFFECTS: [Measure; 3] = [measures::THP_SUCCESS, measures::COMPACTION_SUCCESS, measures::KSWAPD_SCANNED];
/// A request that was served from the reserve less often than this hardly meets it.
const SELDOM: f64 = 0.05;

/// A measure on all hosts together.
pub fn sum(report: &FleetReport, measure: &Measure, policy: usize) -> f64 {
    report.values(measure, policy).into_iter().flatten().sum()
}

/// The reserve at a look, in pageblocks: the median over the hosts.
pub fn reserved_at(report: &FleetReport, policy: usize, look: usize) -> f64 {
    let at = |host: &Vec<freehold_sim::fleet::host::HostResult>| host[policy].reserved_pages.get(look).copied();
    let mut blocks: Vec<f64> =
        report.results.iter().filter_map(at).map(|pages| pages as f64 / measures::PAGEBLOCK_PAGES).collect();
    if blocks.is_empty() { 0.0 } else { intervals::median(&mut blocks) }
}

/// Every fleet by a name.
pub fn fleets(reports: &Reports) -> Vec<(String, &FleetReport)> {
    let name = |point: &Point| match point.value {
        "-" => format!("small, {}", point.respect),
        value => format!("small, {}: {value}", point.respect),
    };
    let region = reports.region.iter().map(|(cell, report)| (cell.to_string(), report));
    let small = reports.points.iter().map(|(point, report)| (name(point), report));
    let single = [
        ("main", &reports.main),
        ("where all wait", &reports.waiting),
        ("short of memory", &reports.short),
        ("64 GiB", &reports.large),
    ];
    single.map(|(name, report)| (name.to_owned(), report)).into_iter().chain(region).chain(small).collect()
}

/// Whether each row of the published table is seen here, and how much of it.
pub fn shown(reports: &Reports) -> String {
    let Some(policy) = reports.main.policy(SKIP) else { return String::new() };
    list(ROWS.iter().map(|row| format!("{}: {}", row.name, shown_row(&reports.main, policy, row))))
}

fn shown_row(main: &FleetReport, policy: usize, row: &Row) -> String {
    let measure = &row.measure;
    let (Some(judged), Some(a), Some(b)) =
        (main.judge(measure, policy), main.estimate(measure, 0), main.estimate(measure, policy))
    else {
        return "**cannot be told**, since no host has attempted any under both policies.".to_owned();
    };
    let here = format!("{} becomes {} here ({})", measure.text(a.value), measure.text(b.value), judged.verdict.word());
    if measure.direction == Direction::Neutral {
        return format!("{here}; nobody asks for so much at once, there or here.");
    }
    match judged.verdict {
        Verdict::Better if is_as_large(row, a.value, b.value, &judged) => format!("**shown**. {here}."),
        Verdict::Better => format!("**shown in direction, and not in size**. {here}; published {}.", size_text(row)),
        Verdict::Worse => format!("**the opposite**. {here}."),
        Verdict::Undecided => format!("**not decided**, it takes more hosts. {here}."),
        _ => format!("**not shown**. {here}."),
    }
}

/// Whether what is seen here reaches the smallest change that was published: in points of a share that rose, else as a
/// part of what was there before.
fn is_as_large(row: &Row, a: f64, b: f64, judged: &HostComparison) -> bool {
    let rises = row.measure.unit == Unit::Share && row.measure.direction == Direction::Higher;
    if rises {
        return judged.difference.value >= row.least_points();
    }
    row.ratio().is_some_and(|ratio| a > 0.0 && b / a <= ratio.max(0.1))
}

fn size_text(row: &Row) -> String {
    if row.measure.unit == Unit::Share && row.measure.direction == Direction::Higher {
        format!("at least {:.0} points", row.least_points() * 100.0)
    } else {
        row.ratio().map_or(String::new(), |ratio| format!("{:.0} % of what it was", ratio * 100.0))
    }
}

/// Whether requests fail without a reserve, over all fleets.
pub fn fail(reports: &Reports) -> String {
    let over_all = |label: Option<&str>| {
        let of = |(_, report): &(String, &FleetReport)| {
            let policy = label.map_or(Some(0), |label| report.policy(label))?;
            Some((sum(report, &measures::ATOMIC, policy), sum(report, &measures::ATOMIC_FAILED, policy)))
        };
        fleets(reports).iter().filter_map(of).fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1))
    };
    let line = |label: Option<&str>| {
        let (made, failed) = over_all(label);
        let name = label.unwrap_or("linux-6.12");
        let share = if made > 0.0 { failed / made * 1e6 } else { 0.0 };
        let numbers = format!("{} of {}", measures::ATOMIC_FAILED.text(failed), measures::ATOMIC.text(made));
        format!("{}: {numbers} failed, {} in a million.", code(name), number::decimal(share))
    };
    let (with, without) = (over_all(None).1, over_all(Some(SKIP)).1);
    let verdict = match (with, without) {
        _ if !is_pressed(reports) => "No host came under pressure, so this says nothing.",
        (_, 0.0) => "Without the reserve no request failed, however hard hosts were pressed here.",
        (0.0, _) => "Requests failed without the reserve, and none with it.",
        (with, without) if without > with => "More requests failed without the reserve than with it.",
        _ => "Requests failed without the reserve, but no more than with it.",
    };
    format!("{verdict}\n\n{}", list([None].into_iter().chain(RIVALS.map(Some)).map(line)))
}

/// What the fleet that runs out of memory shows: how many requests fail under each policy, and who is worse.
pub fn short(reports: &Reports) -> String {
    let report = &reports.short;
    let line = |policy: usize| {
        let of = |measure: &Measure| measure.text(sum(report, measure, policy));
        let judged = report.judge(&measures::ATOMIC_FAILED, policy).filter(|_| policy > 0);
        let told = judged.map_or_else(String::new, |judged| {
            format!(" ({}, {})", difference(&measures::ATOMIC_FAILED, Some(&judged)), judged.verdict.word())
        });
        format!(
            "{}: {} of {} fail{told}.",
            code(report.label(policy)),
            of(&measures::ATOMIC_FAILED),
            of(&measures::ATOMIC)
        )
    };
    list([0].into_iter().chain(positions(report, &RIVALS)).map(line))
}

/// Whether anything was reclaimed on any host.
fn is_pressed(reports: &Reports) -> bool {
    fleets(reports).iter().any(|(_, report)| sum(report, &measures::KSWAPD_SCANNED, 0) > 0.0)
}

/// Why the reserve fills.
pub fn fill(reports: &Reports) -> String {
    let main = &reports.main;
    let line = |policy: usize| {
        let of = |measure: &Measure| sum(main, measure, policy);
        let (kept, reserve) = (of(&measures::FROM_LIST) + of(&measures::FROM_ORDINARY), of(&measures::FROM_RESERVE));
        let all = kept + reserve;
        let joined = of(&measures::RESERVES);
        if all == 0.0 {
            return format!("{}: no request was allowed to use the reserve.", code(main.label(policy)));
        }
        let met = match reserve / all {
            share if share < SELDOM => "hardly meet the reserve",
            share if share < 1.0 - SELDOM => "meet the reserve in part",
            _ => "nearly all meet the reserve",
        };
        let end = main.estimate(&measures::RESERVED, policy).map_or(0.0, |estimate| estimate.value);
        let each = if joined > 0.0 {
            format!(", one for each {} requests,", measures::ATOMIC.text((all / joined).round()))
        } else {
            String::new()
        };
        format!(
            "{}: requests {met}: it served {} of them; {} pageblocks joined it{each} and {} left. A host ends with {}.",
            code(main.label(policy)),
            number::percent(reserve / all),
            measures::RESERVES.text(joined),
            measures::UNRESERVES.text(of(&measures::UNRESERVES)),
            measures::RESERVED.text(end),
        )
    };
    list([0].into_iter().chain(positions(main, &RIVALS)).map(line))
}

/// How much of what taking the reserve away changes each switch changes by itself, and where free memory lies.
pub fn steps(fleet: &FleetReport) -> String {
    let Some(skip) = fleet.policy(SKIP) else { return String::new() };
    let effects = EFFECTS.iter().map(|measure| step(fleet, skip, measure));
    list(effects.chain([where_it_lies(fleet, skip)]))
}

fn step(fleet: &FleetReport, skip: usize, measure: &Measure) -> String {
    let about = measure.about;
    let Some(whole) = fleet.judge(measure, skip) else { return format!("{about}: there was nothing to measure.") };
    match whole.verdict {
        Verdict::Better | Verdict::Worse => {}
        Verdict::NoDifference | Verdict::Neither => {
            return format!("{about}: taking the reserve away makes no difference, so there is nothing to take apart.");
        }
        Verdict::Undecided => {
            let so_far = difference(measure, Some(&whole));
            return format!("{about}: whether taking the reserve away matters takes more hosts to decide ({so_far}).");
        }
    }
    let part = |policy: usize| {
        let judged = fleet.judge(measure, policy)?;
        let share = number::percent(judged.difference.value / whole.difference.value);
        Some(format!("{} makes {share} of that ({})", code(fleet.label(policy)), judged.verdict.word()))
    };
    let parts: Vec<String> = positions(fleet, &SWITCHES).filter_map(part).collect();
    let brings = difference(measure, Some(&whole));
    let joint = positions(fleet, &SWITCHES).last().and_then(|policy| fleet.judge(measure, policy));
    let left = joint.map_or(0.0, |joint| 1.0 - joint.difference.value / whole.difference.value);
    let rest = match left {
        ..MARGIN => String::new(),
        left => format!(
            " What all of them together do not make, {}, is in none of them: no switch stops pageblocks from joining \
             the reserve and leaving it.",
            number::percent(left)
        ),
    };
    format!("{about}: taking the reserve away brings {brings}, {}. {}.{rest}", whole.verdict.word(), parts.join(", "))
}

/// Where free memory lies at the end.
fn where_it_lies(fleet: &FleetReport, skip: usize) -> String {
    let of = |measure: &Measure, policy| {
        fleet.estimate(measure, policy).map_or(ABSENT.to_owned(), |estimate| measure.text(estimate.value))
    };
    format!(
        "Where free memory lies: under `linux-6.12`, {} of a host's free memory is in the reserve at the end, and {} of its \
         pageblocks are free as a whole; without the reserve {} are.",
        of(&measures::FREE_IN_RESERVE, 0),
        of(&measures::FREE_BLOCKS, 0),
        of(&measures::FREE_BLOCKS, skip),
    )
}

/// Where in the sweep the reserve matters.
pub fn elsewhere(reports: &Reports) -> String {
    list(EFFECTS.iter().map(|measure| {
        let found = |wanted: Verdict| {
            let is_wanted = |(_, report): &&(Point, FleetReport)| {
                let policy = report.policy(SKIP);
                policy.and_then(|policy| report.judge(measure, policy)).is_some_and(|judged| judged.verdict == wanted)
            };
            let names = reports.points.iter().filter(is_wanted).map(|(point, _)| match point.value {
                "-" => point.respect.to_owned(),
                value => format!("{}: {value}", point.respect),
            });
            names.collect::<Vec<_>>()
        };
        let told = |word: &str, names: Vec<String>| match names.len() {
            0 => format!("{word} nowhere"),
            count => format!("{word} in {count} ({})", names.join("; ")),
        };
        format!(
            "{}, of {} fleets without the reserve: {}, {}, no difference in {}, and it takes more hosts in {}.",
            measure.about,
            reports.points.len(),
            told("better", found(Verdict::Better)),
            told("worse", found(Verdict::Worse)),
            found(Verdict::NoDifference).len(),
            found(Verdict::Undecided).len(),
        )
    }))
}

/// Whether giving back is worth it.
pub fn back(reports: &Reports) -> String {
    let main = &reports.main;
    let (Some(back), Some(skip)) = (main.policy(BACK), main.policy(SKIP)) else { return String::new() };
    let of = |policy: usize| {
        let said = |measure: &Measure| {
            let judged = main.judge(measure, policy)?;
            Some(format!("{} {} ({})", measure.about, difference(measure, Some(&judged)), judged.verdict.word()))
        };
        let watched = [measures::RESERVED].into_iter().chain(EFFECTS).chain([measures::ATOMIC_FAILED]);
        let said: Vec<String> = watched.filter_map(|measure| said(&measure)).collect();
        format!("{} against `linux-6.12`: {}.", code(main.label(policy)), said.join("; "))
    };
    let verdict_of = |measure: &Measure, policy| main.judge(measure, policy).map(|judged| judged.verdict);
    let fewer = verdict_of(&measures::RESERVED, back) == Some(Verdict::Better);
    let told = |wanted: Verdict| -> Vec<&str> {
        let watched = EFFECTS.iter().chain([&measures::ATOMIC_FAILED]);
        watched.filter(|measure| verdict_of(measure, back) == Some(wanted)).map(|measure| measure.about).collect()
    };
    let (better, worse) = (told(Verdict::Better), told(Verdict::Worse));
    let is_open = EFFECTS.iter().chain([&measures::RESERVED]).any(|m| verdict_of(m, back) == Some(Verdict::Undecided));
    let verdict = match (fewer, better.is_empty(), worse.is_empty()) {
        (_, false, false) => {
            let trade = format!("It is better in {} and worse in {}.", better.join(" and "), worse.join(" and "));
            trade + &fewer_compactions(main, back)
        }
        (_, true, false) => format!("It makes {} worse here, so it is not worth it.", worse.join(" and ")),
        (_, false, true) => "It helps here, and harms nothing that was measured.".to_owned(),
        (true, true, true) => {
            "It keeps the reserve smaller and harms nothing that was measured; but nothing else gets \
                               better here by it."
                .to_owned()
        }
        (false, true, true) if is_open => "Nothing is decided about it here: it takes more hosts.".to_owned(),
        (false, true, true) => "It changes nothing here that was measured.".to_owned(),
    };
    let moved = |policy| {
        let moves = [measures::RESERVES, measures::UNRESERVES].map(|measure| measure.text(sum(main, &measure, policy)));
        format!("{}: {} pageblocks joined the reserve and {} left it.", code(main.label(policy)), moves[0], moves[1])
    };
    format!("{verdict}\n\n{}", list([of(back), of(skip), moved(0), moved(back)]))
}

/// What a share of compactions that succeeded is worth, if fewer are tried.
fn fewer_compactions(fleet: &FleetReport, policy: usize) -> String {
    let is = |measure: &Measure, verdict| fleet.judge(measure, policy).filter(|judged| judged.verdict == verdict);
    let share = is(&measures::COMPACTION_SUCCESS, Verdict::Worse);
    match share.and(is(&measures::COMPACT_STALLS, Verdict::Better)) {
        None => String::new(),
        fewer => format!(
            " The share that succeeds is one of fewer compactions ({} a minute on all hosts).",
            difference(&measures::COMPACT_STALLS, fewer.as_ref())
        ),
    }
}

/// The claims that can be tested by counting.
pub fn claims(reports: &Reports) -> String {
    let mut made = 0.0;
    let mut failed = 0.0;
    for (_, report) in fleets(reports) {
        if let Some(policy) = report.policy(SKIP) {
            made += sum(report, &measures::ATOMIC, policy);
            failed += sum(report, &measures::ATOMIC_FAILED, policy);
        }
    }
    let verdict = match failed {
        _ if !is_pressed(reports) => "was not tested, since no host came under pressure",
        0.0 => "holds here",
        _ => "does not hold here",
    };
    let short = |policy: Option<usize>| {
        measures::ATOMIC_FAILED.text(sum(&reports.short, &measures::ATOMIC_FAILED, policy.unwrap_or_default()))
    };
    format!(
        "That no request of order 1 to 3 fails without the reserve {verdict}: of {}, {} failed, {} of them where memory \
         runs out. There, {} failed with the reserve as it is, and {} when it is used first.",
        measures::ATOMIC.text(made),
        measures::ATOMIC_FAILED.text(failed),
        short(reports.short.policy(SKIP)),
        short(None),
        short(reports.short.policy(REUSE)),
    )
}
