//! Test that compares a rebuilt start state with a scan of this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use freehold_trace::snapshot::flag;

use super::*;
use crate::command::Program;
use crate::machine::Machine;
use crate::observe::Texts;
use crate::tracefs::INSTANCES;
use crate::{Names, Plan, run, zones};
use freehold_trace::state::ALLOCATED;

/// Compacts memory; creates page cache, page tables, processes and large blocks, and frees most of them again.
const WORKLOAD: &str = "echo 1 > /proc/sys/vm/compact_memory; i=0; while [ $i -lt 150 ]; do /bin/true; i=$((i+1)); done; \
    head -c 64M /dev/zero > FILE; sync FILE; cat FILE > /dev/null; rm FILE; \
    i=0; while [ $i -lt 150 ]; do ls -lR /proc/self /usr/share > /dev/null 2>&1; i=$((i+50)); done; \
    dd if=/dev/zero bs=128M count=2 of=/dev/null 2>&1";

struct Silent;

impl Watch for Silent {
    fn wants_progress(&self) -> bool {
        false
    }
    fn scanning(&mut self) {}
    fn finishing(&mut self) {}
    fn running(&mut self, _: Duration, _: u64, _: u64) {}
    fn writing(&mut self, _: u64) {}
}

/// State of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameKind {
    Free,
    Allocated,
    /// The page flags are empty: the frame is on a per-CPU list, or a kernel page without flags.
    Flagless,
}

fn kind_of_frame(word: u32) -> Option<FrameKind> {
    match word {
        word if word & (flag::NOPAGE | flag::RESERVED | flag::OFFLINE) != 0 => None,
        word if word & flag::BUDDY != 0 => Some(FrameKind::Free),
        0 => Some(FrameKind::Flagless),
        _ => Some(FrameKind::Allocated),
    }
}

/// Returns a run of the workload with scans at the start and at the end, or `None` if this machine cannot be recorded.
fn recorded(folder: &Path) -> Option<Run> {
    let file = folder.join("file").display().to_string();
    let command = ["sh", "-c", &WORKLOAD.replace("FILE", &file)].map(OsString::from).to_vec();
    let plan = Plan {
        out: PathBuf::new(),
        duration: None,
        command,
        events: Vec::new(),
        stacks: None,
        names: Names::Command,
        identity: Identity::Kept,
        ring_kib: None,
        spool: folder.to_path_buf(),
    };
    let program = Program::find(&plan.command).ok()?;
    let machine = Machine::look().ok()?;
    let ram = zones::ram(&machine).ok()?;
    run::run(&plan, program.as_ref(), &machine, &ram, &Interrupts::deaf(), &mut Silent).ok()
}

/// Both states are of one moment and use the same events. Only one of them uses a scan at that moment.
#[test]
fn rebuilt_start_matches_a_scan() {
    let _alone = INSTANCES.lock();
    let folder = tempfile::tempdir().unwrap();
    let can = rustix::process::geteuid().is_root() && std::fs::File::open("/proc/kpageflags").is_ok();
    let Some(mut run) = can.then(|| recorded(folder.path())).flatten() else {
        return eprintln!("skipped: this machine cannot be recorded");
    };
    let interrupts = Interrupts::deaf();
    let mut watch = Silent;
    let scanned = Assembler::new(&mut run, &interrupts, &mut watch).unwrap().survey().unwrap();
    let Texts { zoneinfo, pagetypeinfo, .. } = run.start.texts().clone();
    let texts = Texts { zoneinfo, pagetypeinfo, slabinfo: String::new() };
    run.start = Opening::Unseen { moment: run.start.moment(), texts };
    let rebuilt = Assembler::new(&mut run, &interrupts, &mut watch).unwrap().survey().unwrap();
    let mut words = rebuilt.start.into_words();
    for block in &rebuilt.allocated {
        words[block.pfn as usize..(block.pfn + (1 << block.order)) as usize].fill(ALLOCATED);
    }
    let (mut frames, mut differ) = (0, std::collections::BTreeMap::new());
    for (&saw, &told) in scanned.start.words().iter().zip(&words) {
        let (Some(saw), Some(told)) = (kind_of_frame(saw), kind_of_frame(told)) else { continue };
        frames += 1;
        // A kernel page without flags is allocated, and its free event shows this.
        if saw != told && (saw, told) != (FrameKind::Flagless, FrameKind::Allocated) {
            *differ.entry(format!("{saw:?}, rebuilt as {told:?}")).or_insert(0_u64) += 1;
        }
    }
    let wrong: u64 = differ.values().sum();
    let events = rebuilt.events;
    println!("{events} events; {wrong} of {frames} frames differ: {differ:?}");
    println!("{}", rebuilt.notes.join("\n"));
    assert!(events > 20_000, "{events} events");
    // The counts in the file bound the error: pages that compaction moved, blocks that were allocated or freed
    // silently, and frames whose state in the last scan differs from that after their last event. The constant allows
    // for other activity on this machine.
    let Tally { taken_silently, returned_silently, ended_otherwise, moved, .. } = rebuilt.tally;
    let owned = taken_silently + returned_silently + ended_otherwise + moved;
    assert!(wrong <= 256 + 2 * owned, "{wrong} of {frames} frames differ, and {owned} are owned up to: {differ:?}");
}
