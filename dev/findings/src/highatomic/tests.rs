//! What the document says hangs on what came out: the same words are made from fleets that were made up, each with one
//! answer.

use super::studies::{BACK, PLAN, POINTS, RIVALS, Reports, SKIP, SWITCHES, cells};
use super::{TEMPLATE, answer, parts, region, sentences};
use crate::template;
use freehold_sim::costs::Costs;
use freehold_sim::fleet::Fleet;
use freehold_sim::fleet::host::{Host, HostResult};
use freehold_sim::fleet::report::FleetReport;
use freehold_sim::outcome::vmstat::{Row, Vmstat};
use freehold_sim::plan::{Changes, Plan};

/// Hosts of a fleet that was made up.
const HOSTS: u32 = 8;

/// Counters of each host under a policy, told by its label.
type Counted = fn(&str) -> Vec<Row>;

fn fleet(rivals: &[&str], counted: Counted) -> FleetReport {
    let changes = Changes {
        b: rivals.iter().map(|change| format!("{},{change}", freehold_policies::BASELINE)).collect(),
        ..Changes::default()
    };
    let fleet = Fleet::new(Plan::open(PLAN, &changes).unwrap(), Costs::reference(), HOSTS, 1).unwrap();
    let hosts: Vec<Host> = (1..=HOSTS).map(|number| Host::draw(&fleet.plan, 1, number).unwrap()).collect();
    let result = |policy| HostResult {
        duration_ms: 60_000,
        memory_pages: 1 << 20,
        free_pageblocks: 3,
        reserved_pages: vec![0, 512, 1024],
        vmstat: Vmstat::new(counted(fleet.plan.label(policy))),
    };
    let results = vec![(0..fleet.plan.policies.len()).map(result).collect(); HOSTS as usize];
    FleetReport::new(fleet, hosts, results)
}

fn reports(counted: Counted) -> Reports {
    let all: Vec<&str> = RIVALS.iter().chain(&SWITCHES).copied().collect();
    let points = POINTS.iter().take(2).map(|point| (*point, fleet(&RIVALS, counted))).collect();
    let region = cells().map(|cell| (cell, fleet(&RIVALS, counted))).collect();
    let [short, large] = [fleet(&RIVALS, counted), fleet(&RIVALS, counted)];
    let [main, waiting] = [fleet(&all, counted), fleet(&all, counted)];
    Reports { command: String::new(), main, waiting, region, short, large, points, states: Vec::new() }
}

/// As in production: the reserve at its cap, and little success, until the reserve is gone.
fn as_published(label: &str) -> Vec<Row> {
    if label == SKIP {
        return vec![
            ("nr_reserved_highatomic", 0),
            ("thp_fault_alloc", 60),
            ("thp_fault_fallback", 40),
            ("compact_stall", 100),
            ("compact_success", 30),
            ("pgscan_kswapd", 400),
            ("atomic_order1_3", 1000),
        ];
    }
    vec![
        ("nr_reserved_highatomic", 10_485),
        ("thp_fault_alloc", if label.contains("open") { 32 } else { 4 }),
        ("thp_fault_fallback", if label.contains("open") { 68 } else { 96 }),
        ("compact_stall", 100),
        ("compact_success", 1),
        ("pgscan_kswapd", 1000),
        ("atomic_order1_3", 1000),
        ("highatomic_from_list", 99),
        ("highatomic_from_reserve", 1),
        ("reserves", 50),
    ]
}

/// Giving back spares compactions, and those the ones that succeed.
fn with_a_trade(label: &str) -> Vec<Row> {
    let (had, stalls, succeeded) = if label.contains(BACK) { (60, 10, 0) } else { (20, 100, 50) };
    vec![
        ("thp_fault_alloc", had),
        ("thp_fault_fallback", 100 - had),
        ("compact_stall", stalls),
        ("compact_success", succeeded),
        ("pgscan_kswapd", 1000),
        ("atomic_order1_3", 1000),
    ]
}

/// Nothing hangs on the reserve but failures.
fn as_feared(label: &str) -> Vec<Row> {
    let failed = if label == SKIP { 7 } else { 0 };
    vec![
        ("thp_fault_alloc", 60),
        ("thp_fault_fallback", 40),
        ("compact_stall", 100),
        ("compact_success", 30),
        ("pgscan_kswapd", 400),
        ("atomic_order1_3", 1000),
        ("atomic_order1_3_failed", failed),
    ]
}

#[test]
fn a_production_effect_is_called_shown() {
    let shown = sentences::shown(&reports(as_published));
    assert!(shown.contains("THP success: **shown**. 4.0 % becomes 60.0 % here (better)"), "{shown}");
    assert!(shown.contains("compaction success: **shown**"), "{shown}");
    assert!(shown.contains("a minute: **shown**"), "{shown}");
}

#[test]
fn no_effect_is_called_not_shown() {
    let shown = sentences::shown(&reports(as_feared));
    assert!(shown.contains("THP success: **not shown**. 60.0 % becomes 60.0 % here (no difference)"), "{shown}");
    assert!(!shown.contains("**shown**"), "{shown}");
}

#[test]
fn failures_decide_the_claim() {
    let (none, some) = (reports(as_published), reports(as_feared));
    assert!(sentences::fail(&none).starts_with("Without the reserve no request failed"));
    assert!(sentences::claims(&none).contains("holds here"));
    assert!(sentences::fail(&some).starts_with("Requests failed without the reserve, and none with it"));
    // Eighteen fleets of eight hosts, seven on each.
    let claims = sentences::claims(&some);
    assert!(claims.contains("does not hold here: of 144,000, 1,008 failed"), "{claims}");
}

#[test]
fn without_pressure_nothing_is_claimed() {
    let calm = reports(|_| vec![("atomic_order1_3", 1000)]);
    assert!(sentences::fail(&calm).starts_with("No host came under pressure"));
    assert!(sentences::claims(&calm).contains("was not tested"));
}

#[test]
fn who_serves_is_told_from_who_reserves() {
    let fill = sentences::fill(&reports(as_published));
    assert!(fill.contains("`linux-6.12`: requests hardly meet the reserve: it served 1.0 % of them"), "{fill}");
    assert!(fill.contains("`highatomic=skip-costly`: no request was allowed"), "{fill}");
}

#[test]
fn a_switch_closes_a_part_of_the_distance_if_there_is_one() {
    let steps = sentences::steps(&reports(as_published).main);
    assert!(steps.contains("`reserve.list=open` makes 50.0 % of that (better)"), "{steps}");
    assert!(steps.contains("`reserve.index=apart` makes 0.0 % of that (no difference)"), "{steps}");
    assert!(steps.contains("What all of them together do not make, 50.0 %, is in none of them"), "{steps}");
    let steps = sentences::steps(&reports(as_feared).main);
    assert!(
        steps.contains("taking the reserve away makes no difference, so there is nothing to take apart"),
        "{steps}"
    );
}

#[test]
fn the_answer_hangs_on_what_came_out() {
    let found = answer::all(&reports(as_published));
    assert!(
        found.contains("in 12 (most at age 90, 100 % wait: 4.0 % → 60.0 %) of 12 fleets")
            && found.contains("gained in 12 of them."),
        "{found}"
    );
    assert!(
        found.contains("Without costing atomic requests, huge pages are gained by `highatomic=skip-costly`."),
        "{found}"
    );
    let found = answer::all(&reports(as_feared));
    assert!(
        found.contains("without the reserve in none of 12 fleets")
            && found.contains("fail without the reserve in the region too"),
        "{found}"
    );
    assert!(found.contains("Of no policy of this page is it shown"), "{found}");
}

#[test]
fn published_hosts_are_marked_where_hosts_are_like_them() {
    let map = region::map(&reports(as_published));
    assert!(map.contains("huge pages 4.0 % (●) → 60.0 % (○): better"), "{map}");
    let map = region::map(&reports(as_feared));
    assert!(map.contains("0.0 % of memory reserved; huge pages 60.0 % → 60.0 %: no difference"), "{map}");
}

#[test]
fn giving_back_is_judged_by_what_it_brings() {
    assert!(sentences::back(&reports(as_published)).starts_with("It changes nothing here"));
    let said = sentences::back(&reports(with_a_trade));
    assert!(said.starts_with("It is better in THP faults that got a huge page and worse in direct comp"), "{said}");
    assert!(said.contains("one of fewer compactions (-720 a minute on all hosts)"), "{said}");
}

#[test]
fn every_part_can_be_made() {
    let reports = reports(as_published);
    for part in template::parts(TEMPLATE) {
        let made = parts::make(&part.name, &reports);
        assert!(made.is_some_and(|text| !text.is_empty()), "{part:?}");
    }
}
