//! A file of lines that is limited in size.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

const MAX_FILE_BYTES: u64 = 8 << 20;
const OLDER_FILES: u32 = 3;

/// A file `NAME.jsonl` to which lines are appended. When it is full, it becomes `NAME.1.jsonl`, and
/// the oldest of four files is removed.
#[derive(Clone, Debug)]
pub struct RotatingLines {
    folder: PathBuf,
    name: &'static str,
    limit: u64,
}

impl RotatingLines {
    /// Names the file. The folder is created with the first line, for its owner only.
    #[must_use]
    pub fn new(folder: &Path, name: &'static str) -> Self {
        Self { folder: folder.to_owned(), name, limit: MAX_FILE_BYTES }
    }

    fn path(&self, number: u32) -> PathBuf {
        self.folder.join(match number {
            0 => format!("{}.jsonl", self.name),
            number => format!("{}.{number}.jsonl", self.name),
        })
    }

    /// Appends lines with one write, so that lines of two writers do not mix. Blocks.
    ///
    /// # Errors
    /// The system's error. Some of the lines may have been written.
    pub fn append(&self, lines: &[String]) -> io::Result<()> {
        let mut text = lines.join("\n");
        if text.is_empty() {
            return Ok(());
        }
        text.push('\n');
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut file = self.open()?;
        let size = file.metadata()?.len();
        if size > 0 && size + text.len() as u64 > self.limit {
            self.rotate()?;
            file = self.open()?;
        }
        file.write_all(text.as_bytes())
    }

    fn open(&self) -> io::Result<File> {
        // A symbolic link is not followed, and a pipe does not block.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).unwrap_or_default();
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(flags)
            .open(self.path(0))
    }

    fn rotate(&self) -> io::Result<()> {
        for number in (0..OLDER_FILES).rev() {
            match fs::rename(self.path(number), self.path(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_lines_are_removed_when_all_files_are_full() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("a/b");
        let file = RotatingLines { limit: 100, ..RotatingLines::new(&folder, "lines") };
        for number in 0..100 {
            file.append(&[format!("{number:08}")]).expect("written");
        }
        let mut names: Vec<String> = fs::read_dir(&folder)
            .expect("listed")
            .map(|entry| entry.expect("one").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        assert_eq!(names, ["lines.1.jsonl", "lines.2.jsonl", "lines.3.jsonl", "lines.jsonl"]);
        let text = fs::read_to_string(file.path(0)).expect("read");
        assert!(text.ends_with("00000099\n"), "{text}");
        for number in 0..=OLDER_FILES {
            assert!(fs::metadata(file.path(number)).expect("there").len() <= 100);
        }
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let other = folder.path().join("other");
        std::os::unix::fs::symlink(&other, folder.path().join("lines.jsonl")).expect("linked");
        let file = RotatingLines::new(folder.path(), "lines");
        assert!(file.append(&["x".to_owned()]).is_err());
        assert!(!other.exists());
    }
}
