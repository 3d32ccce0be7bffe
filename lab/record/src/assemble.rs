//! From the raw bytes of a run to a recording.
//!
//! Two passes over the events, because the start state comes first in the file but is known last. The *first*
//! brings both scans to their moments, collects the votes on pageblock types, and lets the first event on
//! each frame say what the page flags hide. The *second* writes: the start state, the events between the two
//! moments, the end state. Time 0 of the recording is the start moment.
//!
//! Memory: nine bytes for each frame of the machine, 0.2 % of its memory, besides one decoded segment a CPU.

use std::time::Duration;

use freehold_trace::Writer;
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

/// Orders that a row can have.
const FREE_ORDERS: usize = 64;
/// Events between two looks at Ctrl-C and two moves of the progress bar.
const STRIDE: u64 = 1 << 18;

/// What the first pass finds out.
#[derive(Debug)]
pub(crate) struct Findings {
    /// All frames at the start.
    pub start: Frames,
    /// All frames at the end.
    pub end: Frames,
    /// Blocks that lay on CPUs' lists at the start, as events show.
    pub cached: Vec<CachedBlock>,
    /// Blocks that were allocated at the start, as events show.
    pub allocated: Vec<AllocatedBlock>,
    /// What the events say of pageblocks.
    pub votes: Votes,
    /// Events between the two moments.
    pub events: u64,
    /// What is wrong with the streams.
    pub irregularities: Irregularities,
    /// What was counted, if the start state was rebuilt.
    pub tally: Tally,
    /// How the start state is known, and how well.
    pub notes: Vec<String>,
}

/// Decodes a run and writes it.
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
    /// When this kernel's formats are not understood.
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

    /// Writes the recording and closes it. `facts` holds what is known of the machine so far.
    ///
    /// # Errors
    /// When the spool cannot be read, the disk is full, or the user loses patience. Nothing is kept then.
    pub(crate) fn write(mut self, mut writer: Writer, mut facts: Facts, names: Names) -> Result<Summary, CaptureError> {
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
        let summary = Summary {
            events,
            rows: writer.rows(),
            lost: run.lost,
            duration: Duration::from_nanos(duration),
            status: run.status,
            command: run.command.clone(),
            notes: facts.notes.clone(),
        };
        writer.finish(&facts)?;
        Ok(summary)
    }

    /// How the free blocks cut out of page flags compare with the kernel's own count a moment later.
    fn buddyinfo_note(&self, mut cut: Vec<u64>) -> Result<String, CaptureError> {
        let mut counted: Vec<u64> = Vec::new();
        for zone in parse_buddyinfo(&self.run.samples.all[0].buddyinfo)? {
            counted.resize(counted.len().max(zone.free.len()), 0);
            counted.iter_mut().zip(zone.free).for_each(|(sum, count)| *sum += count);
        }
        cut.truncate(counted.len());
        Ok(if cut == counted {
            "free blocks at the start: those cut out of page flags equal buddyinfo at every order".to_owned()
        } else {
            format!(
                "free blocks at the start, by order: {cut:?} cut out of page flags, {counted:?} in buddyinfo just after"
            )
        })
    }

    /// The first pass.
    fn survey(&mut self) -> Result<Findings, CaptureError> {
        match &self.run.start {
            Opening::Scanned(_) => self.survey_scanned(),
            Opening::Unseen { .. } => self.survey_unseen(),
        }
    }

    /// The first pass where memory was looked at at both ends.
    fn survey_scanned(&mut self) -> Result<Findings, CaptureError> {
        let Run { spool, start: Opening::Scanned(start), end, pages, lost, .. } = &*self.run else {
            unreachable!("the caller has looked")
        };
        let order = self.zones.pageblock_order();
        let (start_state, end_state) = (start, end);
        let (start_moment, end_moment) = (start.scan.end, end.scan.end);
        let mut start = start.scan.frames(spool, order)?;
        let mut end = end.scan.frames(spool, order)?;
        // Made at the first event after the start moment, when the start state is known.
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

    /// The first pass where memory was looked at at the end alone.
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

    /// The second pass; says what stacks there were.
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
                        // The kernel's number of another thread; ids fit 32 bits.
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

/// How far from one moment a scan was, and what was done about it.
fn scan_note(which: &str, state: &State, frames: &Frames) -> String {
    let milliseconds = (state.scan.end - state.scan.start()) / 1_000_000;
    let applied = frames.applied();
    match state.isolated {
        0 => format!("{which} state: scanned in {milliseconds} ms, {applied} events of that time applied"),
        pages => format!(
            "{which} state: scanned in {milliseconds} ms, {applied} events of that time applied, but compaction \
             took {pages} pages meanwhile, which makes no events"
        ),
    }
}

/// How the start state was rebuilt.
fn rebuilt_note(tally: Tally, events: u64) -> String {
    let Tally { told, taken_silently, returned_silently, ended_otherwise, moved } = tally;
    format!(
        "start state: rebuilt from the state at the end by undoing {events} events, which tell of {told} frames; what has \
         no event cannot be undone: {taken_silently} blocks were taken and {returned_silently} given back without one, \
         {ended_otherwise} frames are not at the end what their last event made them, and compaction moved {moved} pages"
    )
}

/// What the first events said about the start state.
fn first_events_notes(first_events: &FirstEvents) -> [String; 2] {
    let Agreement { checked, taken_silently, returned_silently } = first_events.agreement;
    [
        format!(
            "start state against the first event on each block: {checked} checked, {taken_silently} free ones had \
             been taken and {returned_silently} allocated ones returned without an event"
        ),
        format!(
            "pages without flags at the start: later events found {} blocks on per-CPU lists and {} allocated",
            first_events.cached.len(),
            first_events.allocated.len(),
        ),
    ]
}

/// What free-page reporting held while the flags were read.
fn reported_note(reported: ReportedPages) -> Option<String> {
    let ReportedPages { taken, returned, at_end } = reported;
    (reported != ReportedPages::default()).then(|| {
        format!(
            "pages without flags that were free all the same, as free-page reporting leaves them: {} at the start ({taken} \
             taken from the free lists later, {returned} on them at the end), {at_end} at the end",
            taken + returned
        )
    })
}

/// Memory that is withheld from the allocator.
fn offline_note(start: u64, end: u64) -> Option<String> {
    (start + end > 0).then(|| {
        format!("offline or in a balloon, and so allocated by nobody: {start} pages at the start, {end} at the end")
    })
}

impl Irregularities {
    fn notes(self) -> impl Iterator<Item = String> {
        let Irregularities { backward, gaps, damaged } = self;
        [
            (backward, "events were older than the one before them on their CPU and took its time"),
            (gaps, "gaps in the events, where a ring was full"),
            (damaged, "pages of the ring were damaged, and their events are missing"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
    }
}

/// Watches Ctrl-C and moves the progress bar, but not at every event.
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
