//! Test cases: an instruction, an interference there, and the check of the final state.

use std::fmt;

use freehold::base::CpuId;
use freehold_malloc::os::rseq::Rseq;

use crate::between::Between;
use crate::code::{Section, instructions, sections};
use crate::common::machine::{cpus, run_on};
use crate::common::skip_message::left_out;
use crate::helper::Helper;
use crate::probes::Play;
use crate::trap::{self, arm, meet};

/// Violations after which no more cases are tried.
const KEPT: usize = 10;

/// State that all cases share.
pub(crate) struct Setting {
    pub rseq: Rseq,
    /// CPU on which operations begin.
    pub home: CpuId,
    /// Another CPU, if there is one.
    pub away: Option<CpuId>,
    pub helper: Helper,
}

impl Setting {
    /// Prepares the process and the calling thread, and runs a test.
    pub(crate) fn with(rseq: Rseq, test: impl FnOnce(&Setting)) {
        let cpus = cpus();
        let away = cpus.get(1).copied();
        if away.is_none() {
            left_out("what takes a second CPU");
        }
        trap::install();
        let setting = Setting { rseq, home: cpus[0], away, helper: Helper::start() };
        test(&setting);
    }

    /// Returns one more than the highest number of the two CPUs.
    pub(crate) fn cpu_count(&self) -> u16 {
        self.home.0.max(self.away.map_or(0, |away| away.0)) + 1
    }

    /// Returns both CPUs.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = CpuId> {
        [Some(self.home), self.away].into_iter().flatten()
    }

    /// Returns whether there are two CPUs.
    pub(crate) fn has_two_cpus(&self) -> bool {
        self.away.is_some()
    }

    fn can(&self, between: Between) -> bool {
        self.has_two_cpus() || !between.needs_two_cpus()
    }
}

/// Number of tried cases, and their violations.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Cases in which every breakpoint was reached.
    pub cases: usize,
    /// Sections that the kernel restarted at a breakpoint.
    pub restarts: usize,
    /// The first few violations: objects that were lost, or in two places.
    pub violations: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cases, {} restarts, {} violations", self.cases, self.restarts, self.violations.len())
    }
}

/// Tries each interference at each instruction, and each pair of interferences at one instruction.
pub(crate) fn once_and_twice(setting: &Setting, play: &dyn Play, report: &mut Report) {
    once_with(setting, play, play.betweens(), report);
    let code = Code::new(setting, play);
    for &place in &code.places {
        for &between in play.betweens() {
            for &again in play.betweens() {
                code.try_case(setting, play, &[(place, between), (place, again)], report);
            }
        }
    }
}

/// Tries each of `betweens` once at each instruction.
pub(crate) fn once_with(setting: &Setting, play: &dyn Play, betweens: &[Between], report: &mut Report) {
    let code = Code::new(setting, play);
    for &place in &code.places {
        for &between in betweens {
            code.try_case(setting, play, &[(place, between)], report);
        }
    }
}

/// Tries each of `betweens` twice in succession at each instruction.
pub(crate) fn twice_the_same(setting: &Setting, play: &dyn Play, betweens: &[Between], report: &mut Report) {
    let code = Code::new(setting, play);
    for &place in &code.places {
        for &between in betweens {
            code.try_case(setting, play, &[(place, between), (place, between)], report);
        }
    }
}

/// Tries pairs of interferences at each pair of two different instructions.
pub(crate) fn two_places(setting: &Setting, play: &dyn Play, report: &mut Report) {
    let code = Code::new(setting, play);
    for &first in &code.find_reached(setting, play) {
        for &second in code.places.iter().filter(|&&second| second != first) {
            for before in Between::PAIRED_UP {
                for after in Between::PAIRED_UP {
                    code.try_case(setting, play, &[(first, before), (second, after)], report);
                }
            }
        }
    }
}

/// Code of a function under test.
pub(crate) struct Code {
    places: Vec<usize>,
    sections: Vec<Section>,
    area: *mut u8,
}

impl Code {
    /// Finds the function's instructions, and makes them ready for breakpoints.
    pub(crate) fn new(setting: &Setting, play: &dyn Play) -> Code {
        let through = instructions(&[play.entry()]);
        let sections: Vec<Section> = sections().filter(|section| through.contains(&section.start)).collect();
        let mut roots = vec![play.entry()];
        roots.extend(sections.iter().map(|section| section.restart));
        let places = instructions(&roots);
        trap::open(&places);
        Code { places, sections, area: trap::area(setting.rseq.area()) }
    }

    /// Returns the instructions that are executed without interference, in order of address.
    pub(crate) fn find_reached(&self, setting: &Setting, play: &dyn Play) -> Vec<usize> {
        let mut reached = Vec::new();
        for &place in &self.places {
            if self.sections.iter().any(|section| section.restart == place) {
                continue;
            }
            let mut report = Report::default();
            self.try_case(setting, play, &[(place, Between::Nothing)], &mut report);
            if report.cases == 1 {
                reached.push(place);
            }
        }
        reached
    }

    /// Returns whether the code contains sections.
    pub(crate) fn has_sections(&self) -> bool {
        !self.sections.is_empty()
    }

    /// Returns whether an instruction belongs to a section.
    pub(crate) fn is_in_a_section(&self, place: usize) -> bool {
        self.section_around(place).is_some()
    }

    fn section_around(&self, place: usize) -> Option<&Section> {
        self.sections.iter().find(|section| section.contains(place))
    }

    fn try_case(&self, setting: &Setting, play: &dyn Play, steps: &[(usize, Between)], report: &mut Report) {
        let is_known_enough = report.violations.len() == KEPT;
        if is_known_enough || !steps.iter().all(|&(_, between)| setting.can(between)) {
            return;
        }
        run_on(setting.home);
        let act = play.begin(setting);
        let places: Vec<usize> = steps.iter().map(|&(place, _)| place).collect();
        let met = meet(
            &places,
            &|number| act.interfere(steps[number].1),
            &|place| self.section_around(place).map_or((), |section| arm(self.area, section.descriptor)),
            || act.perform(),
        );
        steps.iter().for_each(|&(_, between)| act.finish(between));
        report.cases += usize::from(met.hits == steps.len());
        report.restarts += met.restarts;
        if let Err(why) = act.census() {
            let at: Vec<_> = steps
                .iter()
                .map(|(place, between)| (place.wrapping_sub(play.entry()).cast_signed(), between))
                .collect();
            report.violations.push(format!("{}: {why}, after {at:x?}", play.name()));
        }
    }
}
