//! Writes a synthetic recording of a large machine: `large_recording GIB EVENTS FILE`.
//!
//! It serves to measure the cost of a command on a large machine. Half of the pageblocks are free at the start, and the
//! others contain pages of tasks or of the kernel. Tasks then allocate and free single pages all over the free half.
//! The same arguments give the same file.

use std::error::Error;
use std::path::Path;

use freehold_trace::event::{class, migratetype};
use freehold_trace::facts::{Sample, Task, ZoneFacts};
use freehold_trace::{Facts, Kind, Row, Writer};

/// Pages of a GiB, and of a pageblock.
const GIB: u64 = 1 << 18;
const BLOCK: u64 = 512;
/// Nanoseconds between two events.
const STEP: u64 = 1000;
/// GFP masks: a page of a task, and one of the kernel.
const HIGHUSER_MOVABLE: u32 = 0x10_0cca;
const KERNEL: u32 = 0xcc0;

/// SplitMix64 generator.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [gib, events, path] = arguments.as_slice() else {
        return Err("give GIB EVENTS FILE, for example 64 5000000 large.parquet".into());
    };
    let (pages, events) = (gib.parse::<u64>()? * GIB, events.parse::<u64>()?);
    let mut writer = Writer::create(Path::new(path))?;
    let mut numbers = Numbers(1);
    let mut free = Vec::new();
    for block in 0..pages / BLOCK {
        let pfn = block * BLOCK;
        let row = match numbers.below(8) {
            0..4 => Row { pfn, order: 9, migratetype: migratetype::MOVABLE, ..Row::new(Kind::StartFree) },
            4 => Row { pfn, args: [BLOCK as i64, class::SLAB, 0], ..Row::new(Kind::StartAllocated) },
            _ => Row { pfn, args: [BLOCK as i64, class::LRU | class::ANON, 0], ..Row::new(Kind::StartAllocated) },
        };
        free.extend((row.kind == Kind::StartFree).then_some(pfn));
        writer.push(&row)?;
    }
    let all = [2, (pages / BLOCK) as i64, 0];
    writer.push(&Row { pfn: 0, migratetype: migratetype::MOVABLE, args: all, ..Row::new(Kind::StartPageblock) })?;
    let free_pages = free.len() as u64 * BLOCK;
    play(&mut writer, &mut numbers, &free, events)?;
    writer.finish(&facts(pages, free_pages, events * STEP))?;
    Ok(())
}

/// Writes events in which tasks allocate pages of the free blocks and free them, on two CPUs.
fn play(writer: &mut Writer, numbers: &mut Numbers, free: &[u64], events: u64) -> Result<(), Box<dyn Error>> {
    let mut live: Vec<u64> = Vec::new();
    let mut is_live = vec![false; free.len() * BLOCK as usize];
    for event in 0..events {
        let place = numbers.below(is_live.len() as u64) as usize;
        let (time, cpu, task) = ((event + 1) * STEP, (event % 2) as u16, 1 + (event % 2) as u32);
        let grows = live.len() * 2 < is_live.len() && numbers.below(5) < 3;
        if grows && !is_live[place] {
            is_live[place] = true;
            live.push(place as u64);
            let (gfp, migratetype) = match event % 16 {
                0 => (KERNEL, migratetype::UNMOVABLE),
                _ => (HIGHUSER_MOVABLE, migratetype::MOVABLE),
            };
            let pfn = pfn_at(free, place);
            writer.push(&Row { time, cpu, task, pfn, gfp, migratetype, ..Row::new(Kind::Alloc) })?;
        } else if !live.is_empty() {
            let freed = live.swap_remove(numbers.below(live.len() as u64) as usize) as usize;
            is_live[freed] = false;
            writer.push(&Row { time, cpu, task, pfn: pfn_at(free, freed), ..Row::new(Kind::Free) })?;
        }
    }
    Ok(())
}

/// Returns the frame at an index into all pages of the free blocks.
fn pfn_at(free: &[u64], place: usize) -> u64 {
    free[place / BLOCK as usize] + place as u64 % BLOCK
}

fn facts(pages: u64, free: u64, duration: u64) -> Facts {
    let zone = ZoneFacts {
        name: "Normal".to_owned(),
        spanned: pages,
        present: pages,
        managed: pages,
        free,
        min: pages / 1000,
        low: pages / 800,
        high: pages / 600,
        protection: vec![0; 4],
        ..ZoneFacts::default()
    };
    let samples = [0, duration].map(|time| Sample {
        time,
        vmstat: vec![0],
        buddyinfo: vec![vec![0, 0, 0, 0, 0, 0, 0, 0, 0, free / BLOCK, 0]],
        ..Sample::default()
    });
    Facts {
        writer: "large_recording".to_owned(),
        kernel_release: "6.12.0".to_owned(),
        machine: "x86_64".to_owned(),
        page_size: 4096,
        pageblock_order: 9,
        cpus: 2,
        duration,
        tasks: ["", "reader", "writer"].map(|name| Task { pid: 1, name: name.to_owned() }).to_vec(),
        ram: vec![(0, pages)],
        zones_start: vec![zone.clone()],
        zones_end: vec![zone],
        vmstat_names: vec!["pgscan_kswapd".to_owned()],
        samples: samples.to_vec(),
        ..Facts::default()
    }
}
