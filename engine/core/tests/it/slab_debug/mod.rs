//! The slab's debugging: the tests plant damage of each kind and compare the report. A caller without mistakes gets no
//! reports.

mod damage;
mod fast_paths;
mod hardening;
mod no_reports;
mod pointers;
mod walks;

use core::cell::{Cell, RefCell};
use std::sync::Mutex;

use freehold::base::{CpuId, NodeId};
use freehold::machine::objects::{HostCpu, with_checked_slab};
use freehold::page::Config;
use freehold::platform::host::{CheckedSpinLock, current_cpu, run_on_cpu};
use freehold::platform::{NoProbe, Platform, SlabReport};
use freehold::policy::Policy;
use freehold::slab::cpu::locked::CpuLocks;
use freehold::slab::{CacheFlags, CpuLocal, KmemCache, SlabAllocator, SlabCensus, SlabViolation};

/// Platform that collects reports.
#[derive(Default)]
pub(crate) struct Listener {
    reports: RefCell<Vec<String>>,
    caller: Cell<usize>,
}

impl Platform for Listener {
    type Lock = CheckedSpinLock;
    type Probe = NoProbe;

    fn probe(&self) -> &NoProbe {
        &NoProbe
    }

    fn cpu(&self) -> CpuId {
        current_cpu()
    }

    fn slab_error(&self, report: &SlabReport<'_>) {
        self.reports.borrow_mut().push(report.to_string());
    }

    fn caller(&self) -> usize {
        self.caller.get()
    }
}

impl Listener {
    /// Returns the reports since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        self.reports.take()
    }

    /// Returns the only report since the last call, with addresses from `base` on as `S+offset`, and without line
    /// numbers of source files.
    pub(crate) fn take_one(&self, base: u64) -> String {
        let [report] = &self.take()[..] else { panic!("exactly one report is expected") };
        without_lines(&relative(report, base))
    }
}

type Local = CpuLocks<'static, CheckedSpinLock, HostCpu>;

/// Slab of these tests.
pub(crate) type Slab<'s, 'm> = SlabAllocator<'s, 'm, Listener, Local>;

/// Cache of such a slab.
pub(crate) type Cache<'k, 's, 'm> = KmemCache<'k, 's, 'm, Listener, Local>;

/// Runs `run` on a machine of 64 MiB and four CPUs whose caches all make the checks in `debug`.
pub(crate) fn with_world(policy: Policy, debug: CacheFlags, run: impl FnOnce(&Slab<'_, '_>)) {
    let mut run = Some(run);
    run_in_world(policy, debug, &mut |slab| {
        if let Some(run) = run.take() {
            run(slab);
        }
    });
}

/// Builds the world of [`with_world`], and calls `run` once. This function is not generic, so the world is compiled
/// once instead of once per test.
fn run_in_world(policy: Policy, debug: CacheFlags, run: &mut dyn FnMut(&Slab<'_, '_>)) {
    static NODES: [NodeId; 4] = [NodeId(0); 4];
    let config = Config { policy, cpu_nodes: &NODES, ..Config::default() };
    let locks = SPARE_LOCKS.lock().unwrap().pop().unwrap_or_else(|| Box::leak(Box::default()));
    run_on_cpu(CpuId(0));
    with_checked_slab(Listener::default(), &config, 1 << 14, CpuLocks::new(locks, HostCpu), (7, debug), |slab| {
        run(slab)
    })
    .expect("the configuration of the machine must be valid");
    SPARE_LOCKS.lock().unwrap().push(locks);
}

/// Locks of the four CPUs of a world.
type WorldLocks = [CheckedSpinLock; 4];

/// Locks that no world uses now. They stay reachable, so the leak sanitizer does not report them.
static SPARE_LOCKS: Mutex<Vec<&WorldLocks>> = Mutex::new(Vec::new());

/// Checks that nothing is lost.
pub(crate) fn check<P: Platform, C: CpuLocal>(slab: &SlabAllocator<'_, '_, P, C>) -> Result<SlabCensus, SlabViolation> {
    // SAFETY: the tests check the slab only when a single thread is left.
    unsafe { slab.check() }
}

/// Returns the platform of a slab, which collects reports.
pub(crate) fn listener<'s>(slab: &'s Slab<'_, '_>) -> &'s Listener {
    slab.platform()
}

/// Returns a text with addresses from `base` on replaced by offsets.
fn relative(text: &str, base: u64) -> String {
    let mut rest = text.replace("0x", "");
    let mut out = String::new();
    while let Some(start) = rest.find(|c: char| c.is_ascii_hexdigit()) {
        let len = rest[start..].find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len() - start);
        out.push_str(&rest[..start]);
        let word = &rest[start..start + len];
        match u64::from_str_radix(word, 16) {
            Ok(address) if len > 8 && address >= base && address - base < 1 << 26 => {
                out.push_str(&format!("S+{:#x}", address - base));
            }
            _ => out.push_str(word),
        }
        rest.drain(..start + len);
    }
    out + &rest
}

/// Removes line numbers: `main.rs:12:34` becomes `main.rs`.
fn without_lines(text: &str) -> String {
    let mut parts = text.split(".rs:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + ".rs" + part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':'))
}
