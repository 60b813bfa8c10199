//! The string and constant tables. The reader copies each entry that the program uses into the module once, and drops the others.

use super::MAX_EXPANSION;
use super::cursor::{Cursor, ErrorContext};
use super::error::{ReadError, Result};
use crate::module::Constant;
use crate::types::{ConstantId, StringId};
use base::Arena;
use std::collections::{HashMap, HashSet};

/// An array of 32-bit little-endian offsets, decoded on access.
#[derive(Clone, Copy, Default)]
pub(super) struct Offsets<'a>(pub(super) &'a [u8]);

impl Offsets<'_> {
    pub(super) fn len(self) -> usize {
        self.0.len() / 4
    }
    pub(super) fn get(self, index: usize) -> Option<u32> {
        // The index comes from the file and may have any value.
        let bytes = self.0.get(index.checked_mul(4)?..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    }
}

/// Reads a table (count, padding, 32-bit offsets, data) and returns its offsets and data. `what` names the records in messages.
pub(super) fn read_offset_table<'a>(payload: &'a [u8], what: &str) -> Result<(Offsets<'a>, &'a [u8])> {
    let mut cursor = Cursor::new(payload);
    let count = cursor.varint()?;
    if count == 0 {
        return Ok((Offsets::default(), &[]));
    }
    check_fits(&cursor, count, 4, what)?;
    cursor.align(4)?;
    if cursor.remaining() == 0 {
        return Err(ReadError::without_message());
    }
    let offsets = cursor.bytes(count * 4)?;
    Ok((Offsets(offsets), cursor.rest()))
}

/// Checks that `count` records of at least `size` bytes fit in the remaining bytes.
pub(super) fn check_fits(cursor: &Cursor<'_>, count: u64, size: usize, what: &str) -> Result<()> {
    let (rest, max_count) = (cursor.remaining(), cursor.remaining() / size);
    if count > max_count as u64 {
        let message = format!(
            "number of {what} ({count}) exceeds the maximum of {max_count} that can fit in the remaining payload of {rest} bytes."
        );
        return Err(cursor.error(message));
    }
    Ok(())
}

/// The string table, and the strings that the reader has copied into the module.
pub(super) struct Strings<'a> {
    offsets: Offsets<'a>,
    data: &'a [u8],
    /// The id of each string by its index in the file; `None` for a string that was not copied.
    ids: Vec<Option<StringId>>,
    /// The id of each copied string, by its text.
    by_text: HashMap<String, StringId>,
    /// The bytes of the strings copied so far.
    copied_bytes: usize,
    /// The limit on `copied_bytes`; see [`MAX_EXPANSION`].
    max_copied_bytes: usize,
    /// The indices of strings that are not UTF-8.
    lossy_indices: HashSet<usize>,
    /// The index of the first string in `lossy_indices` that the program uses as a name, format or key. If there is one, the reader
    /// rejects the file after all other checks.
    pub(super) not_utf8: Option<u64>,
    /// The copied strings, which become the strings of the module.
    pub(super) arena: Arena<StringId, String>,
}

impl<'a> Strings<'a> {
    pub(super) fn new(payload: &'a [u8], file_size: usize) -> Result<Self> {
        let (offsets, data) = read_offset_table(payload, "strings")?;
        Ok(Strings {
            offsets,
            data,
            ids: vec![None; offsets.len()],
            by_text: HashMap::new(),
            copied_bytes: 0,
            max_copied_bytes: file_size * MAX_EXPANSION + 4096,
            lossy_indices: HashSet::new(),
            not_utf8: None,
            arena: Arena::new(),
        })
    }

    /// Returns the string with an index, which the program uses as a name, format or key. Records in `not_utf8` if the string is
    /// not UTF-8. Reason: the writer would write other bytes for this string.
    pub(super) fn get(&mut self, index: u64) -> Result<StringId> {
        let id = self.get_lossy(index)?;
        if self.lossy_indices.contains(&(index as usize)) {
            self.not_utf8.get_or_insert(index);
        }
        Ok(id)
    }

    /// Returns the string with an index, which only people read, such as a file name. The string may have any encoding; invalid
    /// UTF-8 becomes U+FFFD.
    pub(super) fn get_lossy(&mut self, index: u64) -> Result<StringId> {
        if index >= self.offsets.len() as u64 {
            return Err(ReadError::without_offset(format!("string index {index} out of bounds")));
        }
        let slot = index as usize;
        if let Some(id) = self.ids[slot] {
            return Ok(id);
        }
        let bytes = self.string_bytes(slot);
        self.copied_bytes += bytes.len();
        if self.copied_bytes > self.max_copied_bytes {
            return Err(ReadError::without_offset("strings overlap so much that together they are larger than the file"));
        }
        let text = String::from_utf8_lossy(bytes).into_owned();
        if text.as_bytes() != bytes {
            self.lossy_indices.insert(slot);
        }
        let id = match self.by_text.get(&text) {
            Some(id) => *id,
            None => {
                let id = self.arena.push(text.clone());
                self.by_text.insert(text, id);
                id
            }
        };
        self.ids[slot] = Some(id);
        Ok(id)
    }

    /// Returns the bytes of a string, which ends at the next offset. As in NVIDIA's reader, a string that ends after the data has
    /// the available bytes.
    fn string_bytes(&self, index: usize) -> &'a [u8] {
        let start = self.offsets.get(index).unwrap_or_default();
        let end = self.offsets.get(index + 1).unwrap_or(self.data.len() as u32);
        let from = (start as usize).min(self.data.len());
        let length = (end.wrapping_sub(start) as usize).min(self.data.len() - from);
        &self.data[from..from + length]
    }

    /// Reads a string index, and returns the string.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<StringId> {
        let index = cursor.varint()?;
        self.get(index)
    }
    pub(super) fn text(&self, id: StringId) -> &str {
        &self.arena[id]
    }
}

/// The records of the constant section, each of which is a length and data.
#[derive(Default)]
pub(super) struct Constants<'a> {
    offsets: &'a [u8],
    data: &'a [u8],
    /// The id of each constant by its index in the file; `None` for a constant that was not copied.
    ids: Vec<Option<ConstantId>>,
    pub(super) arena: Arena<ConstantId, Constant>,
}

impl<'a> Constants<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(payload);
        let count = cursor.count()?;
        if count == 0 {
            return Ok(Constants::default());
        }
        cursor.align(8)?;
        if (cursor.remaining() as u64 / 8) < count {
            return Err(cursor.error("insufficient data for constant indices"));
        }
        let offsets = cursor.bytes(count * 8)?;
        let constants = Constants { offsets, data: cursor.rest(), ids: vec![None; count as usize], arena: Arena::new() };
        for index in 0..count as usize {
            let (start, end, size) = (constants.offset(index), constants.offset(index + 1), constants.data.len());
            if end < start {
                let message =
                    format!("invalid constant start indices: end ({end}) is less than start ({start}) for constant {index}");
                return Err(cursor.error(message));
            }
            if end > size as u64 {
                let length = end - start;
                let message =
                    format!("constant {index} extends beyond available data: size={length}, start={start}, total data size={size}");
                return Err(cursor.error(message));
            }
        }
        Ok(constants)
    }

    /// The start of record `index` in `data`. For the index after the last record, the result is the end of the data.
    fn offset(&self, index: usize) -> u64 {
        match self.offsets.get(index * 8..index * 8 + 8) {
            Some(bytes) => u64::from_le_bytes(bytes.try_into().expect("eight bytes")),
            None => self.data.len() as u64,
        }
    }
    pub(super) fn len(&self) -> u64 {
        self.ids.len() as u64
    }

    /// Returns the id of a constant whose data `check` accepts. `index` must be in range. `check` runs for each use, because each
    /// use may have another type.
    pub(super) fn get(&mut self, index: u64, check: impl FnOnce(&[u8], &Cursor<'_>) -> Result<()>) -> Result<ConstantId> {
        let slot = index as usize;
        let mut cursor = Cursor::new(&self.data[self.offset(slot) as usize..self.offset(slot + 1) as usize]);
        let size = cursor.varint().with_message(&cursor, "failed to read the size of the data buffer")?;
        let data = cursor.bytes(size).with_message(&cursor, "failed to read the raw byte data")?;
        check(data, &cursor)?;
        Ok(*self.ids[slot].get_or_insert_with(|| self.arena.push(Constant { data: data.into() })))
    }
}

#[cfg(test)]
mod tests {
    use super::Offsets;

    #[test]
    fn get_accepts_an_index_of_any_size() {
        let offsets = Offsets(&[1, 0, 0, 0, 2, 0, 0, 0, 3]);
        let results = [0, 1, 2, 3, usize::MAX / 4, usize::MAX / 4 + 1, usize::MAX].map(|index| offsets.get(index));
        assert_eq!(results, [Some(1), Some(2), None, None, None, None, None]);
    }
}
