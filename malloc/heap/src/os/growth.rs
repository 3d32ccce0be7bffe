//! Ranges that are mapped as they grow.
//!
//! A range grows without gaps. If another mapping of the program blocks the way, [`Reservation::grow`] fails with
//! [`Errno::EXIST`], and no mapping is replaced. The owner of the range may then
//! [skip](Reservation::skip_to) the mapping: the range continues behind it, and has a [hole](super::holes) there.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Relaxed, Release};

use rustix::io::Errno;
use rustix::mm::ProtFlags;

use super::gap;
use super::holes::{Holes, page_of};
use super::mmap::{Region, Reservation, page_size, unmap};

impl Reservation {
    /// Chooses addresses for `bytes` bytes without mapping them. The range can be used as far as it [grew](Self::grow).
    /// The addresses are random, and far from those that the kernel chooses for other mappings, which therefore do not
    /// stop the growth. Ranges in different regions do not overlap.
    ///
    /// # Errors
    /// If the region has no room for such a range.
    ///
    /// # Panics
    /// If `align` is not a power of two.
    pub fn growing(bytes: usize, align: usize, region: Region) -> Result<Reservation, Errno> {
        let align = align.max(page_size());
        let size = bytes.max(1).checked_next_multiple_of(align).ok_or(Errno::NOMEM)?;
        let start = gap::find(size, align, region)?;
        Ok(Reservation { start, bytes: size, mapped: AtomicUsize::new(0), holes: Holes::new() })
    }

    /// Maps the range up to `end`, as far as it is not mapped yet; the new part can be read and written. One caller at
    /// a time may call this.
    ///
    /// # Errors
    /// [`Errno::EXIST`] if another mapping is in the way. Another error if `end` is beyond the range, or if a limit of
    /// the process or the system does not allow it. Nothing is changed then.
    pub fn grow(&self, end: usize) -> Result<(), Errno> {
        self.extend(end, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Maps the range up to `end` as [`grow`](Self::grow) does. The new part can be read, as zeros, and written after
    /// it is [committed](Self::commit); until then no system counts it as memory.
    ///
    /// # Errors
    /// As for [`grow`](Self::grow).
    pub fn grow_read_only(&self, end: usize) -> Result<(), Errno> {
        self.extend(end, ProtFlags::READ)
    }

    fn extend(&self, end: usize, protection: ProtFlags) -> Result<(), Errno> {
        let from = self.mapped.load(Relaxed);
        let to = end.checked_next_multiple_of(page_size()).filter(|&to| to <= self.bytes).ok_or(Errno::NOMEM)?;
        if to > from {
            gap::map(self.place(from), to - from, protection)?;
            self.mapped.store(to, Release);
        }
        Ok(())
    }

    /// Checks that the range can be mapped from `from` to `end`, as far as that is behind its mapped part. Costs two
    /// system calls. One caller at a time may call this.
    ///
    /// # Errors
    /// As for [`grow`](Self::grow).
    pub fn probe(&self, from: usize, end: usize) -> Result<(), Errno> {
        let from = floor(from).max(self.mapped.load(Relaxed));
        let to = end.checked_next_multiple_of(page_size()).filter(|&to| to <= self.bytes).ok_or(Errno::NOMEM)?;
        if to <= from {
            return Ok(());
        }
        gap::map(self.place(from), to - from, ProtFlags::empty())?;
        // SAFETY: the pages were just mapped, behind the part of the range that is in use.
        unsafe { unmap(self.place(from).cast(), to - from) }
    }

    /// Leaves a hole from the end of the mapped part up to `to`, rounded down to a whole page. From now on the range
    /// grows from there. Does nothing if that page is mapped. One caller at a time may call this.
    ///
    /// # Errors
    /// If `to` is beyond the range, or the range has [too many holes](super::holes::HOLES_MAX).
    pub fn skip_to(&self, to: usize) -> Result<(), Errno> {
        let (from, to) = (self.mapped.load(Relaxed), floor(to));
        if to > self.bytes {
            return Err(Errno::NOMEM);
        }
        if to > from {
            self.holes.push(page_of(from)..page_of(to))?;
            self.mapped.store(to, Release);
        }
        Ok(())
    }

    /// Unmaps the range from `end` on, rounded up to a whole page. It can grow again. One caller at a time may call
    /// this.
    ///
    /// # Errors
    /// If a hole is behind `end`, or the system refuses.
    ///
    /// # Safety
    /// The contents of the unmapped pages are not needed any more, and an access to them does not happen.
    pub unsafe fn shrink(&self, end: usize) -> Result<(), Errno> {
        let (end, mapped) = (end.next_multiple_of(page_size()), self.mapped.load(Relaxed));
        if page_of(end) < self.holes.last_end() {
            return Err(Errno::INVAL);
        }
        if end < mapped {
            // SAFETY: the pages are the end of this mapping, and the caller promises that they are not used any more.
            unsafe { unmap(self.place(end).cast(), mapped - end)? };
            self.mapped.store(end, Release);
        }
        Ok(())
    }

    /// Returns the number of bytes that are mapped when the range grows up to `end`.
    pub fn growth(&self, end: usize) -> usize {
        end.next_multiple_of(page_size()).saturating_sub(self.mapped())
    }

    /// Returns whether the byte at an offset is mapped.
    #[inline]
    pub fn has(&self, offset: usize) -> bool {
        offset < self.mapped() && (self.holes.is_empty() || !self.holes.overlap(page_of(offset)..page_of(offset) + 1))
    }

    /// Returns the holes, in pages of 4 KiB.
    pub(crate) fn holes(&self) -> &Holes {
        &self.holes
    }
}

fn floor(offset: usize) -> usize {
    offset / page_size() * page_size()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALIGN: usize = 4 << 20;
    const MIB: usize = 1 << 20;

    #[test]
    fn growing_range_is_mapped_as_far_as_it_grew() {
        for region in [Region::Lower, Region::Middle, Region::Upper] {
            let range = Reservation::growing(64 << 20, ALIGN, region).unwrap();
            assert_eq!(range.start().as_ptr().addr() % ALIGN, 0);
            assert_eq!(range.commit(0, 4096), Err(Errno::INVAL), "nothing is mapped yet");
            range.grow(8192).unwrap();
            range.grow(20_000).unwrap();
            // SAFETY: the range grew to 20,480 bytes, and only this test uses it.
            unsafe { range.start().add(20_479).write(1) };
            assert_eq!(range.grow((64 << 20) + 1), Err(Errno::NOMEM));
            let in_the_way = range.place(1 << 20);
            gap::map(in_the_way, 4096, ProtFlags::READ).unwrap();
            assert_eq!(range.grow(2 << 20), Err(Errno::EXIST), "another mapping is never replaced");
            range.grow(1 << 20).unwrap();
            // SAFETY: the page was just mapped and is not used.
            unsafe { unmap(in_the_way.cast(), 4096) }.unwrap();
        }
    }

    #[test]
    fn read_only_part_is_writable_where_it_is_committed() {
        let range = Reservation::growing(1 << 20, 1, Region::Lower).unwrap();
        range.grow_read_only(16_384).unwrap();
        range.commit(8192, 4096).unwrap();
        // SAFETY: four pages are readable, the third is writable, and only this test uses them.
        unsafe {
            range.start().add(8192).write(7);
            assert_eq!([0, 8192, 12_288].map(|at| range.start().add(at).read()), [0, 7, 0]);
        }
    }

    #[test]
    fn range_goes_on_behind_another_mapping() {
        let range = Reservation::growing(64 * MIB, ALIGN, Region::Lower).unwrap();
        range.grow(MIB).unwrap();
        let in_the_way = range.place(2 * MIB);
        gap::map(in_the_way, 4096, ProtFlags::READ).unwrap();
        assert_eq!(range.probe(MIB, 3 * MIB), Err(Errno::EXIST));
        assert_eq!(range.probe(0, MIB), Ok(()), "it is mapped");
        assert_eq!(range.probe(4 * MIB, 5 * MIB), Ok(()));
        range.skip_to(4 * MIB + 1).unwrap();
        assert_eq!((range.mapped(), range.growth(5 * MIB)), (4 * MIB, MIB));
        range.grow(5 * MIB).unwrap();
        assert_eq!([0, MIB, 2 * MIB, 4 * MIB, 5 * MIB].map(|at| range.has(at)), [true, false, false, true, false]);
        // SAFETY: the range is mapped from 4 MiB to 5 MiB, and only this test uses it.
        unsafe { range.start().add(5 * MIB - 1).write(7) };
        assert_eq!(range.commit(MIB - 4096, 8192), Err(Errno::INVAL), "a part of it is in the hole");
        range.commit(4 * MIB, MIB).unwrap();
        // SAFETY: the unmapped part is not used again before it is mapped.
        unsafe {
            assert_eq!(range.shrink(MIB), Err(Errno::INVAL), "another mapping is not unmapped");
            range.shrink(4 * MIB).unwrap();
        }
        assert!(range.holes.parts(page_of(range.mapped())).eq([(0, MIB), (4 * MIB, 0)]));
        assert_eq!(range.skip_to(65 * MIB), Err(Errno::NOMEM));
        drop(range);
        assert_eq!(gap::map(in_the_way, 4096, ProtFlags::READ), Err(Errno::EXIST), "it outlives the range");
        // SAFETY: the page was mapped above and is not used.
        unsafe { unmap(in_the_way.cast(), 4096) }.unwrap();
    }
}
