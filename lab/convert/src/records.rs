//! Raw records of kernel events in files of perf and trace-cmd, in the layout of the file's own formats.

use std::collections::BTreeMap;

use freehold_trace::Kind;
use freehold_trace::decode::Decoder;
use freehold_trace::event::migratetype;
use freehold_trace::gfp::{self, GfpMap};
use freehold_trace::ring::RawEvent;

use crate::drops::{Counted, Drops};
use crate::item::{Item, NameEvent};
use crate::tracing::Tracing;

/// The event whose format lists the GFP flags.
const ALLOC: (&str, &str) = ("kmem", "mm_page_alloc");

/// Migratetypes of a kernel with CMA, as distributions build it. linux: include/linux/mmzone.h:migratetype
pub(crate) const MIGRATETYPES: [i8; 6] = [
    migratetype::UNMOVABLE,
    migratetype::MOVABLE,
    migratetype::RECLAIMABLE,
    migratetype::HIGHATOMIC,
    migratetype::CMA,
    migratetype::ISOLATE,
];

/// Reason for dropping a record that is too short.
pub(crate) const SHORT: &str = "the record is shorter than its format";

/// Converter of records to items, which counts the other records.
#[derive(Debug)]
pub(crate) struct Records {
    rows: Decoder,
    names: Vec<(u16, NameEvent)>,
    /// For each event by its number: its name, and the number of its records that were passed over.
    passed: Vec<(String, u64)>,
    /// The kernel's GFP flags.
    pub gfp_names: BTreeMap<String, u64>,
    /// Problems of the formats, in sentences.
    pub notes: Vec<String>,
    /// Records that are shorter than their formats.
    pub drops: Drops,
}

impl Records {
    /// Creates the converter for the events of this kernel.
    pub(crate) fn new(tracing: &Tracing) -> Records {
        let gfp_names =
            tracing.format(ALLOC.0, ALLOC.1).map(|format| gfp::parse_names(format.print_format())).unwrap_or_default();
        let rows = Decoder::new(GfpMap::new(&gfp_names), MIGRATETYPES.to_vec());
        let (notes, drops) = (Vec::new(), Drops::default());
        let mut records = Records { rows, names: Vec::new(), passed: Vec::new(), gfp_names, notes, drops };
        for (system, format) in &tracing.formats {
            let id = usize::from(format.id);
            if records.passed.len() <= id {
                records.passed.resize(id + 1, (String::new(), 0));
            }
            records.passed[id].0 = format!("{system}:{}", format.name);
            if let Err(error) = records.rows.add(format) {
                records.notes.push(format!("{system}:{} was skipped: {error}", format.name));
            }
            records.names.extend(NameEvent::find(system, format).map(|event| (format.id, event)));
        }
        records
    }

    /// Returns the item of a record from `cpu`; `None` if there is none.
    #[inline]
    pub(crate) fn item(&mut self, time: u64, data: &[u8], cpu: u16) -> Option<Item> {
        match self.rows.decode(&RawEvent { time, data }, cpu) {
            Some(decoded) => Some(Item::Row { pid: decoded.pid, row: decoded.row }),
            None => self.other(data),
        }
    }

    #[cold]
    fn other(&mut self, data: &[u8]) -> Option<Item> {
        let id = Decoder::event_id(data)?;
        if let Some(kind) = self.rows.kind(id) {
            self.drops.add(Counted::Events(kind), SHORT, || format!("{} bytes", data.len()));
            return None;
        }
        let naming = self.names.iter().find(|(event_id, _)| *event_id == id);
        if let Some(item) = naming.and_then(|(_, event)| event.read(data)) {
            return Some(item);
        }
        if let Some((_, count)) = self.passed.get_mut(usize::from(id)) {
            *count += 1;
        }
        None
    }

    /// Returns the kind of rows that are made of the event with this number.
    pub(crate) fn kind(&self, id: u16) -> Option<Kind> {
        self.rows.kind(id)
    }

    /// Returns the number of records that were passed over, by event.
    pub(crate) fn passed(self) -> BTreeMap<String, u64> {
        self.passed.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}
