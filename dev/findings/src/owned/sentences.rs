//! Sentences about one plan: how far, by how much, and in whose favour. Every number in them comes from runs.

use freehold_report::number;
use freehold_stats::verdict::Verdict;

use crate::markup::list;
use freehold_sim::report::SimReport;
use freehold_sim::report::measures::{self, Measure};

/// How waiting and throughput grow from the fewest CPUs to the most, a policy a line.
pub fn growth(report: &SimReport, point: usize) -> String {
    let cpus = &report.plan.cpus;
    let (&few, &many) = (cpus.first().expect("a plan has CPUs"), cpus.last().expect("a plan has CPUs"));
    list((0..report.plan.policies.len()).map(|policy| {
        let of = |measure: &Measure, cpus| median(report, measure, point, cpus, policy);
        let waits = |cpus| measures::ZONE_WAIT.text(of(&measures::ZONE_WAIT, cpus));
        let times = of(&measures::THROUGHPUT, many) / of(&measures::THROUGHPUT, few);
        format!(
            "`{}`: from {} to {} the share of CPU time spent waiting for a zone lock goes from {} to {}; {} times the CPUs \
             do {} times the work.{}",
            report.plan.policies[policy].name,
            cpus_text(few),
            cpus_text(many),
            waits(few),
            waits(many),
            f64::from(many) / f64::from(few),
            number::decimal(times),
            knee(report, point, policy),
        )
    }))
}

/// Where waiting begins to take a tenth of the time.
fn knee(report: &SimReport, point: usize, policy: usize) -> String {
    const SHARE: f64 = 0.1;
    let waits = |&&cpus: &&u16| median(report, &measures::ZONE_WAIT, point, cpus, policy) >= SHARE;
    match report.plan.cpus.iter().find(waits) {
        Some(&cpus) => format!(" At {} it first takes more than a tenth.", cpus_text(cpus)),
        None => " It never takes a tenth.".to_owned(),
    }
}

/// Who leads policy A by how much, where there are most CPUs and in the middle.
pub fn lead(report: &SimReport, point: usize) -> String {
    list((1..report.plan.policies.len()).map(|policy| {
        let at = |&cpus: &u16| {
            let judged = report.judge(&measures::THROUGHPUT, point, cpus, policy)?;
            let word = match judged.verdict {
                Verdict::NoDifference => "no difference".to_owned(),
                verdict => format!("{}, {}", number::change(judged.change), verdict.word()),
            };
            Some(format!("{} on {cpus}", word))
        };
        let each: Vec<String> = report.plan.cpus.iter().filter_map(at).collect();
        format!(
            "`{}` against `{}`, throughput by CPUs: {}.",
            report.label(policy),
            report.plan.policies[0].name,
            each.join("; ")
        )
    }))
}

/// Where the time goes that a policy saves against policy A, in points of CPU time, where there are 32 CPUs.
pub fn savings(report: &SimReport, point: usize) -> String {
    let cpus = nearest(&report.plan.cpus, 32);
    list((1..report.plan.policies.len()).map(|policy| {
        let per_operation = |measure: &Measure, policy| per_operation(report, measure, point, cpus, policy);
        let saved = |measure: &Measure| per_operation(measure, 0) - per_operation(measure, policy);
        let parts = [
            ("waiting for zone locks", measures::ZONE_WAIT),
            ("holding them", measures::HOLD),
            ("per-CPU lists' locks", measures::LIST_WAIT),
            ("cutting and merging on lists", measures::LISTS),
            ("stacks", measures::STACKS),
            ("the operations themselves, with the lines that move", measures::OPERATIONS),
            ("reclaim", measures::RECLAIM),
        ];
        let parts = parts.map(|(words, measure)| format!("{words} {}", signed(saved(&measure))));
        let (was, is) = (per_operation(&measures::ALLOCATOR, 0), per_operation(&measures::ALLOCATOR, policy));
        format!(
            "`{}` on {}: an operation takes {} ns in the allocator instead of {} ({}). Saved, in ns an operation: {}.",
            report.label(policy),
            cpus_text(cpus),
            number::decimal(is),
            number::decimal(was),
            number::change(freehold_stats::verdict::relative_change(was, is)),
            parts.join(", "),
        )
    }))
}

/// Nanoseconds that an operation takes of what this is the share of. Not a share: a policy that does more in the same
/// time must not look dearer.
pub fn per_operation(report: &SimReport, measure: &Measure, point: usize, cpus: u16, policy: usize) -> f64 {
    let share = median(report, measure, point, cpus, policy);
    share * f64::from(cpus) * 1e9 / median(report, &measures::THROUGHPUT, point, cpus, policy)
}

/// Of these numbers, the nearest to another.
pub fn nearest(cpus: &[u16], to: u16) -> u16 {
    cpus.iter().copied().min_by_key(|cpus| cpus.abs_diff(to)).unwrap_or(to)
}

/// The median over the seeds.
pub fn median(report: &SimReport, measure: &Measure, point: usize, cpus: u16, policy: usize) -> f64 {
    report.spread(measure, point, cpus, policy).map_or(f64::NAN, |spread| spread.median)
}

fn signed(number: f64) -> String {
    format!("{number:+.1}")
}

fn cpus_text(cpus: u16) -> String {
    if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") }
}
