//! The contents of a buffer: bytes in memory, or a fill whose pages are generated when they are first accessed.
//!
//! A filled buffer of several GB takes only the memory of the pages that a run accesses. The system allocates zeroed memory lazily,
//! and a fill can generate any element independently. A page whose bytes have been generated is called materialised.

use super::fill::Fill;
use base::diag::{Diagnostic, Result};
use memmap2::{MmapMut, MmapOptions};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::ptr::NonNull;

/// The number of bytes of a granule: [`Contents::read`] generates a whole number of granules. The size is a multiple of every
/// element size, so no element crosses a granule boundary.
const GRANULE_BYTES: usize = 32;
/// The number of bytes of a page, which a lazy fill generates on the first access.
const PAGE_BYTES: usize = 4096;

/// The contents of a buffer.
#[derive(Debug)]
pub struct Contents {
    storage: Storage,
    /// The fill of the pages that are not materialised. `None` if all bytes are in `storage`.
    lazy_fill: Option<LazyFill>,
}

/// The memory that holds the bytes of a buffer.
#[derive(Debug)]
enum Storage {
    Owned(Vec<u8>),
    /// Memory that the system allocates and zeroes when it is first accessed.
    Zeroed(MmapMut),
    /// Memory of a host program.
    Borrowed(HostMemory),
}

/// Memory that the caller of [`Contents::borrowed`] owns.
#[derive(Debug)]
struct HostMemory {
    start: NonNull<u8>,
    /// The number of bytes.
    length: usize,
}

// SAFETY: the caller of `Contents::borrowed` guarantees exclusive access, from any thread.
#[allow(unsafe_code, reason = "the memory of a host program")]
unsafe impl Send for HostMemory {}
// SAFETY: a shared reference to `HostMemory` only reads, and the caller of `Contents::borrowed` excludes other writers.
#[allow(unsafe_code, reason = "the memory of a host program")]
unsafe impl Sync for HostMemory {}

#[allow(unsafe_code, reason = "the memory of a host program")]
impl HostMemory {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the caller of `Contents::borrowed` guarantees that the memory is valid and not written by others.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the caller of `Contents::borrowed` guarantees that the memory is valid and not accessed by others.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

/// A fill that generates pages on access.
#[derive(Clone, Debug)]
struct LazyFill {
    fill: Fill,
    /// One bit per page, set if the page is materialised. Page 0 is the lowest bit of the first word.
    materialised_pages: Vec<u64>,
}

impl LazyFill {
    /// Returns whether the bytes of a page have been generated.
    fn is_materialised(&self, page: usize) -> bool {
        self.materialised_pages[page / 64] >> (page % 64) & 1 == 1
    }
}

impl From<Vec<u8>> for Contents {
    fn from(bytes: Vec<u8>) -> Contents {
        Contents { storage: Storage::Owned(bytes), lazy_fill: None }
    }
}

impl Default for Contents {
    fn default() -> Contents {
        Vec::new().into()
    }
}

impl Contents {
    /// Returns contents of `bytes` bytes with a fill. Returns an error if the system cannot reserve the memory.
    pub(super) fn filled(fill: Fill, bytes: usize) -> Result<Contents> {
        if bytes == 0 {
            return Ok(Contents::default());
        }
        let materialised_pages = vec![0; bytes.div_ceil(PAGE_BYTES).div_ceil(64)];
        Ok(Contents { storage: zeroed_storage(bytes)?, lazy_fill: Some(LazyFill { fill, materialised_pages }) })
    }

    /// Returns contents in the memory of a host program, which are read and written in place. A clone is a copy in other memory.
    /// `length` is in bytes.
    ///
    /// # Safety
    ///
    /// As long as the contents exist, the memory must be valid for reads and writes, and nothing else may access it.
    #[allow(unsafe_code, reason = "the memory of a host program")]
    pub unsafe fn borrowed(start: NonNull<u8>, length: usize) -> Contents {
        Contents { storage: Storage::Borrowed(HostMemory { start, length }), lazy_fill: None }
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> usize {
        self.storage_bytes().len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns whether the contents are a fill with zeros of which no page is materialised. False for bytes that happen to be zero.
    pub fn is_untouched_zero_fill(&self) -> bool {
        self.lazy_fill.as_ref().is_some_and(|lazy| lazy.fill.is_zero() && lazy.materialised_pages.iter().all(|word| *word == 0))
    }
    /// Returns all bytes. Pages that are not materialised are zero.
    fn storage_bytes(&self) -> &[u8] {
        match &self.storage {
            Storage::Owned(bytes) => bytes,
            Storage::Zeroed(map) => map,
            Storage::Borrowed(memory) => memory.bytes(),
        }
    }
    /// Like [`Contents::storage_bytes`], for writing.
    fn storage_bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.storage {
            Storage::Owned(bytes) => bytes,
            Storage::Zeroed(map) => map,
            Storage::Borrowed(memory) => memory.bytes_mut(),
        }
    }

    /// Returns the bytes of a range, for reading or writing. Materialises the pages of the range.
    #[inline]
    pub fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        if self.lazy_fill.is_some() {
            self.materialise_pages(range.clone());
        }
        &mut self.storage_bytes_mut()[range]
    }

    /// Copies the bytes from the byte offset `start` on to `out`, without materialising pages.
    pub fn read(&self, start: usize, out: &mut [u8]) {
        let bytes = self.storage_bytes();
        let Some(lazy) = &self.lazy_fill else {
            return out.copy_from_slice(&bytes[start..start + out.len()]);
        };
        let mut generated = [0; PAGE_BYTES];
        for PagePart { page, in_page, in_range } in split_at_pages(start..start + out.len()) {
            if lazy.is_materialised(page) {
                out[in_range].copy_from_slice(&bytes[page * PAGE_BYTES..][in_page]);
            } else {
                // Generate only the granules that are read, not the page, because programs read a page in many small accesses.
                let granules = in_page.start / GRANULE_BYTES * GRANULE_BYTES..in_page.end.next_multiple_of(GRANULE_BYTES);
                lazy.fill.generate(page * PAGE_BYTES + granules.start, &mut generated[granules]);
                out[in_range].copy_from_slice(&generated[in_page]);
            }
        }
    }

    /// Materialises the pages of a byte range.
    #[inline]
    fn materialise_pages(&mut self, range: Range<usize>) {
        let (first, last) = (range.start / PAGE_BYTES, range.end.saturating_sub(1) / PAGE_BYTES);
        for page in first..=last {
            if self.lazy_fill.as_ref().is_some_and(|lazy| page * PAGE_BYTES < self.len() && !lazy.is_materialised(page)) {
                self.materialise_page(page);
            }
        }
    }

    /// Generates the bytes of a page, and marks the page as materialised.
    #[cold]
    fn materialise_page(&mut self, page: usize) {
        let Some(mut lazy) = self.lazy_fill.take() else { return };
        lazy.materialised_pages[page / 64] |= 1 << (page % 64);
        let end = self.len().min((page + 1) * PAGE_BYTES);
        lazy.fill.generate(page * PAGE_BYTES, &mut self.storage_bytes_mut()[page * PAGE_BYTES..end]);
        self.lazy_fill = Some(lazy);
    }

    /// Writes an output file: `header`, then the contents. In a fill with zeros, pages that are not materialised become holes of a
    /// sparse file.
    pub(super) fn write_to(&self, mut file: File, header: &[u8]) -> std::io::Result<()> {
        file.write_all(header)?;
        let Some(lazy) = &self.lazy_fill else { return file.write_all(self.storage_bytes()) };
        file.set_len((header.len() + self.len()) as u64)?;
        let mut buffer = [0; PAGE_BYTES];
        for page in 0..self.len().div_ceil(PAGE_BYTES) {
            if lazy.fill.is_zero() && !lazy.is_materialised(page) {
                continue;
            }
            let page_bytes = &mut buffer[..PAGE_BYTES.min(self.len() - page * PAGE_BYTES)];
            self.read(page * PAGE_BYTES, page_bytes);
            file.seek(SeekFrom::Start((header.len() + page * PAGE_BYTES) as u64))?;
            file.write_all(page_bytes)?;
        }
        Ok(())
    }
}

impl Clone for Contents {
    fn clone(&self) -> Contents {
        let Some(lazy) = &self.lazy_fill else { return self.storage_bytes().to_vec().into() };
        let Ok(mut storage) = zeroed_storage(self.len()) else {
            let mut bytes = vec![0; self.len()];
            self.read(0, &mut bytes);
            return bytes.into();
        };
        if let Storage::Zeroed(map) = &mut storage {
            for page in (0..self.len().div_ceil(PAGE_BYTES)).filter(|page| lazy.is_materialised(*page)) {
                let range = page * PAGE_BYTES..self.len().min((page + 1) * PAGE_BYTES);
                map[range.clone()].copy_from_slice(&self.storage_bytes()[range]);
            }
        }
        Contents { storage, lazy_fill: Some(lazy.clone()) }
    }
}

/// Reserves `bytes` bytes of zeros, which the system allocates lazily.
fn zeroed_storage(bytes: usize) -> Result<Storage> {
    let map = MmapOptions::new().len(bytes).no_reserve_swap().map_anon();
    let allocation_error = |error: std::io::Error| {
        Diagnostic::io("LCH006", format!("cannot allocate a buffer of {bytes} bytes: {}", crate::os_error_text(&error)))
    };
    map.map(Storage::Zeroed).map_err(allocation_error)
}

/// The part of a byte range that lies in one page.
struct PagePart {
    /// The number of the page.
    page: usize,
    /// The part, relative to the start of the page.
    in_page: Range<usize>,
    /// The part, relative to the start of the byte range.
    in_range: Range<usize>,
}

/// Splits a byte range at page boundaries.
fn split_at_pages(range: Range<usize>) -> impl Iterator<Item = PagePart> {
    let mut next = range.start;
    std::iter::from_fn(move || {
        let (start, page_offset) = (next, next % PAGE_BYTES);
        let count = (PAGE_BYTES - page_offset).min(range.end - start);
        next += count;
        (count > 0).then(|| PagePart {
            page: start / PAGE_BYTES,
            in_page: page_offset..page_offset + count,
            in_range: start - range.start..start - range.start + count,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iota_contents(bytes: usize) -> Contents {
        Contents::filled(serde_json::from_str(r#"{"iota": "i32", "modulo": 5000}"#).unwrap(), bytes).unwrap()
    }
    fn iota_bytes(bytes: usize) -> Vec<u8> {
        (0..bytes.div_ceil(4) as u32).flat_map(|i| (i % 5000).to_le_bytes()).take(bytes).collect()
    }

    #[test]
    fn access_materialises_pages_and_later_reads_return_written_bytes() {
        let mut contents = iota_contents(50_002);
        let mut expected_bytes = iota_bytes(50_002);
        assert_eq!(contents.bytes_mut(4090..8200), &expected_bytes[4090..8200]);
        contents.bytes_mut(20_000..20_004).copy_from_slice(&[9; 4]);
        expected_bytes[20_000..20_004].copy_from_slice(&[9; 4]);
        let mut read = vec![0; 50_002];
        contents.read(0, &mut read);
        assert!(read == expected_bytes);
        assert!(contents.clone().bytes_mut(0..50_002) == &expected_bytes[..]);
        let materialised_page_count: u32 =
            contents.lazy_fill.as_ref().unwrap().materialised_pages.iter().map(|word| word.count_ones()).sum();
        assert_eq!(materialised_page_count, 4, "pages 0 to 2 and 4");
    }

    #[test]
    fn the_output_of_a_large_zero_fill_is_sparse() {
        let mut contents = Contents::filled(serde_json::from_str(r#""zero""#).unwrap(), 8 << 30).unwrap();
        contents.bytes_mut(5 << 30..(5 << 30) + 1)[0] = 7;
        let file = tempfile::NamedTempFile::new().unwrap();
        contents.write_to(file.reopen().unwrap(), b"").unwrap();
        let metadata = file.as_file().metadata().unwrap();
        assert_eq!(metadata.len(), 8 << 30);
        assert!(std::os::unix::fs::MetadataExt::blocks(&metadata) < 100);
        assert_eq!(iota_contents(0).len(), 0);
    }
}
