//! Every case: which instruction, what comes between, and what is there in the end.

use std::fmt;

use freehold::base::CpuId;
use freehold_malloc::os::rseq::Rseq;

use crate::between::Between;
use crate::code::instructions;
use crate::common::machine::{cpus, run_on};
use crate::helper::Helper;
use crate::probes::Play;
use crate::trap::{self, arm, descriptor, meet};

/// Attempts to see a section's descriptor, which the kernel clears whenever it looks.
const GLANCES: usize = 1000;
/// Violations after which no more cases are tried.
const KEPT: usize = 10;

/// What all cases share.
pub struct Setting {
    pub rseq: Rseq,
    /// The CPU on which operations begin.
    pub home: CpuId,
    /// Another one.
    pub away: Option<CpuId>,
    pub helper: Helper,
}

impl Setting {
    /// Prepares the process and the calling thread.
    pub fn with(rseq: Rseq, test: impl FnOnce(&Setting)) {
        let cpus = cpus();
        let away = cpus.get(1).copied();
        if away.is_none() {
            println!("left out: what takes a second CPU");
        }
        trap::install();
        let setting = Setting { rseq, home: cpus[0], away, helper: Helper::start() };
        test(&setting);
    }

    /// One more than the largest number of a CPU.
    pub fn cpu_count(&self) -> u16 {
        self.home.0.max(self.away.map_or(0, |away| away.0)) + 1
    }

    /// Both CPUs.
    pub fn cpus(&self) -> impl Iterator<Item = CpuId> {
        [Some(self.home), self.away].into_iter().flatten()
    }

    /// Whether there are two.
    pub fn has_two_cpus(&self) -> bool {
        self.away.is_some()
    }

    fn can(&self, between: Between) -> bool {
        self.has_two_cpus() || !between.needs_two_cpus()
    }
}

/// What was tried, and what went wrong.
#[derive(Debug, Default)]
pub struct Report {
    /// Cases in which every breakpoint was met.
    pub cases: usize,
    /// Sections that the kernel restarted at a breakpoint.
    pub restarts: usize,
    /// The first few objects that were lost, or in two places.
    pub violations: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cases, {} restarts, {} violations", self.cases, self.restarts, self.violations.len())
    }
}

/// Each interference at each instruction, and at once again.
pub fn once_and_twice(setting: &Setting, play: &dyn Play, report: &mut Report) {
    once_with(setting, play, play.betweens(), report);
    let code = Code::of(setting, play);
    for &place in &code.places {
        for &between in play.betweens() {
            for &again in play.betweens() {
                code.try_case(setting, play, &[(place, between), (place, again)], report);
            }
        }
    }
}

/// Each of these at each instruction.
pub fn once_with(setting: &Setting, play: &dyn Play, betweens: &[Between], report: &mut Report) {
    let code = Code::of(setting, play);
    for &place in &code.places {
        for &between in betweens {
            code.try_case(setting, play, &[(place, between)], report);
        }
    }
}

/// One interference at one instruction, another at another.
pub fn two_places(setting: &Setting, play: &dyn Play, report: &mut Report) {
    let code = Code::of(setting, play);
    let reached: Vec<usize> = code.places.iter().copied().filter(|&place| code.reaches(setting, play, place)).collect();
    for &first in &reached {
        for &second in code.places.iter().filter(|&&second| second != first) {
            for before in Between::PAIRED_UP {
                for after in Between::PAIRED_UP {
                    code.try_case(setting, play, &[(first, before), (second, after)], report);
                }
            }
        }
    }
}

/// The code of a function under test.
struct Code {
    places: Vec<usize>,
    area: *mut u8,
    descriptor: u64,
}

impl Code {
    fn of(setting: &Setting, play: &dyn Play) -> Code {
        let area = trap::area(setting.rseq.area());
        let glance = || {
            run_on(setting.home);
            let act = play.begin(setting);
            arm(area, 0);
            act.perform();
            descriptor(area)
        };
        let descriptor = (0..GLANCES).map(|_| glance()).find(|&descriptor| descriptor != 0).unwrap_or(0);
        let mut roots = vec![play.entry()];
        roots.extend(restart(descriptor));
        let places = instructions(&roots);
        trap::open(&places);
        Code { places, area, descriptor }
    }

    fn reaches(&self, setting: &Setting, play: &dyn Play, place: usize) -> bool {
        let mut report = Report::default();
        self.try_case(setting, play, &[(place, Between::Nothing)], &mut report);
        report.cases == 1
    }

    fn try_case(&self, setting: &Setting, play: &dyn Play, steps: &[(usize, Between)], report: &mut Report) {
        let is_known_enough = report.violations.len() == KEPT;
        if is_known_enough || !steps.iter().all(|&(_, between)| setting.can(between)) {
            return;
        }
        run_on(setting.home);
        let act = play.begin(setting);
        let places: Vec<usize> = steps.iter().map(|&(place, _)| place).collect();
        let interfere = |number: usize| act.interfere(steps[number].1);
        let met = meet(&places, (self.area, self.descriptor), &interfere, || act.perform());
        steps.iter().for_each(|&(_, between)| act.finish(between));
        report.cases += usize::from(met.hits == steps.len());
        report.restarts += met.restarts;
        if let Err(why) = act.census() {
            let at: Vec<_> = steps.iter().map(|(place, between)| (place - play.entry(), between)).collect();
            report.violations.push(format!("{}: {why}, after {at:x?}", play.name()));
        }
    }
}

/// Where a section goes on when it is restarted, by its descriptor.
fn restart(descriptor: u64) -> Option<usize> {
    // SAFETY: 0, or the descriptor of a section of this program: two numbers of 32 bits, three of 64.
    unsafe { (descriptor as *const [u64; 4]).as_ref() }.map(|words| words[3] as usize)
}
