//! Cursor over untrusted bytes. Reads beyond the end return `None`, and no memory is reserved for bytes that do not
//! exist.

/// Forward reader in this machine's byte order. Files of the other byte order are refused before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    /// Total number of bytes.
    length: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes, length: bytes.len() }
    }

    /// Returns the number of bytes that were read.
    pub(crate) fn position(&self) -> u64 {
        (self.length - self.rest.len()) as u64
    }

    pub(crate) fn take(&mut self, size: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(size).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N as u64)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    /// Reads the bytes up to the next zero, and skips the zero.
    pub(crate) fn until_zero(&mut self) -> Option<&'a [u8]> {
        let end = memchr::memchr(0, self.rest)?;
        let text = self.take(end as u64);
        self.take(1)?;
        text
    }

    /// Skips these bytes if they come next; otherwise returns `None` and skips nothing.
    pub(crate) fn expect(&mut self, bytes: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(bytes)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_past_the_end_return_none() {
        let mut cursor = Cursor::new(b"ab\0\x01\x00");
        assert_eq!(cursor.until_zero(), Some(&b"ab"[..]));
        assert_eq!((cursor.u32(), cursor.u16(), cursor.u8()), (None, Some(1), None));
        assert_eq!((cursor.take(u64::MAX), cursor.until_zero(), cursor.u8()), (None, None, None));
        assert_eq!(cursor.position(), 5);
    }
}
