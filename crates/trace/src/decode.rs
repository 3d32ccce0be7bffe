//! From a raw event to a row.
//!
//! For every event that a recording knows there is a recipe: which field of the record goes where in the
//! [`Row`]. A [`Decoder`] is told the format files of the running kernel, looks each field up once, and then
//! fills rows at some tens of nanoseconds each. GFP flags and migratetypes are translated on the way to the
//! numbering of `FORMAT.md`.

use crate::event::{Kind, NO_MIGRATETYPE, NO_PFN, Row};
use crate::format::{EventFormat, Field, FormatError};
use crate::gfp::GfpMap;
use crate::ring::RawEvent;

/// Which column of a row a field's value goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Pfn,
    Order,
    Gfp,
    Migratetype,
    /// A kernel's own code, put into the column `migratetype` as it is.
    Status,
    Arg(u8),
    /// An argument that is a migratetype.
    ArgMigratetype(u8),
}

use Target::{Arg, ArgMigratetype, Gfp, Migratetype, Order, Pfn, Status};

/// How one kernel event becomes a row.
struct Recipe {
    event: &'static str,
    kind: Kind,
    /// Fields without which the row would mean nothing.
    required: &'static [(&'static str, Target)],
    /// Fields that some kernels lack; their columns then keep their defaults.
    optional: &'static [(&'static str, Target)],
}

const RECIPES: [Recipe; 17] = [
    Recipe {
        event: "mm_page_alloc",
        kind: Kind::Alloc,
        required: &[("pfn", Pfn), ("order", Order)],
        optional: &[("gfp_flags", Gfp), ("migratetype", Migratetype)],
    },
    Recipe { event: "mm_page_free", kind: Kind::Free, required: &[("pfn", Pfn), ("order", Order)], optional: &[] },
    Recipe {
        event: "mm_page_alloc_zone_locked",
        kind: Kind::ZoneLocked,
        required: &[("pfn", Pfn), ("order", Order)],
        optional: &[("migratetype", Migratetype), ("percpu_refill", Arg(0))],
    },
    Recipe {
        event: "mm_page_pcpu_drain",
        kind: Kind::PcpuDrain,
        required: &[("pfn", Pfn), ("order", Order)],
        optional: &[("migratetype", Migratetype)],
    },
    Recipe {
        event: "mm_page_alloc_extfrag",
        kind: Kind::ExtFrag,
        required: &[("pfn", Pfn), ("alloc_order", Order), ("fallback_order", Arg(0))],
        optional: &[
            ("alloc_migratetype", Migratetype),
            ("fallback_migratetype", ArgMigratetype(1)),
            ("change_ownership", Arg(2)),
        ],
    },
    Recipe {
        event: "mm_compaction_begin",
        kind: Kind::CompactionBegin,
        required: &[("migrate_pfn", Pfn)],
        optional: &[("zone_start", Arg(0)), ("free_pfn", Arg(1)), ("zone_end", Arg(2)), ("sync", Order)],
    },
    Recipe {
        event: "mm_compaction_end",
        kind: Kind::CompactionEnd,
        required: &[("migrate_pfn", Pfn), ("status", Status)],
        optional: &[("zone_start", Arg(0)), ("free_pfn", Arg(1)), ("zone_end", Arg(2)), ("sync", Order)],
    },
    Recipe {
        event: "mm_compaction_migratepages",
        kind: Kind::CompactionMigrate,
        required: &[("nr_migrated", Arg(0)), ("nr_failed", Arg(1))],
        optional: &[],
    },
    Recipe {
        event: "mm_vmscan_kswapd_wake",
        kind: Kind::KswapdWake,
        required: &[("nid", Arg(0)), ("order", Order)],
        optional: &[("zid", Arg(1))],
    },
    Recipe { event: "mm_vmscan_kswapd_sleep", kind: Kind::KswapdSleep, required: &[("nid", Arg(0))], optional: &[] },
    Recipe {
        event: "mm_vmscan_direct_reclaim_begin",
        kind: Kind::DirectReclaimBegin,
        required: &[("order", Order)],
        optional: &[("gfp_flags", Gfp)],
    },
    Recipe {
        event: "mm_vmscan_direct_reclaim_end",
        kind: Kind::DirectReclaimEnd,
        required: &[("nr_reclaimed", Arg(0))],
        optional: &[],
    },
    Recipe {
        event: "mm_vmscan_lru_shrink_inactive",
        kind: Kind::LruShrinkInactive,
        required: &[("nr_scanned", Arg(0)), ("nr_reclaimed", Arg(1))],
        optional: &[("nid", Arg(2))],
    },
    Recipe {
        event: "mm_vmscan_lru_shrink_active",
        kind: Kind::LruShrinkActive,
        required: &[("nr_taken", Arg(0)), ("nr_deactivated", Arg(1))],
        optional: &[("nid", Arg(2))],
    },
    Recipe {
        event: "mm_collapse_huge_page",
        kind: Kind::CollapseHugePage,
        required: &[("isolated", Arg(0)), ("status", Arg(1))],
        optional: &[],
    },
    Recipe {
        event: "alloc_vmap_area",
        kind: Kind::AllocVmapArea,
        required: &[("size", Arg(0))],
        optional: &[("failed", Arg(1))],
    },
    Recipe {
        event: "mm_migrate_pages",
        kind: Kind::MigratePages,
        required: &[("succeeded", Arg(0)), ("failed", Arg(1))],
        optional: &[("reason", Arg(2))],
    },
];

/// Fields that a row of this event would use and this kernel's event lacks; their columns keep their empty values.
pub fn lacking(format: &EventFormat) -> impl Iterator<Item = &'static str> {
    let recipe = RECIPES.iter().find(|recipe| recipe.event == format.name);
    let optional = recipe.map_or(&[][..], |recipe| recipe.optional);
    optional.iter().map(|&(name, _)| name).filter(|name| format.field(name).is_none())
}

/// An event as a row, and the thread in whose context it fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Thread id; 0 is the idle task.
    pub pid: u32,
    /// The row. Its time is the trace clock's, its task is 0: both are the caller's to set.
    pub row: Row,
}

/// Turns raw events of one kernel into rows.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// Plans for events, by the number that the kernel gave each.
    plans: Vec<Option<Plan>>,
    gfp: GfpMap,
    /// The recording's number of each of the kernel's migratetypes.
    migratetypes: Vec<i8>,
}

/// A recipe with the places of this kernel filled in.
#[derive(Clone, Debug)]
struct Plan {
    kind: Kind,
    pid: Field,
    steps: Vec<(Field, Target)>,
}

impl Decoder {
    /// A decoder that knows no event yet. `migratetypes` lists the recording's number for each of the
    /// kernel's, as [`procfs::migratetype_numbers`](crate::procfs::migratetype_numbers) reads them.
    pub fn new(gfp: GfpMap, migratetypes: Vec<i8>) -> Decoder {
        Decoder { plans: Vec::new(), gfp, migratetypes }
    }

    /// Tells the decoder an event's format. Answers the kind of its rows, or `None` if no row is made of this
    /// event; the decoder then passes it over.
    ///
    /// # Errors
    /// [`FormatError::MissingField`] if this kernel's event lacks what its row is about.
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

    /// The number of a record's event: the first two bytes, on every kernel.
    #[inline]
    pub fn event_id(record: &[u8]) -> Option<u16> {
        record.first_chunk().map(|&bytes| u16::from_ne_bytes(bytes))
    }

    /// The row of an event that fired on `cpu`; `None` if no row is made of this event, or its record is
    /// shorter than its format says.
    #[inline]
    pub fn decode(&self, event: &RawEvent<'_>, cpu: u16) -> Option<Decoded> {
        let id = Decoder::event_id(event.data)?;
        let plan = self.plans.get(usize::from(id))?.as_ref()?;
        let pid = plan.pid.unsigned(event.data)? as u32;
        let mut row = Row { time: event.time, cpu, ..Row::new(plan.kind) };
        for &(field, target) in &plan.steps {
            self.fill(&mut row, target, field.integer(event.data)?, field.size);
        }
        Some(Decoded { pid, row })
    }

    #[inline]
    fn fill(&self, row: &mut Row, target: Target, value: i64, size: usize) {
        match target {
            Pfn => row.pfn = pfn(value, size),
            // An order of -1 stands for "all of it" in requests from user space.
            Order => row.order = u8::try_from(value).unwrap_or(0),
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

/// All ones is "no page", in whatever width the kernel has for a pfn.
#[inline]
fn pfn(value: i64, size: usize) -> u64 {
    let mask = if size < 8 { (1 << (8 * size)) - 1 } else { u64::MAX };
    let value = value as u64 & mask;
    if value == mask { NO_PFN } else { value }
}
