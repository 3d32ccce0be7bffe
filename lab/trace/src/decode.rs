//! Decoder from raw trace events to rows.
//!
//! `recipes.rs` has a recipe for every known event: it maps the fields of the record to the columns of the [`Row`]. A
//! [`Decoder`] gets the format files of the running kernel, looks each field up once, and then fills each row in some
//! tens of nanoseconds. It translates GFP flags and migratetypes to the numbering of `FORMAT.md`.

use crate::check::PFN_LIMIT;
use crate::event::{Kind, NO_MIGRATETYPE, NO_PFN, Row};
use crate::format::{EventFormat, Field, FormatError};
use crate::gfp::GfpMap;
use crate::recipes::Target::{self, Arg, ArgMigratetype, Gfp, Migratetype, Order, Pfn, Status};
use crate::recipes::{RECIPES, Recipe};
use crate::ring::RawEvent;

/// Returns the fields that rows of this event could use but that this kernel's event lacks. Their columns keep their
/// empty values.
pub fn lacking(format: &EventFormat) -> impl Iterator<Item = &'static str> {
    let recipe = RECIPES.iter().find(|recipe| recipe.event == format.name);
    let optional = recipe.map_or(&[][..], |recipe| recipe.optional);
    optional.iter().map(|&(name, _)| name).filter(|name| format.field(name).is_none())
}

/// An event as a row, and the thread in whose context it fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedEvent {
    /// Thread id; 0 is the idle task.
    pub pid: u32,
    /// The row. Its time is that of the trace clock, and its task is 0. The caller has to set both.
    pub row: Row,
}

/// Decoder of raw events of one kernel.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// Plans for events, by the kernel's event number.
    plans: Vec<Option<Plan>>,
    gfp: GfpMap,
    /// Recording's number of each of the kernel's migratetypes.
    migratetypes: Vec<i8>,
}

/// A recipe with the field positions of this kernel.
#[derive(Clone, Debug)]
struct Plan {
    kind: Kind,
    pid: Field,
    steps: Vec<(Field, Target)>,
}

impl Decoder {
    /// Creates a decoder that knows no event yet. `migratetypes` lists the recording's number of each of the kernel's
    /// migratetypes, as returned by [`procfs::migratetype_numbers`](crate::procfs::migratetype_numbers).
    pub fn new(gfp: GfpMap, migratetypes: Vec<i8>) -> Decoder {
        Decoder { plans: Vec::new(), gfp, migratetypes }
    }

    /// Adds an event's format. Returns the kind of its rows; `None` if no row is made of this event, which the decoder
    /// then ignores.
    ///
    /// # Errors
    /// [`FormatError::MissingField`] if this kernel's event lacks a required field.
    pub fn add(&mut self, format: &EventFormat) -> Result<Option<Kind>, FormatError> {
        let Some(recipe) = RECIPES.iter().find(|recipe| recipe.event == format.name) else {
            return Ok(None);
        };
        let plan = Plan::new(recipe, format)?;
        let index = usize::from(format.id);
        if self.plans.len() <= index {
            self.plans.resize(index + 1, None);
        }
        self.plans[index] = Some(plan);
        Ok(Some(recipe.kind))
    }

    /// Returns the event number of a record, which is in its first two bytes on every kernel; `None` if the record is
    /// shorter.
    #[inline]
    pub fn event_id(record: &[u8]) -> Option<u16> {
        record.first_chunk().map(|&bytes| u16::from_ne_bytes(bytes))
    }

    /// Returns the kind of rows of the event with this number; `None` if no row is made of it.
    pub fn kind(&self, id: u16) -> Option<Kind> {
        self.plans.get(usize::from(id))?.as_ref().map(|plan| plan.kind)
    }

    /// Returns the row of an event that fired on `cpu`; `None` if no row is made of this event, or its record is
    /// shorter than its format.
    #[inline]
    pub fn decode(&self, event: &RawEvent<'_>, cpu: u16) -> Option<DecodedEvent> {
        let id = Decoder::event_id(event.data)?;
        let plan = self.plans.get(usize::from(id))?.as_ref()?;
        let pid = plan.pid.unsigned(event.data)? as u32;
        let mut row = Row { time: event.time, cpu, ..Row::new(plan.kind) };
        for &(field, target) in &plan.steps {
            self.fill(&mut row, target, field.integer(event.data)?, field.size);
        }
        Some(DecodedEvent { pid, row })
    }

    #[inline]
    fn fill(&self, row: &mut Row, target: Target, value: i64, size: usize) {
        match target {
            Pfn => row.pfn = first_frame(row.kind, pfn(value, size)),
            Order => row.order = order(row.kind, value),
            Gfp => row.gfp = self.gfp.translate(value as u64),
            Migratetype => row.migratetype = self.migratetype(value),
            Status => row.migratetype = i8::try_from(value).unwrap_or(NO_MIGRATETYPE).max(NO_MIGRATETYPE),
            Arg(index) => row.args[usize::from(index)] = value,
            ArgMigratetype(index) => row.args[usize::from(index)] = self.migratetype(value).into(),
        }
    }

    #[inline]
    fn migratetype(&self, number: i64) -> i8 {
        let known = usize::try_from(number).ok().and_then(|index| self.migratetypes.get(index));
        known.copied().unwrap_or(NO_MIGRATETYPE)
    }
}

impl Plan {
    fn new(recipe: &Recipe, format: &EventFormat) -> Result<Plan, FormatError> {
        let mut steps = Vec::new();
        for &(name, target) in recipe.required {
            steps.push((format.require(name)?, target));
        }
        let optional = recipe.optional.iter();
        steps.extend(optional.filter_map(|&(name, target)| Some((format.field(name)?, target))));
        if let Some((field, _)) = steps.iter().find(|(field, _)| !matches!(field.size, 1 | 2 | 4 | 8)) {
            let name = format.field_names().find(|name| format.field(name) == Some(*field));
            let field = name.unwrap_or_default().to_owned();
            return Err(FormatError::Misplaced { event: format.name.clone(), field });
        }
        Ok(Plan { kind: recipe.kind, pid: format.require("common_pid")?, steps })
    }
}

/// Returns the order of a block or of a request. The request from user space to compact all of memory has the order -1,
/// which becomes 0. Any other value that is no order becomes one that every reader refuses.
#[inline]
pub fn order(kind: Kind, value: i64) -> u8 {
    let is_block = matches!(kind, Kind::Alloc | Kind::Free | Kind::ZoneLocked | Kind::PcpuDrain | Kind::ExtFrag);
    if !is_block && matches!(value, -1 | 0xffff_ffff) { 0 } else { u8::try_from(value).unwrap_or(u8::MAX) }
}

/// Returns the frame of an event. A quick search of compaction computes its first frame from the distance of its two
/// scanners. If these have passed each other, the kernel reports a frame that no memory has, which becomes "no page".
/// linux: mm/compaction.c:fast_isolate_freepages
#[inline]
fn first_frame(kind: Kind, pfn: u64) -> u64 {
    if kind == Kind::FastIsolateFreePages && pfn >= PFN_LIMIT { NO_PFN } else { pfn }
}

/// Returns a frame number. A field of any width in which all bits are set means "no page".
#[inline]
fn pfn(value: i64, size: usize) -> u64 {
    let mask = if size < 8 { (1 << (8 * size)) - 1 } else { u64::MAX };
    let value = value as u64 & mask;
    if value == mask { NO_PFN } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_between_scanners_that_passed_each_other_has_no_first_frame() {
        let frame = |kind, bits: u64| first_frame(kind, pfn(bits as i64, 8));
        assert_eq!(frame(Kind::FastIsolateFreePages, (1 << 63) + 38_400), NO_PFN);
        assert_eq!(frame(Kind::FastIsolateFreePages, 38_400), 38_400);
        assert_eq!(frame(Kind::Alloc, 1 << 63), 1 << 63, "a frame of an allocation must exist");
    }
}
