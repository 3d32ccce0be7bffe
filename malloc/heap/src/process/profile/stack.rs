//! Call stacks of requests: return addresses, innermost call first.

/// Most calls of a stack. Outer calls beyond this number are dropped.
pub(super) const FRAMES: usize = 64;
/// Most calls of a walk, including calls of this library, which are dropped from the stack.
pub(super) const CALLS: usize = FRAMES + 8;

/// Return addresses, innermost call first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack {
    /// Number of calls of this library at the start of `calls`.
    own: usize,
    count: usize,
    calls: [usize; CALLS],
}

impl Stack {
    pub(super) const EMPTY: Stack = Stack { own: 0, count: 0, calls: [0; CALLS] };

    /// Returns the return addresses of the program.
    pub(super) fn frames(&self) -> &[usize] {
        &self.calls[self.own..self.count]
    }

    /// Returns all return addresses.
    pub(super) fn calls(&self) -> &[usize] {
        &self.calls[..self.count]
    }

    /// Returns whether the stack has no room for another call.
    pub(super) fn is_full(&self) -> bool {
        self.count == CALLS || self.count - self.own == FRAMES
    }

    /// Adds the next outer call. A call of this library counts as such only if all calls before it do.
    pub(super) fn push(&mut self, address: usize, is_own: bool) {
        if is_own && self.own == self.count {
            self.own += 1;
        }
        self.calls[self.count] = address;
        self.count += 1;
    }
}
