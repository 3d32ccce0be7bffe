//! A minimal parser for flattened device trees, which finds the memory and the number of CPUs.
//!
//! A tree is a sequence of big-endian words. A node begins with its name; a property has a length and the offset of its
//! name in the string table; a token marks the end of a node. The tree is read in place, before its memory is handed to
//! the allocator.

use freehold::kernel::Region;

const MAGIC: u32 = 0xd00d_feed;
const BEGIN_NODE: u32 = 1;
const PROPERTY: u32 = 3;
const NOP: u32 = 4;
const END_NODE: u32 = 2;

/// Indices of header words: the offsets of the structure and of the strings.
const STRUCTURE: usize = 2;
const STRINGS: usize = 3;

/// A device tree in memory.
#[derive(Clone, Copy)]
pub struct DeviceTree {
    start: usize,
}

/// An element that a walk visits, in addition to the name of its node.
enum Item {
    Node,
    Property { name: usize, value: usize },
}

impl DeviceTree {
    /// Returns the device tree at an address.
    ///
    /// # Safety
    /// A device tree is at this address, and it is not overwritten until the last use of the value.
    pub unsafe fn from_address(start: usize) -> DeviceTree {
        let tree = DeviceTree { start };
        assert_eq!(tree.word(start), MAGIC, "there is no device tree at this address");
        tree
    }

    fn byte(self, at: usize) -> u8 {
        // SAFETY: `from_address` requires that the tree is present, and `at` is inside it because the walk follows its
        // structure.
        unsafe { core::ptr::with_exposed_provenance::<u8>(at).read() }
    }

    fn word(self, at: usize) -> u32 {
        (0..4).fold(0, |word, offset| word << 8 | u32::from(self.byte(at + offset)))
    }

    fn double(self, at: usize) -> u64 {
        u64::from(self.word(at)) << 32 | u64::from(self.word(at + 4))
    }

    fn begins_with(self, at: usize, text: &str) -> bool {
        text.bytes().enumerate().all(|(offset, byte)| self.byte(at + offset) == byte)
    }

    fn len(self, at: usize) -> usize {
        (at..).take_while(|&at| self.byte(at) != 0).count()
    }

    /// Visits each node, and each property with the name of its node.
    fn walk(self, mut show: impl FnMut(usize, Item)) {
        let [structure, strings] = [STRUCTURE, STRINGS].map(|at| self.start + self.word(self.start + 4 * at) as usize);
        let (mut at, mut node) = (structure, structure);
        loop {
            let token = self.word(at);
            at += 4;
            match token {
                BEGIN_NODE => {
                    node = at;
                    show(node, Item::Node);
                    at += (self.len(at) + 1).next_multiple_of(4);
                }
                PROPERTY => {
                    let (len, name) = (self.word(at) as usize, strings + self.word(at + 4) as usize);
                    show(node, Item::Property { name, value: at + 8 });
                    at += 8 + len.next_multiple_of(4);
                }
                NOP | END_NODE => {}
                _ => return,
            }
        }
    }

    /// Returns the number of CPUs.
    pub fn cpus(self) -> u32 {
        let mut cpus = 0;
        self.walk(|node, item| cpus += u32::from(matches!(item, Item::Node) && self.begins_with(node, "cpu@")));
        cpus
    }

    /// Returns the memory: one region, whose address and size have two words each.
    pub fn memory(self) -> impl Iterator<Item = Region> + Clone {
        let mut memory = None;
        self.walk(|node, item| {
            if let Item::Property { name, value } = item
                && self.begins_with(node, "memory@")
                && self.begins_with(name, "reg\0")
            {
                memory = Some(Region::usable(self.double(value), self.double(value + 8)));
            }
        });
        memory.into_iter()
    }
}
