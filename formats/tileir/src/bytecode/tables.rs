//! The string and constant tables. Entries in use are copied into the module once; others are dropped.

use super::EXPANSION;
use super::cursor::{Context, Cursor};
use super::error::{ReadError, Result};
use crate::module::Constant;
use crate::types::{ConstantId, StringId};
use base::Arena;
use std::collections::{HashMap, HashSet};

/// Little-endian offsets, decoded on access.
#[derive(Clone, Copy, Default)]
pub(super) struct Offsets<'a>(pub(super) &'a [u8]);

impl Offsets<'_> {
    pub(super) fn len(self) -> usize {
        self.0.len() / 4
    }
    pub(super) fn get(self, index: usize) -> Option<u32> {
        // The file supplies the index.
        let bytes = self.0.get(index.checked_mul(4)?..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    }
}

/// A table of `u32` offsets and their data: count, padding, offsets, data.
pub(super) fn offset_table<'a>(payload: &'a [u8], what: &str) -> Result<(Offsets<'a>, &'a [u8])> {
    let mut cursor = Cursor::new(payload);
    let count = cursor.varint()?;
    if count == 0 {
        return Ok((Offsets::default(), &[]));
    }
    check_fits(&cursor, count, 4, what)?;
    cursor.align(4)?;
    if cursor.remaining() == 0 {
        return Err(ReadError::silent());
    }
    let offsets = cursor.bytes(count * 4)?;
    Ok((Offsets(offsets), cursor.rest()))
}

pub(super) fn check_fits(cursor: &Cursor<'_>, count: u64, size: usize, what: &str) -> Result<()> {
    let (rest, most) = (cursor.remaining(), cursor.remaining() / size);
    if count > most as u64 {
        let message = format!(
            "number of {what} ({count}) exceeds the maximum of {most} that can fit in the remaining payload of {rest} bytes."
        );
        return Err(cursor.error(message));
    }
    Ok(())
}

pub(super) struct Strings<'a> {
    offsets: Offsets<'a>,
    data: &'a [u8],
    ids: Vec<Option<StringId>>,
    by_text: HashMap<String, StringId>,
    copied: usize,
    limit: usize,
    /// The indices of strings that are not UTF-8.
    lossy: HashSet<usize>,
    /// The first such string in the program itself. The reader rejects the file for it after all other checks.
    pub(super) not_utf8: Option<u64>,
    pub(super) arena: Arena<StringId, String>,
}

impl<'a> Strings<'a> {
    pub(super) fn new(payload: &'a [u8], file_size: usize) -> Result<Self> {
        let (offsets, data) = offset_table(payload, "strings")?;
        Ok(Strings {
            offsets,
            data,
            ids: vec![None; offsets.len()],
            by_text: HashMap::new(),
            copied: 0,
            limit: file_size * EXPANSION + 4096,
            lossy: HashSet::new(),
            not_utf8: None,
            arena: Arena::new(),
        })
    }

    /// A string of the program. A name, format or key that is not UTF-8 would change in the output.
    pub(super) fn get(&mut self, index: u64) -> Result<StringId> {
        let id = self.get_lossy(index)?;
        if self.lossy.contains(&(index as usize)) {
            self.not_utf8.get_or_insert(index);
        }
        Ok(id)
    }

    /// A string for people, such as a file name, which may have any encoding. Invalid UTF-8 becomes U+FFFD.
    pub(super) fn get_lossy(&mut self, index: u64) -> Result<StringId> {
        if index >= self.offsets.len() as u64 {
            return Err(ReadError::plain(format!("string index {index} out of bounds")));
        }
        let slot = index as usize;
        if let Some(id) = self.ids[slot] {
            return Ok(id);
        }
        let bytes = self.slice(slot);
        self.copied += bytes.len();
        if self.copied > self.limit {
            return Err(ReadError::plain("strings overlap so much that together they are larger than the file"));
        }
        let text = String::from_utf8_lossy(bytes).into_owned();
        if text.as_bytes() != bytes {
            self.lossy.insert(slot);
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

    /// A string ends at the next offset. As in NVIDIA's reader, an offset past the end gives the available bytes.
    fn slice(&self, index: usize) -> &'a [u8] {
        let start = self.offsets.get(index).unwrap_or_default();
        let end = self.offsets.get(index + 1).unwrap_or(self.data.len() as u32);
        let from = (start as usize).min(self.data.len());
        let length = (end.wrapping_sub(start) as usize).min(self.data.len() - from);
        &self.data[from..from + length]
    }

    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<StringId> {
        let index = cursor.varint()?;
        self.get(index)
    }
    pub(super) fn text(&self, id: StringId) -> &str {
        &self.arena[id]
    }
}

/// The raw records of the constant section, each a length and data.
#[derive(Default)]
pub(super) struct Constants<'a> {
    offsets: &'a [u8],
    data: &'a [u8],
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
        let table = Constants { offsets, data: cursor.rest(), ids: vec![None; count as usize], arena: Arena::new() };
        for index in 0..count as usize {
            let (start, end, size) = (table.offset(index), table.offset(index + 1), table.data.len());
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
        Ok(table)
    }

    fn offset(&self, index: usize) -> u64 {
        match self.offsets.get(index * 8..index * 8 + 8) {
            Some(bytes) => u64::from_le_bytes(bytes.try_into().expect("eight bytes")),
            None => self.data.len() as u64,
        }
    }
    pub(super) fn len(&self) -> u64 {
        self.ids.len() as u64
    }

    /// The data of a constant, after `check` accepts it. `index` is in range; each use may have another type.
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
    fn an_index_of_any_size_is_looked_up() {
        let offsets = Offsets(&[1, 0, 0, 0, 2, 0, 0, 0, 3]);
        let found = [0, 1, 2, 3, usize::MAX / 4, usize::MAX / 4 + 1, usize::MAX].map(|index| offsets.get(index));
        assert_eq!(found, [Some(1), Some(2), None, None, None, None, None]);
    }
}
