//! Reads the primitive encodings of the format at a position in a byte slice.

use super::error::{ReadError, Result};

/// A byte slice, and the position of the next byte to read.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    data: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Cursor { data, offset: 0 }
    }
    /// The number of bytes before the cursor.
    pub(super) fn offset(&self) -> usize {
        self.offset
    }
    /// The number of unread bytes.
    pub(super) fn remaining(&self) -> usize {
        self.data.len() - self.offset
    }
    /// The unread bytes.
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.data[self.offset..]
    }
    /// An error at the current offset.
    pub(super) fn error(&self, message: impl std::fmt::Display) -> ReadError {
        ReadError::at(self.offset, message)
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        Ok(self.bytes(1)?[0])
    }
    /// Reads `length` bytes.
    pub(super) fn bytes(&mut self, length: u64) -> Result<&'a [u8]> {
        if length > self.remaining() as u64 {
            return Err(ReadError::without_message());
        }
        let start = self.offset;
        self.offset += length as usize;
        Ok(&self.data[start..self.offset])
    }
    pub(super) fn byte_array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.bytes(N as u64)?.try_into().expect("`bytes` returns N bytes"))
    }

    /// Reads an unsigned LEB128 number of at most ten bytes. Overlong encodings are valid.
    pub(super) fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ReadError::without_message())
    }
    /// Reads a count. Like NVIDIA's reader, rejects a count above 2^32 - 2.
    pub(super) fn count(&mut self) -> Result<u64> {
        const MAX: u64 = u32::MAX as u64 - 1;
        let value = self.varint()?;
        if value > MAX {
            let message =
                format!("varint value exceeds maximum supported capacity. (expected value less than {MAX}, got {value}).");
            return Err(self.error(message));
        }
        Ok(value)
    }
    /// Reads a signed number in zig-zag encoding. Returns its bits in two's complement.
    pub(super) fn signed_varint(&mut self) -> Result<u64> {
        let value = self.varint()?;
        Ok((value >> 1) ^ (value & 1).wrapping_neg())
    }

    /// Reads a count and as many little-endian integers of N bytes.
    pub(super) fn array<T, const N: usize>(&mut self, decode: fn([u8; N]) -> T) -> Result<Box<[T]>> {
        let count = self.varint()?;
        if count > u64::from(u32::MAX) - 1 {
            return Err(self.error(format!("array size in bytecode ({count}) exceeds maximum supported capacity")));
        }
        if count > self.remaining() as u64 {
            // NVIDIA's reader consumes the available elements before it fails, so the error's offset is after these elements.
            self.offset = self.data.len() - self.remaining() % N;
            return Err(ReadError::without_message());
        }
        let mut items = Vec::with_capacity(count as usize);
        for _ in 0..count {
            items.push(decode(self.byte_array()?));
        }
        Ok(items.into_boxed_slice())
    }

    /// Skips bytes up to the next offset in the slice that is a multiple of `alignment` bytes.
    pub(super) fn align(&mut self, alignment: u64) -> Result<()> {
        if alignment < 2 {
            return Ok(());
        }
        if self.remaining() == 0 {
            return Err(ReadError::without_message());
        }
        let misalignment = self.offset as u64 % alignment;
        self.bytes((alignment - misalignment) % alignment)?;
        Ok(())
    }
}

/// Adds to an error a line with a message about the enclosing construct, such as the attribute that the reader was reading.
pub(super) trait ErrorContext<T> {
    fn context<D: std::fmt::Display>(self, cursor: &Cursor<'_>, message: impl FnOnce() -> D) -> Result<T>;
    fn with_message(self, cursor: &Cursor<'_>, message: &str) -> Result<T>;
}

impl<T> ErrorContext<T> for Result<T> {
    fn context<D: std::fmt::Display>(self, cursor: &Cursor<'_>, message: impl FnOnce() -> D) -> Result<T> {
        self.map_err(|error| error.with_outer_line(cursor.offset, message()))
    }
    fn with_message(self, cursor: &Cursor<'_>, message: &str) -> Result<T> {
        self.map_err(|error| error.with_outer_line(cursor.offset, message))
    }
}
