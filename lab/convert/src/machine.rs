//! Facts about the recorded machine, and guesses for unknown ones, each reported in a sentence.
//!
//! For the kernel, the processor, the CPUs and the page size, the order of precedence is: the user, the file with the
//! events, the file with the start state, a guess. Ranges of memory are those of the user's copy of `/proc/iomem`, of
//! the file with the start state, or of the user's copy of `/proc/zoneinfo`. Otherwise they are guessed from the size
//! that the user or the file with the events gives.

use std::fs;
use std::path::{Path, PathBuf};

use freehold_trace::Facts;
use freehold_trace::facts::ZoneFacts;
use freehold_trace::kernel::{PINNED, Release};
use freehold_trace::procfs::{PageTypeInfo, parse_iomem, parse_pagetypeinfo, parse_zoneinfo};

use crate::error::Error;
use crate::item::SourceFacts;
use crate::survey::{FRAMES_GUESSED, FRAMES_LOW, Survey};

/// Facts about the recorded machine that the user states. They take precedence over all others; some contradictions to
/// a file are errors.
#[derive(Clone, Debug, Default)]
pub struct MachineOverrides {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Number of CPUs.
    pub cpus: Option<u16>,
    /// Path of a copy of its `/proc/zoneinfo`.
    pub zoneinfo: Option<PathBuf>,
    /// Path of a copy of its `/proc/pagetypeinfo`.
    pub pagetypeinfo: Option<PathBuf>,
    /// Path of a copy of its `/proc/iomem`.
    pub iomem: Option<PathBuf>,
}

/// Default bytes of a page.
const PAGE_SIZE: u32 = 4096;
/// Default order of a pageblock of such pages.
const PAGEBLOCK_ORDER: u8 = 9;
/// Default processor.
const MACHINE: &str = "x86_64";
/// Frames of memory below 4 GiB on a machine with more memory: 3 GiB in pages of 4 KiB. The rest belongs to devices.
const RAM_LOW: u64 = 3 << 18;
/// Frames in 128 MiB, the unit in which memory comes.
/// linux: arch/x86/include/asm/sparsemem.h:SECTION_SIZE_BITS
const SECTION: u64 = 1 << 15;

/// Known and guessed facts about a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub kernel_release: String,
    pub machine: String,
    pub page_size: u32,
    pub pageblock_order: u8,
    pub cpus: u16,
    /// Frames of memory, `[start, end)`, in ascending order.
    pub ram: Vec<(u64, u64)>,
    /// Zones, if a file lists them.
    pub zones: Option<Vec<ZoneFacts>>,
    /// Pageblocks by type, if a file lists them.
    pub types: Option<PageTypeInfo>,
    /// Highest order of a block.
    pub order_max: u8,
    /// Guesses, in sentences.
    pub guesses: Vec<String>,
}

/// Largest number of frames of an import: 16 TiB of 4 KiB, the range of a frame number of 32 bits.
const FRAMES_MAX: u64 = 1 << 32;
/// Approximate bytes of this machine's memory that an import needs for each frame.
const BYTES_PER_FRAME: u64 = 16;

/// Returns the number of frames that the machine may have: those that the user or the file with the start state gives,
/// but at least those of 1 TiB.
///
/// # Errors
/// If that is more than an import can handle, or a file is not valid.
pub(crate) fn stated_frames(overrides: &MachineOverrides, start: &Facts) -> Result<u64, Error> {
    let zones = overrides.zoneinfo.as_deref().map(|path| parsed(path, parse_zoneinfo)).transpose()?;
    let iomem = overrides.iomem.as_deref().map(|path| parsed(path, |text| parse_iomem(text, PAGE_SIZE))).transpose()?;
    let memory =
        overrides.memory.map_or(0, |bytes| (bytes / u64::from(PAGE_SIZE)).saturating_add(FRAMES_LOW + SECTION));
    let zone_ends =
        zones.iter().flatten().chain(&start.zones_start).map(|zone| zone.start_pfn.saturating_add(zone.spanned));
    let ram_ends = iomem.iter().flatten().chain(&start.ram).map(|&(_, end)| end);
    let frames = zone_ends.chain(ram_ends).chain([memory]).max().unwrap_or(0);
    if frames <= FRAMES_GUESSED {
        return Ok(FRAMES_GUESSED);
    }
    let gib = frames / (1 << 18);
    if frames > FRAMES_MAX {
        return Err(Error::Machine(format!("the stated machine has frames up to {gib} GiB; give at most 16384 GiB")));
    }
    match available_bytes().filter(|available| frames * BYTES_PER_FRAME > *available) {
        Some(available) => Err(Error::Machine(format!(
            "an import for a machine with frames up to {gib} GiB takes about {} MiB of memory, but {} MiB are \
             available; import on a larger machine",
            (frames * BYTES_PER_FRAME) >> 20,
            available >> 20
        ))),
        None => Ok(frames),
    }
}

/// Returns the available memory of this machine in bytes, if its kernel shows it.
fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Highest orders of blocks by processor and page size. linux: include/linux/mmzone.h:MAX_PAGE_ORDER;
/// arch/arm64/Kconfig, arch/powerpc/Kconfig:ARCH_FORCE_MAX_ORDER
const ORDERS: [(&str, u32, u8); 3] = [("aarch64", 16384, 11), ("aarch64", 65536, 13), ("powerpc64", 65536, 8)];
/// Highest order on other machines.
const ORDER_USUAL: u8 = 10;

impl Machine {
    /// Determines the machine from the user's overrides, the files, and guesses. `start` has the facts in the file with
    /// the start state.
    ///
    /// # Errors
    /// If the facts contradict each other or are impossible.
    pub(crate) fn determine(
        overrides: &MachineOverrides,
        source: &SourceFacts,
        start: &Facts,
        survey: &Survey,
    ) -> Result<Machine, Error> {
        let mut machine = Machine::default();
        machine.name(overrides, source, start)?;
        machine.measure(overrides, source, start, survey)?;
        machine.zones = overrides.zoneinfo.as_deref().map(|path| parsed(path, parse_zoneinfo)).transpose()?;
        machine.types = overrides.pagetypeinfo.as_deref().map(|path| parsed(path, parse_pagetypeinfo)).transpose()?;
        if let Some(types) = &machine.types {
            machine.pageblock_order = types.pageblock_order;
        }
        machine.order_max = machine.highest_order(start, survey);
        machine.find_memory(overrides, source, start, survey)?;
        machine.expect_stated(overrides)?;
        Ok(machine)
    }

    /// Returns the highest order of a block, from free lists, or else from the processor and the events.
    fn highest_order(&self, start: &Facts, survey: &Survey) -> u8 {
        let shown = self.types.as_ref().map_or(&start.pagetypeinfo_start, |types| &types.types);
        let lists = shown.iter().map(|list| list.free.len()).max().and_then(|lists| u8::try_from(lists).ok());
        if let Some(lists) = lists.filter(|lists| *lists > 1) {
            return lists - 1;
        }
        let usual = ORDERS.iter().find(|(machine, size, _)| *machine == self.machine && *size == self.page_size);
        usual.map_or(ORDER_USUAL, |(.., order)| *order).max(survey.order_max)
    }

    /// Checks that the memory found matches the memory that the user states.
    ///
    /// # Errors
    /// If it does not.
    fn expect_stated(&self, overrides: &MachineOverrides) -> Result<(), Error> {
        let Some(stated) = overrides.memory else { return Ok(()) };
        let pages = match &self.zones {
            Some(zones) => zones.iter().map(|zone| zone.present).sum(),
            None => self.ram.iter().map(|(start, end)| end - start).sum::<u64>(),
        };
        let found = pages * u64::from(self.page_size);
        let slack = (stated / 20).max(SECTION * u64::from(self.page_size));
        if found.abs_diff(stated) <= slack {
            return Ok(());
        }
        Err(Error::Machine(format!(
            "--memory is {} MiB, but the files about the machine have {} MiB; leave out --memory",
            stated >> 20,
            found >> 20
        )))
    }

    fn guess(&mut self, sentence: impl Into<String>) {
        self.guesses.push(sentence.into());
    }

    /// Determines the kernel and the processor.
    fn name(&mut self, overrides: &MachineOverrides, source: &SourceFacts, start: &Facts) -> Result<(), Error> {
        let known = source.kernel_release.clone().or_else(|| start_text(start, &start.kernel_release));
        if let (Some(stated), Some(known)) = (&overrides.kernel, &known)
            && let (Some(one), Some(other)) = (Release::parse(stated), Release::parse(known))
            && one != other
        {
            return Err(contradiction("--kernel", stated, known));
        }
        let release = overrides
            .kernel
            .clone()
            .or(source.kernel_release.clone())
            .or_else(|| start_text(start, &start.kernel_release));
        self.kernel_release = release.unwrap_or_else(|| {
            self.guess(format!("The kernel is assumed to be Linux {PINNED}; --kernel gives the recorded kernel."));
            format!("{PINNED}.0")
        });
        if Release::parse(&self.kernel_release).is_none() {
            return Err(Error::Machine(format!(
                "`{}` is not a known Linux release (5.0 to 7.x); give the nearest release with --kernel",
                self.kernel_release
            )));
        }
        self.machine = source.machine.clone().or_else(|| start_text(start, &start.machine)).unwrap_or_else(|| {
            self.guess(format!("The processor is assumed to be {MACHINE}."));
            MACHINE.to_owned()
        });
        Ok(())
    }

    /// Determines the numbers of CPUs and the sizes of pages and pageblocks.
    fn measure(
        &mut self,
        overrides: &MachineOverrides,
        source: &SourceFacts,
        start: &Facts,
        survey: &Survey,
    ) -> Result<(), Error> {
        let source_cpus = source.cpus.and_then(|cpus| u16::try_from(cpus).ok()).filter(|cpus| *cpus > 0);
        let known = source_cpus.or((start.cpus > 0).then_some(start.cpus)).map(|cpus| cpus.max(survey.cpus));
        match (overrides.cpus, known) {
            (Some(stated), Some(known)) if stated != known => return Err(contradiction("--cpus", &stated, &known)),
            (Some(stated), None) if stated < survey.cpus => {
                return Err(Error::Machine(format!(
                    "--cpus is {stated}, but there are events of CPU {}; give at least {}",
                    survey.cpus - 1,
                    survey.cpus
                )));
            }
            _ => {}
        }
        let cpus = overrides.cpus.or(known);
        self.cpus = cpus.unwrap_or_else(|| {
            self.guess(format!(
                "The machine is assumed to have {} CPUs, up to the last CPU with an event; --cpus gives their number.",
                survey.cpus
            ));
            survey.cpus
        });
        let source_size = source.page_size.filter(|size| size.is_power_of_two());
        self.page_size = source_size.or((start.page_size > 0).then_some(start.page_size)).unwrap_or_else(|| {
            self.guess(format!("Pages are assumed to have {PAGE_SIZE} bytes."));
            PAGE_SIZE
        });
        self.pageblock_order = if start.pageblock_order > 0 {
            start.pageblock_order
        } else {
            if overrides.pagetypeinfo.is_none() {
                self.guess(format!(
                    "Pageblocks are assumed to have order {PAGEBLOCK_ORDER}; --pagetypeinfo gives the recorded types."
                ));
            }
            PAGEBLOCK_ORDER
        };
        Ok(())
    }

    /// Determines the ranges of memory.
    fn find_memory(
        &mut self,
        overrides: &MachineOverrides,
        source: &SourceFacts,
        start: &Facts,
        survey: &Survey,
    ) -> Result<(), Error> {
        let page_size = self.page_size;
        self.ram = if let Some(path) = &overrides.iomem {
            parsed(path, |text| parse_iomem(text, page_size))?
        } else if !start.ram.is_empty() {
            start.ram.clone()
        } else if let Some(zones) = &self.zones {
            zones.iter().map(|zone| (zone.start_pfn, zone.start_pfn + zone.spanned)).collect()
        } else {
            self.guessed_memory(overrides, source, survey)?
        };
        self.ram.sort_unstable();
        Ok(())
    }

    /// Returns guessed ranges of memory: as much as the user or the file states, or as events name.
    fn guessed_memory(
        &mut self,
        overrides: &MachineOverrides,
        source: &SourceFacts,
        survey: &Survey,
    ) -> Result<Vec<(u64, u64)>, Error> {
        let page_size = u64::from(self.page_size);
        expect_memory(overrides.memory, source.memory)?;
        let known = overrides.memory.or(source.memory).map(|bytes| bytes / page_size);
        let ram = laid_out(known.unwrap_or(0).next_multiple_of(SECTION), survey.frames, survey.frames_low);
        let all: u64 = ram.iter().map(|(start, end)| end - start).sum();
        let mib = (all * page_size) >> 20;
        // Without a hole, all frames are below the end of memory.
        let reach = if ram.len() == 1 { survey.frames } else { all };
        if let Some(pages) = overrides
            .memory
            .map(|bytes| bytes / page_size)
            .filter(|pages| *pages < reach && (ram.len() == 1 || pages.next_multiple_of(SECTION) < all))
        {
            return Err(Error::Machine(format!(
                "--memory is {} MiB, but events name frames of a machine with at least {} MiB; give more",
                (pages * page_size) >> 20,
                mib
            )));
        }
        let how = match (overrides.memory, source.memory) {
            (Some(stated), _) if stated >> 20 != mib => "the stated size, rounded up to whole sections",
            (Some(_), _) => "the stated size",
            (_, Some(_)) => "the size in the file",
            _ => "up to the last frame of an event; --memory gives the recorded size",
        };
        let holes = if ram.len() > 1 { " except below 4 GiB" } else { "" };
        self.guess(format!("Memory is assumed to be {} MiB without holes{holes}: {how}.", mib));
        Ok(ram)
    }

    /// Returns the end of the last frame range, rounded up to whole pageblocks.
    pub(crate) fn frames(&self) -> u64 {
        let end = self.ram.iter().map(|&(_, end)| end).max().unwrap_or(0);
        end.next_multiple_of(1 << self.pageblock_order)
    }

    /// Returns the pages of memory between two frames.
    pub(crate) fn pages_in(&self, first: u64, end: u64) -> u64 {
        self.ram.iter().map(|&(from, to)| to.min(end).saturating_sub(from.max(first))).sum()
    }
}

/// Returns the error that an option contradicts the file.
fn contradiction(option: &str, stated: &dyn std::fmt::Display, known: &dyn std::fmt::Display) -> Error {
    Error::Machine(format!("{option} is {stated}, but the file has {known}; leave out {option}"))
}

/// Checks the memory that the user states against the file. The file gives the memory that the kernel can use, which is
/// a few percent less than the installed memory, and still less if some was reserved at boot.
fn expect_memory(stated: Option<u64>, known: Option<u64>) -> Result<(), Error> {
    let (Some(stated), Some(known)) = (stated, known) else { return Ok(()) };
    let most = known.saturating_add(known / 2).saturating_add(4 << 30);
    if (known..=most).contains(&stated) {
        return Ok(());
    }
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    Err(contradiction("--memory", &mib(stated), &mib(known)))
}

/// Returns a text of the file with the start state, unless it is empty or the file has no facts about its machine.
fn start_text(start: &Facts, text: &str) -> Option<String> {
    (!text.is_empty() && !start.zones_start.is_empty()).then(|| text.to_owned())
}

/// Returns ranges for `pages` pages of memory on a machine whose events name frames below `frames`, and below
/// `frames_low` under 4 GiB.
fn laid_out(pages: u64, frames: u64, frames_low: u64) -> Vec<(u64, u64)> {
    let (frames, frames_low) = (frames.next_multiple_of(SECTION), frames_low.next_multiple_of(SECTION));
    if frames <= FRAMES_LOW && pages <= RAM_LOW {
        return vec![(0, frames.max(pages))];
    }
    // The hole below 4 GiB has the size that the last frame requires, and otherwise 1 GiB.
    let above = frames.saturating_sub(FRAMES_LOW);
    let low_usual = RAM_LOW.min(pages.saturating_sub(above)).max(if pages == 0 { RAM_LOW } else { SECTION });
    let low = low_usual.max(frames_low).min(FRAMES_LOW);
    let high = (FRAMES_LOW + pages.saturating_sub(low)).max(frames);
    if low == FRAMES_LOW {
        return vec![(0, high)];
    }
    if high <= FRAMES_LOW {
        return vec![(0, low)];
    }
    vec![(0, low), (FRAMES_LOW, high)]
}

/// Reads and parses a copy of a `/proc` text that the user names.
fn parsed<T, E: std::fmt::Display>(path: &Path, parse: impl FnOnce(&str) -> Result<T, E>) -> Result<T, Error> {
    let bytes = fs::read(path).map_err(Error::read(path))?;
    parse(&String::from_utf8_lossy(&bytes))
        .map_err(|error| Error::Start { path: path.to_path_buf(), reason: format!("cannot be parsed: {error}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 18;

    #[test]
    fn memory_layout_defaults_to_a_usual_machine() {
        assert_eq!(laid_out(GIB, 1000, 1000), [(0, GIB)], "what is said");
        assert_eq!(laid_out(0, GIB - 1, GIB - 1), [(0, GIB)], "what events name");
        assert_eq!(laid_out(8 * GIB, 5, 5), [(0, 3 * GIB), (4 * GIB, 9 * GIB)]);
        assert_eq!(laid_out(8 * GIB, 10 * GIB, 5), [(0, 2 * GIB), (4 * GIB, 10 * GIB)], "a larger hole");
        assert_eq!(laid_out(8 * GIB, 13 * GIB, 5)[1], (4 * GIB, 13 * GIB), "events know better");
        assert_eq!(laid_out(8 * GIB, 5, 4 * GIB - 1), [(0, 8 * GIB)], "no hole where events name frames");
        assert_eq!(laid_out(0, 4 * GIB - SECTION, 4 * GIB - SECTION), [(0, 4 * GIB - SECTION)]);
    }
}
