//! Cursor over Thrift's compact encoding, which Parquet uses for its footer and its page headers.
//!
//! It reads the two parts that parquet 60.1 does not check: the schema of a file ([`footer`](crate::footer)) and the
//! unpacked size of a page ([`pages`](crate::pages)). It allocates nothing, and bounds its recursion.

/// Error of bytes that are not Thrift, or that end too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThriftError;

/// Largest nesting depth of structures. Parquet's own stay below 8.
const DEPTH_MAX: u32 = 16;

/// Types of a field or a list element, as numbered by the encoding.
pub(crate) mod kind {
    pub(crate) const TRUE: u8 = 1;
    pub(crate) const FALSE: u8 = 2;
    pub(crate) const BYTE: u8 = 3;
    pub(crate) const I16: u8 = 4;
    pub(crate) const I32: u8 = 5;
    pub(crate) const I64: u8 = 6;
    pub(crate) const DOUBLE: u8 = 7;
    pub(crate) const BINARY: u8 = 8;
    pub(crate) const LIST: u8 = 9;
    pub(crate) const SET: u8 = 10;
    pub(crate) const STRUCT: u8 = 12;
}

/// Number of a field and the type of its value, which follows at the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub id: i16,
    pub kind: u8,
}

/// Forward reader of encoded bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], ThriftError> {
        let (head, tail) = self.bytes.split_at_checked(count).ok_or(ThriftError)?;
        self.bytes = tail;
        Ok(head)
    }

    fn byte(&mut self) -> Result<u8, ThriftError> {
        Ok(self.take(1)?[0])
    }

    fn varint(&mut self) -> Result<u64, ThriftError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ThriftError)
    }

    /// Reads an integer of 16, 32 or 64 bits.
    pub(crate) fn integer(&mut self) -> Result<i64, ThriftError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads a string or other bytes, which are preceded by their length.
    pub(crate) fn binary(&mut self) -> Result<&'a [u8], ThriftError> {
        let length = usize::try_from(self.varint()?).map_err(|_| ThriftError)?;
        self.take(length)
    }

    /// Reads the header of the next field of a structure; `None` at its end. `previous` is the number of the previous
    /// field (0 at the start).
    pub(crate) fn field(&mut self, previous: i16) -> Result<Option<Field>, ThriftError> {
        let header = self.byte()?;
        if header == 0 {
            return Ok(None);
        }
        let id = match header >> 4 {
            0 => i16::try_from(self.integer()?).map_err(|_| ThriftError)?,
            delta => previous.checked_add(delta.into()).ok_or(ThriftError)?,
        };
        Ok(Some(Field { id, kind: header & 0x0f }))
    }

    /// Reads the header of a list: the number of elements, and their type.
    pub(crate) fn list(&mut self) -> Result<(usize, u8), ThriftError> {
        let header = self.byte()?;
        let count = match header >> 4 {
            15 => usize::try_from(self.varint()?).map_err(|_| ThriftError)?,
            short => short.into(),
        };
        // Every element takes at least one byte.
        if count > self.bytes.len() { Err(ThriftError) } else { Ok((count, header & 0x0f)) }
    }

    /// Calls `visit` before the value of each field of a structure. If `visit` returns `false`, the value is skipped;
    /// if it returns `true`, it must have read the value.
    pub(crate) fn fields(
        &mut self,
        mut visit: impl FnMut(Field, &mut Self) -> Result<bool, ThriftError>,
    ) -> Result<(), ThriftError> {
        let mut previous = 0;
        while let Some(field) = self.field(previous)? {
            if !visit(field, self)? {
                self.skip(field.kind)?;
            }
            previous = field.id;
        }
        Ok(())
    }

    /// Skips the value of a field of this type.
    pub(crate) fn skip(&mut self, kind: u8) -> Result<(), ThriftError> {
        self.skip_within(kind, DEPTH_MAX)
    }

    fn skip_within(&mut self, kind: u8, depth: u32) -> Result<(), ThriftError> {
        let inner = depth.checked_sub(1).ok_or(ThriftError)?;
        match kind {
            kind::TRUE | kind::FALSE => {}
            kind::BYTE => drop(self.byte()?),
            kind::I16 | kind::I32 | kind::I64 => drop(self.varint()?),
            kind::DOUBLE => drop(self.take(8)?),
            kind::BINARY => drop(self.binary()?),
            kind::LIST | kind::SET => self.skip_list(inner)?,
            kind::STRUCT => self.skip_struct(inner)?,
            // Parquet has no maps.
            _ => return Err(ThriftError),
        }
        Ok(())
    }

    fn skip_list(&mut self, depth: u32) -> Result<(), ThriftError> {
        let (count, kind) = self.list()?;
        for _ in 0..count {
            match kind {
                // In a list a boolean takes a byte; in a field it is part of the field's header.
                kind::TRUE | kind::FALSE => drop(self.byte()?),
                other => self.skip_within(other, depth)?,
            }
        }
        Ok(())
    }

    fn skip_struct(&mut self, depth: u32) -> Result<(), ThriftError> {
        let mut previous = 0;
        while let Some(field) = self.field(previous)? {
            self.skip_within(field.kind, depth)?;
            previous = field.id;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thrift_structures_are_walked_by_field() {
        // Field 1: i32 -3; field 3: "ab"; field 4: list of two i32; field 20: true.
        let bytes = [0x15, 5, 0x28, 2, b'a', b'b', 0x19, 0x25, 2, 4, 0x01, 40, 0];
        let mut seen = Vec::new();
        let mut cursor = Cursor::new(&bytes);
        cursor
            .fields(|field, cursor| {
                seen.push((field.id, field.kind));
                Ok(match field.id {
                    1 => cursor.integer()? == -3,
                    3 => cursor.binary()? == b"ab",
                    _ => false,
                })
            })
            .unwrap();
        assert_eq!(seen, [(1, kind::I32), (3, kind::BINARY), (4, kind::LIST), (20, kind::TRUE)]);
        assert!(cursor.bytes.is_empty());
    }

    #[test]
    fn thrift_depth_and_sizes_are_bounded() {
        let nested = [0x1c; 1000];
        assert_eq!(Cursor::new(&nested).skip(kind::STRUCT), Err(ThriftError));
        let long_list = [0xf5, 0xff, 0xff, 0xff, 0xff, 0x07];
        assert_eq!(Cursor::new(&long_list).list(), Err(ThriftError));
        let endless_varint = [0xff; 11];
        assert_eq!(Cursor::new(&endless_varint).integer(), Err(ThriftError));
    }
}
