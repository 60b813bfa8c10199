//! The contents of a buffer: bytes of a file, or a fill whose pages are materialised on first access.
//!
//! A buffer of several GB costs only the pages that a run accesses: the system allocates zeroed memory lazily, and a fill can
//! generate any element independently.

use super::fill::Fill;
use base::diag::{Diagnostic, Result};
use memmap2::{MmapMut, MmapOptions};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::ptr::NonNull;

/// The granularity in bytes with which `read` generates elements. It is a multiple of every element size, so no element crosses a
/// boundary.
const GRANULE: usize = 32;
const PAGE: usize = 4096;

#[derive(Debug)]
pub struct Contents {
    bytes: Bytes,
    /// `None`: all bytes are materialised.
    pending: Option<Pending>,
}

#[derive(Debug)]
enum Bytes {
    Owned(Vec<u8>),
    Zeroed(MmapMut),
    Borrowed(HostMemory),
}

/// Memory that the caller of [`Contents::borrowed`] owns.
#[derive(Debug)]
struct HostMemory {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the caller of `Contents::borrowed` guarantees exclusive access, from any thread.
#[allow(unsafe_code, reason = "the memory of a host program")]
unsafe impl Send for HostMemory {}
// SAFETY: likewise; `&HostMemory` only reads.
#[allow(unsafe_code, reason = "the memory of a host program")]
unsafe impl Sync for HostMemory {}

#[allow(unsafe_code, reason = "the memory of a host program")]
impl HostMemory {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the caller of `Contents::borrowed` guarantees that the memory is valid and not written by others.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: likewise.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

/// The fill that generates the pages, and a bit per materialised page.
#[derive(Clone, Debug)]
struct Pending {
    fill: Fill,
    materialised: Vec<u64>,
}

impl Pending {
    fn is_materialised(&self, page: usize) -> bool {
        self.materialised[page / 64] >> (page % 64) & 1 == 1
    }
}

impl From<Vec<u8>> for Contents {
    fn from(bytes: Vec<u8>) -> Contents {
        Contents { bytes: Bytes::Owned(bytes), pending: None }
    }
}

impl Default for Contents {
    fn default() -> Contents {
        Vec::new().into()
    }
}

impl Contents {
    pub(super) fn filled(fill: Fill, bytes: usize) -> Result<Contents> {
        if bytes == 0 {
            return Ok(Contents::default());
        }
        let materialised = vec![0; bytes.div_ceil(PAGE).div_ceil(64)];
        Ok(Contents { bytes: zeroed(bytes)?, pending: Some(Pending { fill, materialised }) })
    }

    /// The memory of a host program, which is read and written in place. A clone is a copy.
    ///
    /// # Safety
    ///
    /// The memory is valid for reads and writes as long as the contents exist, and nothing else accesses it meanwhile.
    #[allow(unsafe_code, reason = "the memory of a host program")]
    pub unsafe fn borrowed(start: NonNull<u8>, length: usize) -> Contents {
        Contents { bytes: Bytes::Borrowed(HostMemory { start, length }), pending: None }
    }

    pub fn len(&self) -> usize {
        self.all().len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Whether the contents are zeros that no access has materialised.
    pub fn is_zero(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.fill.is_zero() && pending.materialised.iter().all(|word| *word == 0))
    }
    fn all(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Owned(bytes) => bytes,
            Bytes::Zeroed(map) => map,
            Bytes::Borrowed(memory) => memory.bytes(),
        }
    }
    fn all_mut(&mut self) -> &mut [u8] {
        match &mut self.bytes {
            Bytes::Owned(bytes) => bytes,
            Bytes::Zeroed(map) => map,
            Bytes::Borrowed(memory) => memory.bytes_mut(),
        }
    }

    /// The bytes of a range, for reading or writing.
    #[inline]
    pub fn get(&mut self, range: Range<usize>) -> &mut [u8] {
        if self.pending.is_some() {
            self.generate(range.clone());
        }
        &mut self.all_mut()[range]
    }

    /// Copies bytes from `at` on, without materialising pages.
    pub fn read(&self, at: usize, out: &mut [u8]) {
        let all = self.all();
        let Some(pending) = &self.pending else {
            return out.copy_from_slice(&all[at..at + out.len()]);
        };
        let mut page = [0; PAGE];
        for (number, within, part) in pages(at..at + out.len()) {
            if pending.is_materialised(number) {
                out[part].copy_from_slice(&all[number * PAGE..][within]);
            } else {
                // Generate only the bytes that are read: programs read a page in many small accesses.
                let granules = within.start / GRANULE * GRANULE..within.end.next_multiple_of(GRANULE);
                pending.fill.generate(number * PAGE + granules.start, &mut page[granules]);
                out[part].copy_from_slice(&page[within]);
            }
        }
    }

    #[inline]
    fn generate(&mut self, range: Range<usize>) {
        let (first, last) = (range.start / PAGE, range.end.saturating_sub(1) / PAGE);
        for page in first..=last {
            if self.pending.as_ref().is_some_and(|pending| page * PAGE < self.len() && !pending.is_materialised(page)) {
                self.materialise_page(page);
            }
        }
    }

    #[cold]
    fn materialise_page(&mut self, page: usize) {
        let Some(mut pending) = self.pending.take() else { return };
        pending.materialised[page / 64] |= 1 << (page % 64);
        let end = self.len().min((page + 1) * PAGE);
        pending.fill.generate(page * PAGE, &mut self.all_mut()[page * PAGE..end]);
        self.pending = Some(pending);
    }

    /// Writes an output file. Untouched zero pages become holes.
    pub(super) fn write_to(&self, mut file: File, head: &[u8]) -> std::io::Result<()> {
        file.write_all(head)?;
        let Some(pending) = &self.pending else { return file.write_all(self.all()) };
        file.set_len((head.len() + self.len()) as u64)?;
        let mut buffer = [0; PAGE];
        for page in 0..self.len().div_ceil(PAGE) {
            if pending.fill.is_zero() && !pending.is_materialised(page) {
                continue;
            }
            let part = &mut buffer[..PAGE.min(self.len() - page * PAGE)];
            self.read(page * PAGE, part);
            file.seek(SeekFrom::Start((head.len() + page * PAGE) as u64))?;
            file.write_all(part)?;
        }
        Ok(())
    }
}

impl Clone for Contents {
    fn clone(&self) -> Contents {
        let Some(pending) = &self.pending else { return self.all().to_vec().into() };
        let Ok(mut bytes) = zeroed(self.len()) else {
            let mut bytes = vec![0; self.len()];
            self.read(0, &mut bytes);
            return bytes.into();
        };
        if let Bytes::Zeroed(map) = &mut bytes {
            for page in (0..self.len().div_ceil(PAGE)).filter(|page| pending.is_materialised(*page)) {
                let range = page * PAGE..self.len().min((page + 1) * PAGE);
                map[range.clone()].copy_from_slice(&self.all()[range]);
            }
        }
        Contents { bytes, pending: Some(pending.clone()) }
    }
}

/// Lazily allocated zeros.
fn zeroed(bytes: usize) -> Result<Bytes> {
    let map = MmapOptions::new().len(bytes).no_reserve_swap().map_anon();
    let allocation_error = |error: std::io::Error| {
        Diagnostic::io("LCH006", format!("cannot allocate a buffer of {bytes} bytes: {}", crate::os_error_text(&error)))
    };
    map.map(Bytes::Zeroed).map_err(allocation_error)
}

/// The pages of a range: the page number, the range within the page, and the corresponding part of the full range.
fn pages(range: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let (start, within) = (at, at % PAGE);
        let count = (PAGE - within).min(range.end - start);
        at += count;
        (count > 0).then(|| (start / PAGE, within..within + count, start - range.start..start - range.start + count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iota_contents(bytes: usize) -> Contents {
        Contents::filled(serde_json::from_str(r#"{"iota": "i32", "modulo": 5000}"#).unwrap(), bytes).unwrap()
    }
    fn expected(bytes: usize) -> Vec<u8> {
        (0..bytes.div_ceil(4) as u32).flat_map(|i| (i % 5000).to_le_bytes()).take(bytes).collect()
    }

    #[test]
    fn pages_are_materialised_on_access_and_keep_writes() {
        let mut contents = iota_contents(50_002);
        let mut expected_values = expected(50_002);
        assert_eq!(contents.get(4090..8200), &expected_values[4090..8200]);
        contents.get(20_000..20_004).copy_from_slice(&[9; 4]);
        expected_values[20_000..20_004].copy_from_slice(&[9; 4]);
        let mut read = vec![0; 50_002];
        contents.read(0, &mut read);
        assert!(read == expected_values);
        assert!(contents.clone().get(0..50_002) == &expected_values[..]);
        let materialised: u32 = contents.pending.as_ref().unwrap().materialised.iter().map(|word| word.count_ones()).sum();
        assert_eq!(materialised, 4, "pages 0 to 2 and 4");
    }

    #[test]
    fn a_large_buffer_takes_little_and_its_output_is_sparse() {
        let mut contents = Contents::filled(serde_json::from_str(r#""zero""#).unwrap(), 8 << 30).unwrap();
        contents.get(5 << 30..(5 << 30) + 1)[0] = 7;
        let file = tempfile::NamedTempFile::new().unwrap();
        contents.write_to(file.reopen().unwrap(), b"").unwrap();
        let data = file.as_file().metadata().unwrap();
        assert_eq!(data.len(), 8 << 30);
        assert!(std::os::unix::fs::MetadataExt::blocks(&data) < 100);
        assert_eq!(iota_contents(0).len(), 0);
    }
}
