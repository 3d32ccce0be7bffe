//! Import of another tool's file as a recording, in two steps.
//!
//! [`Import::read`] reads the events. It stores the rows in a spool, and collects what they show about the start state.
//! [`Import::write`] builds the start state and writes the recording. The start state comes from a file or is drawn at
//! random, and the first event on each frame takes precedence over both.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

use freehold_report::origin::Program;
use freehold_report::progress::Progress;
use freehold_trace::event::{Kind as RowKind, NO_PFN, Row};
use freehold_trace::facts::ZoneFacts;
use freehold_trace::{Facts, Writer, folder_of, memory};

use crate::error::Error;
use crate::imported::{ImportSummary, StartKind};
use crate::input::Input;
use crate::item::{Item, Sink, SourceFacts};
use crate::kind::{self, Kind};
use crate::machine::{self, Machine, MachineOverrides};
use crate::settle::{Departures, StartState, settle};
use crate::spool::Spool;
use crate::start::{MemoryState, Start};
use crate::survey::{Limits, Survey};
use crate::{expect, perf, text, tracecmd};

/// Items in a batch between the reading thread and the surveying thread (first), and batches in flight (second). The
/// batches are small enough to stay in the CPU's caches, and to be reused by the malloc.
const BATCH: usize = 512;
const BATCHES: usize = 16;

/// Highest order in the events of any Linux, including pages of hugetlbfs, which are several blocks.
const ORDER_MAX: u8 = 20;
/// Order of a pageblock with pages of 4 KiB.
const PAGEBLOCK_ORDER: u8 = 9;
/// Rows between two updates of the progress bar.
const STRIDE: u64 = 1 << 16;

/// A machine whose memory at the start was drawn at random.
pub struct SyntheticStart {
    /// Description of the drawing, as a phrase: `drawn at age 60`.
    pub how: String,
    /// Zones and the other facts of a snapshot of this machine.
    pub facts: Facts,
    /// Rows of the start state.
    pub rows: Vec<Row>,
}

/// A file that was read.
pub struct Import {
    path: PathBuf,
    kind: Kind,
    source: SourceFacts,
    survey: Survey,
    start: Option<Start>,
    machine: Machine,
}

impl Import {
    /// Reads a file, and stores its rows in the folder of `out`. `start` is a file with the start state.
    ///
    /// # Errors
    /// If a file has no supported format, or lacks required parts.
    pub fn read(path: &Path, out: &Path, overrides: &MachineOverrides, start: Option<&Path>) -> Result<Import, Error> {
        let (kind, file) = kind::open(path)?;
        let start = start.map(Start::read).transpose()?;
        let of_start = start.as_ref().map(|start| start.known.facts.clone()).unwrap_or_default();
        let frames = machine::stated_frames(overrides, &of_start)?;
        let limits = Limits { frames, order: ORDER_MAX, pageblock_order: PAGEBLOCK_ORDER };
        let mut survey = Survey::new(folder_of(out), limits)?;
        let mut source = piped(path, kind, file, &mut survey)?;
        survey.drops.merge(std::mem::take(&mut source.drops));
        expect::expect_all(path, kind, &survey, &source)?;
        let machine = Machine::determine(overrides, &source, &of_start, &survey)?;
        Ok(Import { path: path.to_path_buf(), kind, source, survey, start, machine })
    }

    /// Returns the number of pageblocks between the first frame and the last, including holes. A drawn machine must
    /// have this size.
    pub fn pageblocks(&self) -> u64 {
        self.machine.frames() >> self.machine.pageblock_order
    }

    /// Returns the number of CPUs.
    pub fn cpus(&self) -> u16 {
        self.machine.cpus
    }

    /// Returns whether a drawn machine of this size is needed: if there is no file with the start state, or if neither
    /// that file nor the user gives the zones.
    pub fn needs_synthetic_start(&self) -> bool {
        match &self.start {
            Some(start) => self.machine.zones.is_none() && start.known.facts.zones_start.is_empty(),
            None => true,
        }
    }

    /// Writes the recording. `drawn` is a drawn machine with as many pageblocks and CPUs, if one is needed.
    ///
    /// # Errors
    /// If there is no space, or the events are of another machine than the start state. No file remains then.
    pub fn write(mut self, out: &Path, drawn: Option<SyntheticStart>) -> Result<ImportSummary, Error> {
        let mut writer = Writer::create(out)?;
        let how = drawn.as_ref().map(|drawn| drawn.how.clone());
        let drawing = drawn.map(|drawn| MemoryState::from_rows(drawn.facts, drawn.rows));
        let zones = self.zones(drawing.as_ref());
        let partial = expect::partial(&self.survey, &self.source, self.machine.cpus);
        self.guess_the_rest(how.as_deref(), partial.as_deref());
        let mut facts = self.facts(zones);
        let start = self.start.take();
        let (kind, known) = match start {
            Some(Start { kind, known, .. }) => (kind, known),
            None => (StartKind::Drawn, drawing.unwrap_or_default()),
        };
        let settled = self.settle(known, &facts);
        facts.zones_start = settled.zones;
        facts.pagetypeinfo_start = settled.types;
        settled.rows.iter().try_for_each(|row| writer.push(row))?;
        self.notes_on_start(kind, settled.checked, settled.contradicted, &mut facts);
        let Import { path, kind: format, source, survey, machine, .. } = self;
        let mut imported = ImportSummary::new(&path, format.name(), out, kind, &survey, &source);
        imported.partial.clone_from(&partial);
        let order_max = machine.order_max;
        let outside = write_events(&mut writer, survey.spool, &facts, order_max)?;
        imported.leave_out(outside, &path)?;
        facts.notes.extend(imported.sentences());
        facts.tasks = survey.tasks.into_table();
        imported.complete(&facts, writer.rows());
        writer.finish(&facts)?;
        Ok(imported)
    }

    /// Returns the zones: from a file, or from a drawn machine of this size, limited to the existing memory.
    fn zones(&self, drawing: Option<&MemoryState>) -> Vec<ZoneFacts> {
        let of_start =
            self.start.as_ref().map(|start| &start.known.facts.zones_start).filter(|zones| !zones.is_empty());
        if let Some(zones) = self.machine.zones.as_ref().or(of_start) {
            return zones.clone();
        }
        let drawn = drawing.map(|drawn| drawn.facts.zones_start.clone()).unwrap_or_default();
        let mut zones = drawn;
        for zone in &mut zones {
            zone.present = self.machine.pages_in(zone.start_pfn, zone.start_pfn + zone.spanned);
            zone.managed = zone.present;
        }
        zones.retain(|zone| zone.present > 0);
        zones
    }

    /// Adds the guesses about the start state.
    fn guess_the_rest(&mut self, drawn: Option<&str>, partial: Option<&str>) {
        let is_missing = self.departures() == Departures::Missing;
        let guesses = &mut self.machine.guesses;
        guesses.extend(partial.map(str::to_owned));
        if let Some(how) = drawn {
            if self.start.is_none() {
                guesses.push(format!(
                    "The state of memory at the start is unknown. It was {how}, except for pages whose first event \
                     shows their state; --start gives the recorded state."
                ));
            }
            guesses.push(
                "Memory is assumed to be one zone, with the watermarks and limits of per-CPU lists that Linux sets on \
                 a machine of this size; --zoneinfo gives the recorded zones."
                    .to_owned(),
            );
        }
        if self.start.as_ref().is_some_and(|start| start.kind == StartKind::PageOwner) {
            guesses.push(
                "Pages that the copy of page_owner does not name are assumed to be free, and pageblocks to have order \
                 9; a copy of /proc/kpageflags gives their state."
                    .to_owned(),
            );
        }
        if is_missing {
            guesses.push(
                "The event kmem:mm_page_alloc_zone_locked was not recorded, so the first allocation of each page is \
                 assumed to come from the free lists, and not from per-CPU lists."
                    .to_owned(),
            );
        }
        if self.survey.isolated > 0 {
            guesses.push(
                "Migratetype 4 is assumed to be CMA. On kernels without CMA it is an isolated pageblock.".to_owned(),
            );
        }
    }

    fn departures(&self) -> Departures {
        let mut enabled = self.source.enabled.iter().flatten();
        let is_enabled = enabled.any(|event| event == "kmem:mm_page_alloc_zone_locked");
        match is_enabled || self.survey.counts.contains_key(&RowKind::ZoneLocked) {
            true => Departures::Recorded,
            false => Departures::Missing,
        }
    }

    /// Returns the facts about the machine, without those that the start state adds.
    fn facts(&self, zones: Vec<ZoneFacts>) -> Facts {
        let Import { source, survey, machine, start, .. } = self;
        let of_start = start.as_ref().map(|start| start.known.facts.clone()).unwrap_or_default();
        Facts {
            writer: format!("freehold {}", Program::this().version()),
            kernel_release: machine.kernel_release.clone(),
            machine: machine.machine.clone(),
            page_size: machine.page_size,
            pageblock_order: machine.pageblock_order,
            cpus: machine.cpus,
            command: None,
            // A recording of duration 0 would be a snapshot.
            duration: survey.duration.max(1),
            lost: survey.lost,
            gfp_names: source.gfp_names.clone(),
            ram: machine.ram.clone(),
            zones_start: zones,
            zones_end: Vec::new(),
            pagetypeinfo_end: Vec::new(),
            caches_end: Vec::new(),
            heaps: Vec::new(),
            notes: source.notes.clone(),
            guesses: machine.guesses.clone(),
            ..of_start
        }
    }

    fn settle(&mut self, known: MemoryState, facts: &Facts) -> StartState {
        let departures = self.departures();
        let Import { survey, machine, .. } = self;
        let memory = memory(facts);
        survey.first_events.retain(|pfn, order| has(&memory, pfn, order) && pfn + (1 << order) <= machine.frames());
        settle(known, facts.zones_start.clone(), machine, &mut survey.first_events, &survey.votes, departures)
    }

    /// Adds notes on the source and the accuracy of the start state.
    fn notes_on_start(&self, kind: StartKind, checked: u64, contradicted: u64, facts: &mut Facts) {
        facts.notes.insert(0, format!("imported from a {}", self.kind.name()));
        if kind != StartKind::Drawn {
            facts.notes.push(format!(
                "of {checked} pages whose first event shows their state at the start, {contradicted} had another state \
                 in the file with the start state, and were corrected"
            ));
        }
    }
}

/// Returns whether all frames of a block are memory.
fn has(memory: &[Range<u64>], pfn: u64, order: u8) -> bool {
    memory.iter().any(|part| part.start <= pfn && pfn.saturating_add(1 << order) <= part.end)
}

/// Writes the events. Returns the number of events that were left out because they name frames that the machine does
/// not have. An event of more than one block becomes one event per block.
fn write_events(writer: &mut Writer, spool: Spool, facts: &Facts, order_max: u8) -> Result<u64, Error> {
    let memory = memory(facts);
    let progress = Progress::new("writing", spool.rows());
    let (mut outside, mut done) = (0, 0_u64);
    spool.for_each(|row| {
        done += 1;
        if done.is_multiple_of(STRIDE) {
            progress.advance(STRIDE);
        }
        if row.pfn != NO_PFN && !row.kind.names_place() && !has(&memory, row.pfn, row.order) {
            outside += 1;
            return Ok(());
        }
        Ok(blocks_of(row, order_max).try_for_each(|row| writer.push(&row))?)
    })?;
    Ok(outside)
}

/// Returns the row, or one row for each of its blocks if its order is above that of any block.
fn blocks_of(row: Row, order_max: u8) -> impl Iterator<Item = Row> {
    let excess = if row.pfn == NO_PFN { 0 } else { row.order.saturating_sub(order_max) };
    let order = row.order - excess;
    (0..1_u64 << excess).map(move |block| Row { pfn: row.pfn.wrapping_add(block << order), order, ..row })
}

/// Reads the file on a separate thread, while this thread surveys the items.
fn piped(path: &Path, kind: Kind, file: File, survey: &mut Survey) -> Result<SourceFacts, Error> {
    let (sender, receiver) = sync_channel::<Vec<Item>>(BATCHES);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut batch = Vec::with_capacity(BATCH);
            let source = read(path, kind, file, &mut |item| {
                batch.push(item);
                if batch.len() < BATCH {
                    return Ok(());
                }
                let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
                // The receiver is gone only after an error of its own, which is reported instead.
                sender.send(full).map_err(|_| Error::Machine(String::new()))
            })?;
            let _ = sender.send(batch);
            Ok(source)
        });
        let mut taken = Ok(());
        for batch in receiver {
            taken = batch.into_iter().try_for_each(|item| survey.take(item));
            if taken.is_err() {
                break;
            }
        }
        let source = reader.join();
        taken.and_then(|()| source.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn read(path: &Path, kind: Kind, file: File, sink: Sink<'_>) -> Result<SourceFacts, Error> {
    let input = Input::new(path, file);
    match kind {
        Kind::Perf => perf::read(path, input, sink),
        Kind::TraceCmd => tracecmd::read(path, input, sink),
        Kind::Text => text::read(path, input, sink),
    }
}
