//! Allocators of the kinds whose pages the kernel places.
//!
//! ```text
//! Tables   reads one address in each 2 MiB: a page table, and no page. Unmapping a box frees them.
//! Pipes    writes a page to a pipe. Temporary boxes have page tables instead, which are allocated in the same way.
//! Buffers  sends a datagram to a socket that is never read: a block of four pages, or an object of a slab.
//! ```

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair, sockopt};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use super::error::Error;
use super::exact::PIPE_PAGES;
use super::order::Store;
use super::page_set::{PAGE, PAGEBLOCK_PAGES};
use super::region::{Access, Region};

/// Bytes that are written; their values do not matter.
static BYTES: [u8; 4 * PAGE] = [1; 4 * PAGE];

/// Addresses of which each pageblock's size has its own page table.
#[derive(Debug)]
pub(crate) struct Addresses {
    region: Region,
    used: usize,
}

impl Addresses {
    fn map(tables: usize) -> Result<Addresses, Error> {
        let region = Region::map(tables, Access::Read).map_err(Error::refused("map addresses"))?;
        Ok(Addresses { region, used: 0 })
    }

    fn add(&mut self) -> Result<(), Error> {
        self.region.read(self.used * PAGEBLOCK_PAGES).map_err(Error::refused("allocate a page table"))?;
        self.used += 1;
        Ok(())
    }
}

/// Allocator of page tables.
#[derive(Debug)]
pub(crate) struct Tables;

impl Store for Tables {
    type Box = Addresses;
    const UNIT: usize = 1;

    fn kept(&self, units: usize) -> Result<Addresses, Error> {
        Addresses::map(units)
    }

    fn passing(&self, units: usize) -> Result<Addresses, Error> {
        Addresses::map(units)
    }

    fn add(&self, to: &mut Addresses) -> Result<(), Error> {
        to.add()
    }
}

/// Allocator of pages in pipes.
#[derive(Debug)]
pub(crate) struct Pipes;

/// Pipes, or page tables instead.
#[derive(Debug)]
pub(crate) enum PipesOrTables {
    /// Both ends of each pipe, and the number of pages written.
    Pipes(Vec<(OwnedFd, OwnedFd)>, usize),
    /// Page tables.
    Tables(Addresses),
}

impl Store for Pipes {
    type Box = PipesOrTables;
    const UNIT: usize = 1;

    fn kept(&self, units: usize) -> Result<PipesOrTables, Error> {
        let pipes = (0..units.div_ceil(PIPE_PAGES)).map(|number| pipe((units - number * PIPE_PAGES).min(PIPE_PAGES)));
        Ok(PipesOrTables::Pipes(pipes.collect::<Result<_, _>>()?, 0))
    }

    fn passing(&self, units: usize) -> Result<PipesOrTables, Error> {
        Addresses::map(units).map(PipesOrTables::Tables)
    }

    fn add(&self, to: &mut PipesOrTables) -> Result<(), Error> {
        match to {
            PipesOrTables::Tables(addresses) => addresses.add(),
            PipesOrTables::Pipes(pipes, written) => {
                let (_, end) = &pipes[*written / PIPE_PAGES];
                *written += 1;
                let bytes = rustix::io::write(end, &BYTES[..PAGE]).map_err(Error::refused("fill a pipe"))?;
                if bytes == PAGE { Ok(()) } else { Err(Error::refused("fill a pipe")(Errno::NOBUFS)) }
            }
        }
    }
}

/// Opens an empty pipe with room for `pages` pages.
fn pipe(pages: usize) -> Result<(OwnedFd, OwnedFd), Error> {
    let pipe = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(Error::refused("open a pipe"))?;
    fcntl_setpipe_size(&pipe.1, pages * PAGE).map_err(Error::refused("enlarge a pipe"))?;
    Ok(pipe)
}

/// Allocator of datagrams, of which `count` fill a unit of `UNIT` pages.
#[derive(Debug)]
pub(crate) struct Buffers<const UNIT: usize> {
    /// Bytes of a datagram.
    bytes: usize,
    /// Datagrams of a unit.
    count: usize,
}

impl Buffers<4> {
    /// Datagrams that take a block of four pages each, since they are larger than any object of a slab.
    /// linux: mm/slub.c:__kmalloc_large_node_noprof
    pub(crate) const BLOCKS: Buffers<4> = Buffers { bytes: 15 << 10, count: 1 };
}

impl Buffers<8> {
    /// Datagrams of which eight fill a slab.
    pub(crate) const SLABS: Buffers<8> = Buffers { bytes: 3 << 10, count: 8 };
}

impl<const UNIT: usize> Store for Buffers<UNIT> {
    type Box = (OwnedFd, OwnedFd);
    const UNIT: usize = UNIT;

    fn kept(&self, units: usize) -> Result<Self::Box, Error> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair =
            socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None).map_err(Error::refused("open a socket"))?;
        // The kernel doubles this size, and charges at most twice the memory of a datagram.
        let room = units * UNIT * PAGE;
        sockopt::set_socket_send_buffer_size_force(&pair.0, room.max(PAGE * 64))
            .map_err(Error::refused("enlarge a socket's buffer"))?;
        Ok(pair)
    }

    fn passing(&self, units: usize) -> Result<Self::Box, Error> {
        self.kept(units)
    }

    fn add(&self, to: &mut Self::Box) -> Result<(), Error> {
        for _ in 0..self.count {
            send(to.0.as_fd(), &BYTES[..self.bytes], SendFlags::empty()).map_err(Error::refused("fill a socket"))?;
        }
        Ok(())
    }
}
