//! The engine as a subject: a machine in memory under a policy, with real locks, on one thread.

use freehold::base::NodeId;
use freehold::machine;
use freehold::page::{Config, PageAllocator};
use freehold::platform::NoProbe;
use freehold::platform::host::Threads;
use freehold_policies::NamedPolicy;

use super::bar::Bar;
use super::comparison::Comparison;
use super::subject::{Case, Sample, Subject, Then};
use crate::error::Error;

/// The engine as the malloc and the library run it: with spin locks and without a probe.
pub(crate) type Engine<'m> = PageAllocator<'m, Threads<NoProbe>>;

/// Frames per gibibyte.
pub(crate) const GIB: u32 = 1 << 18;

/// A case together with the work that it does on an engine.
pub(crate) struct Workload {
    /// Description of the case.
    pub case: Case,
    /// Frames of the machine.
    pub pages: u32,
    /// Brings the machine into the state that the case requires; not timed.
    pub arrange: fn(&Engine<'_>),
    /// Takes one sample of the given number of operations.
    pub sample: fn(&Engine<'_>, u64) -> Sample,
}

impl Workload {
    /// Returns the comparison of this workload under policy A and under policy B.
    pub(crate) fn compare(&'static self, a: &NamedPolicy, b: &NamedPolicy) -> Comparison {
        Comparison { case: &self.case, a: Box::new(self.under(a)), b: Box::new(self.under(b)), bar: None }
    }

    /// Returns this workload under a policy as a subject.
    pub(crate) fn under(&'static self, policy: &NamedPolicy) -> EngineSubject {
        EngineSubject { name: policy.name.clone(), policy: policy.clone(), workload: self }
    }
}

impl Comparison {
    /// Returns the comparison with a bar.
    pub fn with_bar(self, bar: Bar) -> Comparison {
        Comparison { bar: Some(bar), ..self }
    }
}

/// A workload under a policy, as one side of a comparison.
pub(crate) struct EngineSubject {
    /// Name in tables.
    pub name: String,
    policy: NamedPolicy,
    workload: &'static Workload,
}

impl EngineSubject {
    /// Returns the subject under another name, for comparisons in which the policy is not the point.
    pub(crate) fn named(self, name: &str) -> EngineSubject {
        EngineSubject { name: name.to_owned(), ..self }
    }
}

impl Subject for EngineSubject {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, operations: u64, then: &mut Then<'_>) -> Result<(), Error> {
        with_engine(&self.policy, self.workload.pages, |engine| {
            (self.workload.arrange)(engine);
            then(&mut || Ok((self.workload.sample)(engine, operations)))
        })?
    }
}

/// Builds a machine of `pages` frames and one CPU under a policy, and passes its engine to `run`.
///
/// # Errors
/// When the machine cannot be built.
pub(crate) fn with_engine<R>(policy: &NamedPolicy, pages: u32, run: impl FnOnce(&Engine<'_>) -> R) -> Result<R, Error> {
    with_cpus(policy, pages, 1, run)
}

/// Builds a machine of `pages` frames and `cpus` CPUs under a policy, and passes its engine to `run`.
///
/// # Errors
/// When the machine cannot be built.
pub(crate) fn with_cpus<R>(
    policy: &NamedPolicy,
    pages: u32,
    cpus: u16,
    run: impl FnOnce(&Engine<'_>) -> R,
) -> Result<R, Error> {
    let cpu_nodes = vec![NodeId(0); usize::from(cpus)];
    let config = Config { policy: policy.policy, cpu_nodes: &cpu_nodes, ..Config::default() };
    let built = machine::with_memory(Threads::default(), &config, pages, run);
    built.map_err(|error| Error::Input(format!("no machine can be built under `{}`: {error}", policy.name)))
}
