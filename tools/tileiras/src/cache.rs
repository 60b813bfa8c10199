//! Content-addressed cache of outputs: `--cache DIR`.
//!
//! The key is a hash of the input, of all commands and options, and of every program and library involved. An entry therefore never
//! goes stale. The cache writes an entry under a temporary name and then renames the file. Several processes can therefore share a
//! cache, and a killed process leaves no partial entry. Each entry contains a hash of its key and content; the cache removes an
//! entry whose hash does not match.

use crate::failure::{DriverError, exit};
use crate::targets::{Compiled, Plan};
use common::cl::Parsed;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The first bytes of each entry: the format name and version.
const MAGIC: &[u8] = b"tileworks cache 2\n";
/// The size of a BLAKE3 hash in bytes.
const HASH_BYTES: usize = 32;
/// The file whose size is the number of lookups that found an entry.
const HITS: &str = "hits";
/// The file whose size is the number of lookups that found no entry.
const MISSES: &str = "misses";

/// A cache folder and the limit of its size.
pub(crate) struct Cache {
    folder: PathBuf,
    limit_bytes: u64,
}

/// The key of a cache entry.
pub(crate) struct Key(blake3::Hash);

impl Key {
    /// The key as text.
    pub(crate) fn hex(&self) -> String {
        self.0.to_hex().to_string()
    }
    /// A prefix of the key for messages.
    pub(crate) fn hex_prefix(&self) -> String {
        self.0.to_hex()[..16].to_string()
    }
}

impl Cache {
    /// Returns the cache that `--cache` names. Returns `None` without `--cache`, or if another option requires that the stages run.
    /// Other users must not have access to the folder, because an entry contains executable code.
    pub(crate) fn from_options(parsed: &Parsed) -> Result<Option<Cache>, DriverError> {
        let Some(folder) = parsed.get("cache") else { return Ok(None) };
        // These options print or write information of running stages, which the cache does not store.
        if ["save-temps", "print-after", "print-changed", "time"].iter().any(|option| parsed.get(option).is_some()) {
            return Ok(None);
        }
        let folder_error = |message: String| DriverError::new(exit::CONFIGURATION, format!("cache folder '{folder}': {message}"));
        let mebibytes = parsed.get("cache-size").and_then(common::cl::parse_integer).unwrap_or(1024);
        let limit_bytes = u64::try_from(mebibytes).map_err(|_| folder_error("its size cannot be negative".into()))? << 20;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| folder_error(common::os_error_text(&error)))?;
        let metadata = fs::metadata(folder).map_err(|error| folder_error(common::os_error_text(&error)))?;
        let own_uid = fs::metadata("/proc/self").map_or(metadata.uid(), |process| process.uid());
        if metadata.uid() != own_uid || metadata.mode() & 0o077 != 0 {
            return Err(folder_error("other users own it or can access it; use your own folder with mode 700".into()));
        }
        Ok(Some(Cache { folder: folder.into(), limit_bytes }))
    }

    /// Returns the key of the output of a plan; `None` if a program or library cannot be read. The stages then report the error.
    pub(crate) fn key(&self, plan: &Plan, input: &[u8]) -> Option<Key> {
        key(plan, input, &|path| self.content_hash(path))
    }

    /// Returns the hash of a program; `None` if the program cannot be read. A file in the cache folder stores the hash together
    /// with the size and times of the program, so an unchanged program is hashed once.
    fn content_hash(&self, path: &Path) -> Option<String> {
        let metadata = fs::metadata(path).ok()?;
        // A program can set the mtime of a file to an earlier time, but not the ctime.
        let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
        let file_state = format!("{} {} {} {times:?}\n", metadata.dev(), metadata.ino(), metadata.size());
        let name = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
        let memo_file = self.folder.join("programs").join(&name.as_str()[..32]);
        if let Some(hash) = fs::read_to_string(&memo_file).ok().and_then(|text| text.strip_prefix(&file_state).map(str::to_string))
        {
            return Some(hash);
        }
        let hash = content_hash(path)?;
        let _ = fs::create_dir_all(self.folder.join("programs"));
        let _ = common::write_file(Some(&memo_file), (file_state + &hash).as_bytes());
        Some(hash)
    }

    /// Returns the number of entries, the used size and the size limit as text.
    pub(crate) fn summary(&self) -> String {
        let entries = self.entries();
        let total_bytes: u64 = entries.iter().map(|(_, size, _)| size).sum();
        format!("{} entries, {:.1} of {} MiB", entries.len(), total_bytes as f64 / f64::from(1 << 20), self.limit_bytes >> 20)
    }

    /// Returns the text that `--cache-stats` prints.
    pub(crate) fn statistics(&self) -> String {
        let [hits, misses] = [HITS, MISSES].map(|name| fs::metadata(self.folder.join(name)).map_or(0, |metadata| metadata.len()));
        format!("{}\n{hits} hits, {misses} misses\n", self.summary())
    }

    /// Counts a lookup in the file `name`: [`HITS`] or [`MISSES`]. The size of the file is the count, because an append of one byte
    /// needs no lock.
    fn count_lookup(&self, name: &str) {
        let file = fs::File::options().create(true).append(true).open(self.folder.join(name));
        let _ = file.and_then(|mut file| std::io::Write::write_all(&mut file, b"."));
    }

    /// Returns all entries, each with the time of its last use, its size in bytes and its path.
    fn entries(&self) -> Vec<(SystemTime, u64, PathBuf)> {
        let folders = fs::read_dir(self.folder.join("entries")).into_iter().flatten().flatten();
        let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
        let entries = files.filter_map(|file| {
            let metadata = file.metadata().ok()?;
            Some((metadata.modified().ok()?, metadata.len(), file.path()))
        });
        entries.collect()
    }

    /// The path of the entry of a key.
    fn entry_path(&self, key: &Key) -> PathBuf {
        let name = key.0.to_hex();
        self.folder.join("entries").join(&name.as_str()[..2]).join(&name.as_str()[2..])
    }

    /// Returns the output that the cache stores for a key; `None` if the entry is missing or damaged. Counts the lookup, and
    /// removes a damaged entry.
    pub(crate) fn get(&self, key: &Key) -> Option<Compiled> {
        let entry = self.read_entry(key);
        self.count_lookup(if entry.is_some() { HITS } else { MISSES });
        entry
    }

    /// Reads the entry of a key, and marks it as used now. Removes a damaged entry.
    fn read_entry(&self, key: &Key) -> Option<Compiled> {
        let path = self.entry_path(key);
        let bytes = fs::read(&path).ok()?;
        let Some(compiled) = decode_entry(key, &bytes) else {
            let _ = fs::remove_file(&path);
            return None;
        };
        // The mtime of an entry is the time of its last use.
        let _ = fs::File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(compiled)
    }

    /// Stores an output. A failed write is ignored, because the compilation has succeeded.
    pub(crate) fn put(&self, key: &Key, compiled: &Compiled) {
        let path = self.entry_path(key);
        let _ = path.parent().map(fs::create_dir_all);
        if common::write_file(Some(&path), &encode_entry(key, compiled)).is_ok() {
            self.evict();
        }
    }

    /// If the cache exceeds its limit, evicts the least recently used entries until at most 90 % of the limit is used.
    fn evict(&self) {
        let mut entries = self.entries();
        let mut total_bytes: u64 = entries.iter().map(|(_, size, _)| size).sum();
        if total_bytes <= self.limit_bytes {
            return;
        }
        entries.sort();
        for (_, size, path) in entries {
            if total_bytes <= self.limit_bytes / 10 * 9 {
                break;
            }
            let _ = fs::remove_file(path);
            total_bytes -= size;
        }
    }
}

/// Returns the key of an output: a hash of everything that determines the output. `content_hash` returns the hash of a program.
/// Returns `None` if a program or library cannot be read.
pub(crate) fn key(plan: &Plan, input: &[u8], content_hash: &dyn Fn(&Path) -> Option<String>) -> Option<Key> {
    let mut hasher = blake3::Hasher::new();
    let mut hash_part = |part: &[u8]| {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    };
    hash_part(env!("SOURCE_HASH").as_bytes());
    if plan.has_several_targets() {
        hash_part(b"several targets");
    }
    for step in plan.targets.iter().flat_map(|target| &target.steps) {
        hash_part(step.tool.as_bytes());
        // --verbose does not affect the output.
        let arguments = step.arguments.iter().filter(|argument| *argument != "--verbose");
        hash_part(&(arguments.clone().count() as u64).to_le_bytes());
        arguments.for_each(|argument| hash_part(argument.as_bytes()));
        hash_part(content_hash(&step.program)?.as_bytes());
        match step.tool.as_str() {
            "tile-ptx" => {
                let libdevice = common::toolkit::libdevice().ok().and_then(|found| content_hash(&found.path));
                hash_part(libdevice.unwrap_or_default().as_bytes());
            }
            "tile-link" => hash_part(content_hash(&common::toolkit::ptxas().ok()?.path)?.as_bytes()),
            _ => {}
        }
    }
    hash_part(input);
    Some(Key(hasher.finalize()))
}

/// Reads a program and returns its hash; `None` if the program cannot be read.
pub(crate) fn content_hash(path: &Path) -> Option<String> {
    Some(blake3::hash(&fs::read(path).ok()?).to_hex().to_string())
}

/// Encodes an entry: the magic number, the keyed hash, the length of the warnings (8 bytes), the warnings and the output.
fn encode_entry(key: &Key, compiled: &Compiled) -> Vec<u8> {
    let mut content = (compiled.warnings.len() as u64).to_le_bytes().to_vec();
    content.extend(compiled.warnings.as_bytes());
    content.extend(&compiled.output);
    [MAGIC, blake3::keyed_hash(key.0.as_bytes(), &content).as_bytes(), &content].concat()
}

/// Decodes an entry. Returns `None` if it is damaged or belongs to another key.
fn decode_entry(key: &Key, bytes: &[u8]) -> Option<Compiled> {
    let (hash, content) = bytes.strip_prefix(MAGIC)?.split_at_checked(HASH_BYTES)?;
    if blake3::keyed_hash(key.0.as_bytes(), content).as_bytes() != hash {
        return None;
    }
    let (length, rest) = content.split_at_checked(8)?;
    let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
    let (text, output) = rest.split_at_checked(length)?;
    let warnings = String::from_utf8(text.to_vec()).ok()?;
    Some(Compiled { output: output.to_vec(), text: warnings.clone(), warnings })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(folder: &Path, limit_bytes: u64) -> Cache {
        Cache { folder: folder.into(), limit_bytes }
    }

    fn entry(size: usize) -> Compiled {
        Compiled { output: vec![7; size], text: "printed\nwarning: x\n".into(), warnings: "warning: x\n".into() }
    }

    #[test]
    fn a_damaged_entry_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, key) = (cache(folder.path(), 1 << 20), Key(blake3::hash(b"key")));
        assert!(cache.get(&key).is_none());
        cache.put(&key, &entry(100));
        let cached_entry = cache.get(&key).unwrap();
        assert_eq!((cached_entry.output.len(), cached_entry.text.as_str()), (100, "warning: x\n"));
        let path = cache.entry_path(&key);
        let entry_bytes = fs::read(&path).unwrap();
        for length in [0, 10, entry_bytes.len() - 1] {
            fs::write(&path, &entry_bytes[..length]).unwrap();
            assert!(cache.get(&key).is_none() && !path.exists());
        }
        let mut corrupted = entry_bytes;
        *corrupted.last_mut().unwrap() ^= 1;
        fs::write(&path, corrupted).unwrap();
        assert!(cache.get(&key).is_none());
        // An entry at the path of another key counts as damaged, because its hash depends on the key.
        let other_key = Key(blake3::hash(b"other"));
        cache.put(&key, &entry(100));
        cache.put(&other_key, &entry(200));
        fs::rename(cache.entry_path(&other_key), &path).unwrap();
        assert!(cache.get(&key).is_none());
    }

    #[test]
    fn least_recently_used_entries_are_evicted_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), 3000);
        let keys: Vec<Key> = (0..4u8).map(|n| Key(blake3::hash(&[n]))).collect();
        for (index, key) in keys.iter().enumerate() {
            if index == 3 {
                cache.get(&keys[0]).unwrap();
            }
            cache.put(key, &entry(900));
            let age = std::time::Duration::from_secs(100 - index as u64);
            if index < 3 {
                fs::File::options()
                    .append(true)
                    .open(cache.entry_path(key))
                    .unwrap()
                    .set_modified(SystemTime::now() - age)
                    .unwrap();
            }
        }
        assert!(cache.get(&keys[0]).is_some() && cache.get(&keys[3]).is_some());
        assert!(cache.get(&keys[1]).is_none());
    }
}
