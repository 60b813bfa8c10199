//! Reads input files up to a size limit, and replaces output files atomically. A missing path stands for a standard stream.

use base::diag::{Diagnostic, Result};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The input of a tool.
#[derive(Clone, Debug)]
pub struct Input {
    /// The path of the file, for messages; `<stdin>` for standard input unless `--input-name` names it.
    pub name: String,
    pub bytes: Arc<Vec<u8>>,
    /// Whether the bytes come from a Unix pipe or socket, whose writer may be a stage that failed.
    pub piped: bool,
}

/// Reads a file, or standard input for `None`.
pub fn read_file(path: Option<&Path>) -> Result<Input> {
    let Some(path) = path else {
        let stdin = io::stdin().lock();
        if stdin.is_terminal() {
            return Err(Diagnostic::usage("CLI001", "no input: name a file, or redirect standard input"));
        }
        let bytes = read_limited(stdin, "<stdin>")?;
        return Ok(Input { name: "<stdin>".into(), bytes: Arc::new(bytes), piped: is_pipe("/dev/stdin") });
    };
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| io_error("read", &name, &error))?;
    let bytes = read_limited(file, &name)?;
    Ok(Input { name, bytes: Arc::new(bytes), piped: false })
}

/// Reads all bytes of `source`. Returns an error if there are more than [`base::codec::SIZE_LIMIT`] bytes. `name` is for messages.
fn read_limited(source: impl Read, name: &str) -> Result<Vec<u8>> {
    read_at_most(source, name, base::codec::SIZE_LIMIT as u64)
}

/// Reads all bytes of `source`. Returns an error if there are more than `limit` bytes. `name` is for messages.
pub fn read_at_most(source: impl Read, name: &str, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(limit + 1).read_to_end(&mut bytes).map_err(|error| io_error("read", name, &error))?;
    if bytes.len() as u64 > limit {
        return Err(Diagnostic::io("CLI002", format!("{name} is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// Returns whether a path is a FIFO or a socket.
fn is_pipe(path: &str) -> bool {
    use std::os::unix::fs::FileTypeExt;
    fs::metadata(path).is_ok_and(|data| data.file_type().is_fifo() || data.file_type().is_socket())
}

/// Returns the error for a failed read or write of a file. `verb` is the failed action.
fn io_error(verb: &str, name: &str, error: &io::Error) -> Box<Diagnostic> {
    Diagnostic::io("CLI003", format!("cannot {verb} {name}: {}", os_error_text(error)))
}

/// Returns the system's message of an error, without the suffix `(os error 2)` that Rust adds.
pub fn os_error_text(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}

/// Writes a file, or standard output for `None`. A regular file is replaced atomically, unless it already has these bytes. Devices
/// and FIFOs are written in place. If the reader of a Unix pipe is closed, the remaining bytes are dropped without an error. A
/// standard output that was closed when the process started is an error.
pub fn write_file(path: Option<&Path>, bytes: &[u8]) -> Result<()> {
    let Some(path) = path else {
        if crate::closed_stdout::stdout_was_closed() {
            return Err(Diagnostic::io("CLI003", "cannot write <stdout>: it is closed"));
        }
        let mut stdout = io::stdout().lock();
        return match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(io_error("write", "<stdout>", &error)),
            _ => Ok(()),
        };
    };
    let result = match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => write_in_place(path, bytes),
        Ok(metadata) => replace_atomically(path, bytes, Some(metadata.permissions())),
        Err(_) => replace_atomically(path, bytes, None),
    };
    result.map_err(|error| io_error("write", &path.display().to_string(), &error))
}

/// Writes the bytes to an existing device or FIFO. A closed reader is not an error.
fn write_in_place(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match OpenOptions::new().write(true).open(path)?.write_all(bytes) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Replaces a file atomically by these bytes. `permissions` are those of the existing file; `None` if there is no file.
fn replace_atomically(path: &Path, bytes: &[u8], permissions: Option<fs::Permissions>) -> io::Result<()> {
    let target = resolve_links(path)?;
    let exists = permissions.is_some();
    if exists && has_content(&target, bytes)? {
        return Ok(());
    }
    let mut temporary_file = TemporaryFile::in_same_folder(&target)?;
    temporary_file.file.write_all(bytes)?;
    if let Some(permissions) = permissions {
        temporary_file.file.set_permissions(permissions)?;
    }
    temporary_file.move_to(&target, exists)
}

/// Replaces a file atomically by the bytes that `write` writes.
pub(crate) fn replace_with_writer(path: &Path, write: impl FnOnce(File) -> io::Result<()>) -> io::Result<()> {
    let target = resolve_links(path)?;
    let temporary_file = TemporaryFile::in_same_folder(&target)?;
    write(temporary_file.file.try_clone()?)?;
    temporary_file.move_to(&target, target.exists())
}

/// Returns whether a file has exactly these bytes. Returns false if the file exists but cannot be read.
fn has_content(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let same_length = fs::metadata(path)?.len() == bytes.len() as u64;
    Ok(same_length && fs::read(path).is_ok_and(|old_bytes| old_bytes == bytes))
}

/// Returns the path at the end of a chain of symbolic links. No file need exist at that path.
fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..40 {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// A temporary file in the folder of its target. If the file system supports unnamed files, the file has no name until it is
/// complete, so a killed process leaves no file.
struct TemporaryFile {
    file: File,
    /// The temporary name, if the file has one.
    name: Option<PathBuf>,
}

impl TemporaryFile {
    /// Creates a temporary file in the folder of `target`.
    fn in_same_folder(target: &Path) -> io::Result<TemporaryFile> {
        target.file_name().ok_or_else(|| io::Error::other("the path names no file"))?;
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        if let Ok(file) = rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)) {
            return Ok(TemporaryFile { file: file.into(), name: None });
        }
        let create = |name: &Path| OpenOptions::new().write(true).create_new(true).open(name);
        let (name, file) = with_free_name(target, create)?;
        Ok(TemporaryFile { file, name: Some(name) })
    }

    /// Renames the file to `target`. `exists` states whether a file with that name already exists.
    fn move_to(mut self, target: &Path, exists: bool) -> io::Result<()> {
        let fd_path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let link_as = |name: &Path| Ok(rustix::fs::linkat(CWD, &fd_path, CWD, name, AtFlags::SYMLINK_FOLLOW)?);
        if self.name.is_none() {
            // If the target does not exist, linking is a single step. Otherwise the file is first linked with a hidden name and
            // then renamed. If the process is killed in between, a complete file with a hidden name remains.
            if !exists && link_as(target).is_ok() {
                return Ok(());
            }
            self.name = Some(with_free_name(target, link_as)?.0);
        }
        fs::rename(self.name.as_ref().expect("an unnamed file was linked above"), target)?;
        self.name = None;
        Ok(())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = fs::remove_file(name);
        }
    }
}

/// Calls `create` with hidden names in the folder of `target` until one is unused. Returns that name and the result.
fn with_free_name<T>(target: &Path, create: impl Fn(&Path) -> io::Result<T>) -> io::Result<(PathBuf, T)> {
    let stem: String = target.file_name().unwrap_or_default().to_string_lossy().chars().take(40).collect();
    for attempt in 0.. {
        let name = target.with_file_name(format!(".{stem}.{}-{attempt}.tmp", std::process::id()));
        match create(&name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < 1000 => {}
            result => return result.map(|created| (name, created)),
        }
    }
    unreachable!("the loop ends by returning")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("common-files-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_write_replaces_the_file_only_if_the_bytes_differ() {
        let dir = folder("equal");
        let path = dir.join("a");
        write_file(Some(&path), b"one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let before = fs::metadata(&path).unwrap();
        write_file(Some(&path), b"one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().ino(), before.ino());
        write_file(Some(&path), b"two").unwrap();
        let after = fs::metadata(&path).unwrap();
        assert_ne!(after.ino(), before.ino());
        assert_eq!(after.permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "no temporary file is left");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_write_to_a_symbolic_link_replaces_the_target_of_the_link() {
        let dir = folder("link");
        let link = dir.join("link");
        symlink("target", &link).unwrap();
        for text in [b"one", b"two"] {
            write_file(Some(&link), text).unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert_eq!(fs::read(dir.join("target")).unwrap(), text);
        }
        symlink("loop", dir.join("loop")).unwrap();
        assert!(write_file(Some(&dir.join("loop")), b"x").is_err());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn devices_are_written_in_place() {
        write_file(Some(Path::new("/dev/null")), b"x").unwrap();
        assert!(write_file(Some(Path::new("/dev/full")), b"x").is_err());
        assert!(write_file(Some(Path::new("/nowhere/at/all")), b"x").is_err());
    }
}
