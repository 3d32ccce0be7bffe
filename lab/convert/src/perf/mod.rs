//! Reader of `perf.data`, as `perf record` writes it to a file or into a pipe.
//!
//! ```text
//! guard    refuses files with sizes that the parsing crate would trust
//! pipe     removes the parts of a stream that the parsing crate does not support
//! sample   reads the needed fields of a sample
//! ```
//!
//! The crate `linux-perf-data` parses the file, sorts records by time and unpacks compressed ones. The events are
//! decoded with the formats in the file's own tracing data. linux: tools/perf/Documentation/perf.data-file-format.txt

mod guard;
mod pipe;
mod sample;

use std::io::{BufReader, Read, Seek};
use std::path::Path;

use freehold_trace::Kind;
use linux_perf_data::linux_perf_event_reader::{
    AttrFlags, EventRecord, PerfEventType, RawEventRecord, RecordType, SampleFormat, SamplingPolicy,
};
use linux_perf_data::{Feature, PerfFile, PerfFileReader, PerfFileRecord, PerfRecordIter};

use crate::coverage::{Coverage, Sampling, expect_every_event};
use crate::drops::Counted;
use crate::error::Error;
use crate::input::Input;
use crate::item::{Item, Sink, SourceFacts};
use crate::records::{Records, SHORT};
use crate::tracing::Tracing;
use guard::Mode;

pub(crate) use guard::{FORMAT, MAGICS};

/// Bytes that are read at a time.
const BUFFER: usize = 1 << 20;

/// Reads a file to its end.
///
/// # Errors
/// If it cannot be read, has another byte order, or was not made by `perf record`.
pub(crate) fn read(path: &Path, mut file: Input, sink: Sink<'_>) -> Result<SourceFacts, Error> {
    match guard::check(file.file()).map_err(|error| error.into_error(path))? {
        Mode::File => {
            let reader = PerfFileReader::parse_file(BufReader::with_capacity(BUFFER, file));
            let PerfFileReader { perf_file, record_iter } = reader.map_err(|error| damaged(path, &error))?;
            let tracing = perf_file.feature_section_data(Feature::TRACING_DATA).and_then(Tracing::parse);
            EventReader { path, perf: perf_file, tracing }.run(record_iter, sink)
        }
        Mode::Pipe => {
            file.rewind().map_err(Error::read(path))?;
            let stream = pipe::Stream::new(BufReader::with_capacity(BUFFER, file));
            let (tracing_data, is_cut) = (stream.tracing(), stream.is_cut());
            let reader = PerfFileReader::parse_pipe(stream).map_err(|error| damaged(path, &error))?;
            let PerfFileReader { perf_file, record_iter } = reader;
            let tracing = Tracing::parse(&tracing_data.borrow());
            let facts = EventReader { path, perf: perf_file, tracing }.run(record_iter, sink)?;
            Ok(SourceFacts { is_cut: is_cut.get(), ..facts })
        }
    }
}

fn damaged(path: &Path, reason: impl ToString) -> Error {
    Error::Damaged { path: path.to_path_buf(), format: FORMAT, reason: reason.to_string() }
}

/// A file whose header was read.
struct EventReader<'f> {
    path: &'f Path,
    perf: PerfFile,
    tracing: Option<Tracing>,
}

impl EventReader<'_> {
    fn run<R: Read>(mut self, mut records: PerfRecordIter<R>, sink: Sink<'_>) -> Result<SourceFacts, Error> {
        let formats: Vec<SampleFormat> =
            self.perf.event_attributes().iter().map(|event| event.attr.sample_format).collect();
        let tracing = self.tracing.take().ok_or_else(|| {
            damaged(self.path, "it has no event formats, since no tracepoint was recorded; record with -e 'kmem:*'")
        })?;
        let mut decoded = Records::new(&tracing);
        let events = self.used_events(&decoded);
        self.expect_samples(&events)?;
        let mut lost = Lost::default();
        loop {
            let record = records.next_record(&mut self.perf).map_err(|error| damaged(self.path, &error))?;
            let Some(record) = record else { break };
            if let PerfFileRecord::EventRecord { attr_index, record } = record {
                let format = formats.get(attr_index).copied().unwrap_or(SampleFormat::empty());
                let kind = events.get(attr_index).copied().flatten();
                if let Some(item) = item(&record, format, kind, &mut decoded, &mut lost) {
                    sink(item)?;
                }
            }
        }
        if lost.count() > 0 {
            sink(Item::Lost(lost.count()))?;
        }
        Ok(self.source_facts(&tracing, decoded, &lost))
    }

    /// Returns the kind of rows for each event that perf opened; `None` if no rows are made of it.
    fn used_events(&self, decoded: &Records) -> Vec<Option<Kind>> {
        let attributes = self.perf.event_attributes().iter();
        let ids = attributes.map(|event| match event.attr.type_ {
            PerfEventType::Tracepoint(id) => u16::try_from(id).ok(),
            _ => None,
        });
        ids.map(|id| decoded.kind(id?)).collect()
    }

    /// Checks that every used event was recorded completely, with its time, CPU and contents.
    ///
    /// # Errors
    /// If one was not.
    fn expect_samples(&self, events: &[Option<Kind>]) -> Result<(), Error> {
        let wanted = SampleFormat::TIME | SampleFormat::RAW | SampleFormat::CPU;
        let attributes = || self.perf.event_attributes().iter().zip(events);
        let used: Vec<_> = attributes().filter_map(|(event, kind)| Some((event, kind.as_ref()?.event()?))).collect();
        let sampling: Vec<_> = used
            .iter()
            .map(|(event, name)| ((*name).to_owned(), sampling(event.attr.sampling_policy, event.attr.sample_format)))
            .collect();
        expect_every_event(self.path, &sampling)?;
        let lacking = used.iter().find(|(event, _)| !event.attr.sample_format.contains(wanted));
        if let Some((_, name)) = lacking {
            return Err(damaged(
                self.path,
                format!("its samples of {name} lack the time, the CPU or the contents; record with -e 'kmem:*' and -a"),
            ));
        }
        Ok(())
    }

    /// Returns the part of the machine that was recorded.
    fn coverage(&self) -> Coverage {
        let mut coverage = Coverage::from_command(self.perf.cmdline().ok().flatten().unwrap_or_default());
        let mut flags = self.perf.event_attributes().iter().map(|event| event.attr.flags);
        if flags.any(|flags| flags.contains(AttrFlags::ENABLE_ON_EXEC)) {
            coverage.covers_command();
        }
        coverage
    }

    /// Returns the file's facts about its machine and about itself.
    fn source_facts(&self, tracing: &Tracing, decoded: Records, lost: &Lost) -> SourceFacts {
        let mut notes = decoded.notes.clone();
        if let Some(version) = self.perf.perf_version().ok().flatten() {
            notes.push(format!("recorded by perf {version}"));
        }
        if lost.samples > 0 {
            let Lost { events, samples } = lost;
            notes.push(format!(
                "lost events by LOST records: {events}, by LOST_SAMPLES records: {samples}; the larger number is used"
            ));
        }
        SourceFacts {
            kernel_release: self.perf.os_release().ok().flatten().map(str::to_owned),
            machine: self.perf.arch().ok().flatten().map(str::to_owned),
            page_size: Some(tracing.page_size),
            cpus: self.perf.nr_cpus().ok().flatten().map(|cpus| cpus.nr_cpus_online),
            memory: self.perf.total_mem().ok().flatten().and_then(|kib| kib.checked_mul(1024)),
            gfp_names: decoded.gfp_names.clone(),
            enabled: self.perf.event_attributes().iter().map(|event| event.name().map(str::to_owned)).collect(),
            drops: decoded.drops.clone(),
            coverage: self.coverage(),
            has_old_frees: tracing.format("kmem", "mm_page_free_direct").is_some(),
            passed: decoded.passed(),
            notes,
            ..SourceFacts::default()
        }
    }
}

/// Events that the kernel lost.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    /// Number according to LOST records.
    events: u64,
    /// Number according to LOST_SAMPLES records.
    samples: u64,
}

impl Lost {
    /// Returns the number of lost events. Both counts are of the same events, and one of them may be incomplete.
    fn count(self) -> u64 {
        self.events.max(self.samples)
    }
}

/// Returns the sampling of an event. In a group that is read as a whole, only the leader is recorded.
fn sampling(policy: SamplingPolicy, format: SampleFormat) -> Sampling {
    match policy {
        _ if format.contains(SampleFormat::READ) => Sampling::Group,
        SamplingPolicy::NoSampling => Sampling::Period(0),
        SamplingPolicy::Period(period) => Sampling::Period(period.get()),
        SamplingPolicy::Frequency(rate) => Sampling::Frequency(rate),
    }
}

/// Returns the item of a record of an event from which rows of this kind are made.
fn item(
    record: &RawEventRecord<'_>,
    format: SampleFormat,
    kind: Option<Kind>,
    decoded: &mut Records,
    lost: &mut Lost,
) -> Option<Item> {
    match record.record_type {
        RecordType::SAMPLE => {
            let data = record.data.as_slice();
            let Some(sample) = sample::read(&data, format) else {
                if let Some(kind) = kind {
                    decoded.drops.add(Counted::Events(kind), SHORT, || format!("{} bytes", data.len()));
                }
                return None;
            };
            decoded.item(sample.time, sample.raw, sample.cpu)
        }
        RecordType::LOST => {
            if let Ok(EventRecord::Lost(lost_record)) = record.parse() {
                lost.events = lost.events.saturating_add(lost_record.count);
            }
            None
        }
        RecordType::LOST_SAMPLES => {
            let data = record.data.as_slice();
            let count = data.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            lost.samples = lost.samples.saturating_add(count);
            None
        }
        RecordType::COMM => match record.parse() {
            Ok(EventRecord::Comm(comm)) => {
                let name = String::from_utf8_lossy(&comm.name.as_slice()).into_owned();
                Some(Item::Named { pid: comm.tid.cast_unsigned(), name })
            }
            _ => None,
        },
        RecordType::FORK => match record.parse() {
            Ok(EventRecord::Fork(fork)) => Some(Item::Born {
                pid: fork.tid.cast_unsigned(),
                parent: fork.ptid.cast_unsigned(),
                name: String::new(),
            }),
            _ => None,
        },
        _ => None,
    }
}
