//! Assembly of a recording from the raw bytes of a run.
//!
//! The events are read in two passes, because the start state comes first in the file but is known last. The *first*
//! pass brings the scans to their moments, collects the votes on pageblock types, and evaluates the first event on each
//! frame. A flight recorder has a scan at the end only. The *second* pass writes the start state, the events between
//! the two moments, and the end state. Time 0 of the recording is the start moment.
//!
//! Memory: nine bytes for each frame of the machine, which is 0.2 % of its memory, and one decoded segment per CPU.

use std::time::Duration;

use freehold_trace::Writer;
use freehold_trace::anonymize::Identity;
use freehold_trace::event::{Kind, Row};
use freehold_trace::facts::{Facts, FlightFacts};
use freehold_trace::procfs::parse_buddyinfo;
use freehold_trace::snapshot::Moment;
use freehold_trace::state::{
    Agreement, AllocatedBlock, CachedBlock, FirstEvents, Frames, StateRows, TypeChange, Votes,
};

use crate::caches;
use crate::decode::{Item, RingDecoder};
use crate::error::CaptureError;
use crate::interrupt::Interrupts;
use crate::merge::{Irregularities, Merge};
use crate::observe::State;
use crate::plan::{Summary, Watch};
use crate::rebuild::{Rebuilder, Tally};
use crate::reported::{self, Record, ReportedPages};
use crate::run::{Opening, Run};
use crate::stacks::Stacks;
use crate::tasks::Names;
use crate::zones::Zones;

/// Number of orders that a row can have.
const FREE_ORDERS: usize = 64;
/// Events between two checks for Ctrl-C and two updates of the progress bar.
const STRIDE: u64 = 1 << 18;

/// Results of the first pass.
#[derive(Debug)]
pub(crate) struct Findings {
    /// All frames at the start.
    pub start: Frames,
    /// All frames at the end.
    pub end: Frames,
    /// Blocks that were on per-CPU lists at the start, according to the events.
    pub cached: Vec<CachedBlock>,
    /// Blocks that were allocated at the start, according to the events.
    pub allocated: Vec<AllocatedBlock>,
    /// Types of pageblocks, according to the events.
    pub votes: Votes,
    /// Events between the two moments.
    pub events: u64,
    /// Irregularities of the streams.
    pub irregularities: Irregularities,
    /// Counts of the rebuilding, if the start state was rebuilt.
    pub tally: Tally,
    /// Notes on the sources and the accuracy of the start state.
    pub notes: Vec<String>,
}

/// Decoder of a run, which writes the recording.
pub(crate) struct Assembler<'run> {
    run: &'run mut Run,
    decoder: RingDecoder,
    zones: Zones,
    patience: Patience<'run>,
}

impl<'run> Assembler<'run> {
    /// Reads the formats and the texts of `run`.
    ///
    /// # Errors
    /// If this kernel's formats, or its texts about zones, cannot be parsed.
    pub(crate) fn new(
        run: &'run mut Run,
        interrupts: &'run Interrupts,
        watch: &'run mut dyn Watch,
    ) -> Result<Self, CaptureError> {
        let zones = Zones::read(run)?;
        let decoder = run.formats.decoder(&zones.start.types.migratetypes)?;
        let patience = Patience { interrupts, watch, seen: 0 };
        Ok(Assembler { run, decoder, zones, patience })
    }

    /// Writes the recording and closes it. `facts` contains the facts about the machine so far.
    ///
    /// # Errors
    /// If the spool cannot be read, the disk is full, or the user aborts. No file remains then.
    pub(crate) fn write(
        mut self,
        mut writer: Writer,
        mut facts: Facts,
        names: Names,
        identity: Identity,
    ) -> Result<Summary, CaptureError> {
        let Findings { start, end, cached, allocated, votes, events, irregularities, tally, notes: survey_notes } =
            self.survey()?;
        let mut notes = std::mem::take(&mut self.run.notes);
        notes.extend(survey_notes);
        notes.extend(offline_note(start.offline(), end.offline()));
        notes.extend(self.zones.changes());
        notes.extend(irregularities.notes());
        let moment = self.run.start.moment();
        let duration = self.run.end.scan.end - moment;
        let start_rows = StateRows::new(Moment::Start, 0, start, votes.first(), &self.zones.start);
        let end_rows = StateRows::new(Moment::End, duration, end, votes.last(), &self.zones.end);
        notes.push(format!("pageblock types at the start: {}; at the end: {}", start_rows.types(), end_rows.types()));
        let mut cut = vec![0; FREE_ORDERS];
        start_rows.for_each(&cached, &allocated, |row| {
            cut[usize::from(row.order)] += u64::from(row.kind == Kind::StartFree);
            writer.push(&row)
        })?;
        notes.push(self.buddyinfo_note(cut)?);
        let stacks = self.write_events(&mut writer)?;
        end_rows.for_each(&[], &[], |row| writer.push(&row))?;
        let run = &*self.run;
        facts.duration = duration;
        facts.lost = run.lost;
        facts.gfp_names = run.formats.gfp_names();
        facts.tasks = run.tasks.table(names);
        facts.command = run.command.clone();
        facts.settings = run.settings.clone();
        facts.caches_start = caches::with_sheaves(&run.start.texts().slabinfo);
        facts.caches_end = caches::with_sheaves(&run.end.texts.slabinfo);
        facts.heaps = run.heaps.since(moment);
        facts.notes = notes;
        facts.flight = run.flight.clone().map(|flight| FlightFacts {
            told: tally.told,
            taken_silently: tally.taken_silently,
            returned_silently: tally.returned_silently,
            ended_otherwise: tally.ended_otherwise,
            moved: tally.moved,
            ..flight
        });
        if let Some((period, _)) = run.formats.stacks {
            facts.stacks = Some(stacks.facts(period)?);
        }
        self.zones.describe(&run.samples, moment, &mut facts)?;
        let facts = identity.apply(facts);
        let summary = Summary {
            events,
            rows: writer.rows(),
            lost: run.lost,
            duration: Duration::from_nanos(duration),
            status: run.status,
            ended_by_itself: run.ended_by_itself,
            command: run.command.clone(),
            notes: facts.notes.clone(),
        };
        writer.finish(&facts)?;
        Ok(summary)
    }

    /// Returns a note that compares the free blocks computed from page flags with the kernel's own counts a moment
    /// later.
    fn buddyinfo_note(&self, mut cut: Vec<u64>) -> Result<String, CaptureError> {
        let mut counted: Vec<u64> = Vec::new();
        for zone in parse_buddyinfo(&self.run.samples.all[0].buddyinfo)? {
            counted.resize(counted.len().max(zone.free.len()), 0);
            counted.iter_mut().zip(zone.free).for_each(|(sum, count)| *sum += count);
        }
        cut.truncate(counted.len());
        Ok(if cut == counted {
            "free blocks at the start: page flags and buddyinfo agree at every order".to_owned()
        } else {
            format!("free blocks at the start, by order: {cut:?} in page flags, {counted:?} in buddyinfo just after")
        })
    }

    /// Runs the first pass.
    fn survey(&mut self) -> Result<Findings, CaptureError> {
        match &self.run.start {
            Opening::Scanned(_) => self.survey_scanned(),
            Opening::Unseen { .. } => self.survey_unseen(),
        }
    }

    /// Runs the first pass with scans of memory at the start and at the end.
    fn survey_scanned(&mut self) -> Result<Findings, CaptureError> {
        let Run { spool, start: Opening::Scanned(start), end, pages, lost, .. } = &*self.run else {
            unreachable!("`survey` calls this function for scanned starts only")
        };
        let order = self.zones.pageblock_order();
        let (start_state, end_state) = (start, end);
        let (start_moment, end_moment) = (start.scan.end, end.scan.end);
        let mut start = start.scan.frames(spool, order)?;
        let mut end = end.scan.frames(spool, order)?;
        // Created at the first event after the start moment, when the start state is known.
        let mut made = None;
        let mut votes = Votes::new(order);
        let mut events = 0;
        let patience = &mut self.patience;
        let merge = Merge::new(spool, &self.decoder, pages, 0);
        let irregularities = merge.for_each(|time, item| {
            patience.check()?;
            let Item::Row(_, row) = item else { return Ok(()) };
            if time <= start_moment {
                start.apply(time, &row);
                return Ok(());
            }
            made.get_or_insert_with(|| FirstEvents::new(start.words(), order)).observe(&row);
            votes.observe(&row);
            if time <= end_moment {
                events += 1;
                end.apply(time, &row);
            }
            Ok(())
        })?;
        let mut first_events = made.unwrap_or_else(|| FirstEvents::new(start.words(), order));
        let record = if *lost == 0 { Record::Whole } else { Record::Torn };
        let reported = reported::mark(&mut start, &mut end, &mut first_events, &self.zones.end.zones, record);
        let mut notes = vec![scan_note("start", start_state, &start), scan_note("end", end_state, &end)];
        notes.extend(first_events_notes(&first_events));
        notes.extend(reported_note(reported));
        let (FirstEvents { cached, allocated, .. }, tally) = (first_events, Tally::default());
        Ok(Findings { start, end, cached, allocated, votes, events, irregularities, tally, notes })
    }

    /// Runs the first pass with a scan of memory only at the end.
    fn survey_unseen(&mut self) -> Result<Findings, CaptureError> {
        let Run { spool, start, end, pages, .. } = &*self.run;
        let order = self.zones.pageblock_order();
        let (start_moment, end_state) = (start.moment(), end);
        let end_moment = end.scan.end;
        let mut end = end.scan.frames(spool, order)?;
        let mut rebuilder = Rebuilder::new(end.words().len(), order);
        let mut changes = Vec::new();
        let mut votes = Votes::new(order);
        let mut events = 0;
        let patience = &mut self.patience;
        let merge = Merge::new(spool, &self.decoder, pages, start_moment);
        let irregularities = merge.for_each(|time, item| {
            patience.check()?;
            let Item::Row(_, row) = item else { return Ok(()) };
            if time <= start_moment {
                return Ok(());
            }
            votes.observe(&row);
            if time <= end_moment {
                events += 1;
                rebuilder.observe(&row);
                changes.extend(TypeChange::from_row(&row));
                end.apply(time, &row);
            }
            Ok(())
        })?;
        for zone in &self.zones.end.zones {
            reported::mark_at_end(&mut end, |pfn| rebuilder.is_on_free_lists(pfn), zone);
        }
        rebuilder.compare(&end);
        self.zones.undo(&changes);
        let start = rebuilder.words(&end);
        let notes = vec![rebuilt_note(rebuilder.tally, events), scan_note("end", end_state, &end)];
        let Rebuilder { cached, allocated, tally, .. } = rebuilder;
        Ok(Findings { start, end, cached, allocated, votes, events, irregularities, tally, notes })
    }

    /// Runs the second pass. Returns the sampled stacks.
    fn write_events(&mut self, writer: &mut Writer) -> Result<Stacks, CaptureError> {
        let Run { spool, start, end, pages, tasks, .. } = &mut *self.run;
        let (start, end) = (start.moment(), end.scan.end);
        let patience = &mut self.patience;
        let merge = Merge::new(spool, &self.decoder, pages, start);
        let mut stacks = Stacks::default();
        merge.for_each(|time, item| {
            patience.check()?;
            match item {
                Item::Row(pid, row) if (start + 1..=end).contains(&time) => {
                    if row.kind == Kind::Alloc {
                        stacks.allocated(pid, &row);
                    }
                    let mut row = Row { time: time - start, task: tasks.index(pid), ..row };
                    if row.kind.names_task() {
                        // Thread id of another thread, which fits 32 bits.
                        row.args[0] = tasks.index(row.args[0] as u32).into();
                    }
                    writer.push(&row)?;
                }
                Item::Stack { cpu, pid, addresses } if (start + 1..=end).contains(&time) => {
                    stacks.sampled(cpu, pid, tasks.index(pid), addresses);
                }
                Item::Row(..) | Item::Stack { .. } => {}
                Item::Born { parent, child, name } => tasks.born(parent, child, &name),
                Item::Renamed { pid, name } => tasks.renamed(pid, &name),
            }
            Ok(())
        })?;
        Ok(stacks)
    }
}

/// Returns a note on the duration of a scan, and on the events that were applied.
fn scan_note(which: &str, state: &State, frames: &Frames) -> String {
    let milliseconds = (state.scan.end - state.scan.start()) / 1_000_000;
    let applied = frames.applied();
    match state.isolated {
        0 => format!("{which} state: scanned in {milliseconds} ms, {applied} events of this time applied"),
        pages => format!(
            "{which} state: scanned in {milliseconds} ms, {applied} events of this time applied; pages isolated by \
             compaction meanwhile, without events: {pages}"
        ),
    }
}

/// Returns a note on the rebuilding of the start state.
fn rebuilt_note(tally: Tally, events: u64) -> String {
    let Tally { told, taken_silently, returned_silently, ended_otherwise, moved } = tally;
    format!(
        "start state: rebuilt from the state at the end by undoing {events} events on {told} frames; changes without \
         events, which cannot be undone: {taken_silently} blocks allocated, {returned_silently} blocks freed, \
         {ended_otherwise} frames whose state at the end is not that after their last event, {moved} pages moved by \
         compaction"
    )
}

/// Returns notes on the first events on the frames of the start state.
fn first_events_notes(first_events: &FirstEvents) -> [String; 2] {
    let Agreement { checked, taken_silently, returned_silently } = first_events.agreement;
    [
        format!(
            "start state against the first event on each block: {checked} blocks checked; changed without an event: \
             {taken_silently} free blocks allocated, {returned_silently} allocated blocks freed"
        ),
        format!(
            "pages without flags at the start, identified by later events: {} blocks on per-CPU lists, {} allocated",
            first_events.cached.len(),
            first_events.allocated.len(),
        ),
    ]
}

/// Returns a note on the pages that free-page reporting held while the flags were read.
fn reported_note(reported: ReportedPages) -> Option<String> {
    let ReportedPages { taken, returned, at_end } = reported;
    (reported != ReportedPages::default()).then(|| {
        format!(
            "free pages without flags, because of free-page reporting: {} at the start ({taken} taken from the free \
             lists later, {returned} on the free lists at the end), {at_end} at the end",
            taken + returned
        )
    })
}

/// Returns a note on memory that is withheld from the allocator.
fn offline_note(start: u64, end: u64) -> Option<String> {
    (start + end > 0).then(|| format!("pages that are offline or in a balloon: {start} at the start, {end} at the end"))
}

impl Irregularities {
    fn notes(self) -> impl Iterator<Item = String> {
        let Irregularities { backward, gaps, damaged } = self;
        [
            (backward, "events older than the previous event of their CPU, which got the time of that event"),
            (gaps, "gaps in the events, where a ring buffer was full"),
            (damaged, "damaged pages of the ring buffers, whose events are missing"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{what}: {count}"))
    }
}

/// Checks for Ctrl-C and updates the progress bar, once every [`STRIDE`] events.
struct Patience<'run> {
    interrupts: &'run Interrupts,
    watch: &'run mut dyn Watch,
    seen: u64,
}

impl Patience<'_> {
    fn check(&mut self) -> Result<(), CaptureError> {
        self.seen += 1;
        if !self.seen.is_multiple_of(STRIDE) {
            return Ok(());
        }
        self.watch.writing(self.seen);
        self.interrupts.check()
    }
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
