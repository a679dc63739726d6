//! Reads regular files and refuses everything else. Opening a pipe may block forever, and a device
//! may never end.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Opens a regular file for reading, following links. Never waits.
///
/// # Errors
/// Returns the error of the system, or an error that names the kind of file if it is not a regular
/// one.
pub fn open_ordinary(path: &Path) -> io::Result<File> {
    // Checked before opening: opening has side effects on some devices, and a socket cannot be
    // opened.
    refuse_others(std::fs::metadata(path)?.file_type())?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    refuse_others(file.metadata()?.file_type())?;
    Ok(file)
}

/// Reads a whole regular file.
///
/// # Errors
/// Returns the error of the system. Other errors name the kind of file if it is not a regular one,
/// and its size if it has more than `limit` bytes.
pub fn read_ordinary(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open_ordinary(path)?;
    let (size, mut bytes) = (file.metadata()?.len(), Vec::new());
    if size > limit {
        return Err(io::Error::other(format!(
            "it has {size} bytes, more than the limit of {limit}"
        )));
    }
    // The file may be growing.
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn refuse_others(found: FileType) -> io::Result<()> {
    let what = match found {
        found if found.is_file() => return Ok(()),
        found if found.is_dir() => "a folder",
        found if found.is_fifo() => "a named pipe",
        found if found.is_socket() => "a socket",
        _ => "a device",
    };
    Err(io::Error::other(format!("it is {what}, not a regular file")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_but_a_regular_file_is_refused_at_once_with_its_kind() {
        let folder = tempfile::tempdir().expect("a folder");
        let (pipe, socket, file) =
            (folder.path().join("pipe"), folder.path().join("socket"), folder.path().join("file"));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a pipe");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        std::fs::write(&file, "12345").expect("written");
        for (path, what) in [
            (folder.path(), "a folder"),
            (&pipe, "a named pipe"),
            (&socket, "a socket"),
            (Path::new("/dev/zero"), "a device"),
        ] {
            let error = read_ordinary(path, 10).expect_err("no file").to_string();
            assert!(error.contains(what), "{}: {error}", path.display());
        }
        assert_eq!(read_ordinary(&file, 5).expect("read"), b"12345");
        assert!(read_ordinary(&file, 4).expect_err("too large").to_string().contains("5 bytes"));
        assert_eq!(
            read_ordinary(&folder.path().join("none"), 1).expect_err("missing").kind(),
            io::ErrorKind::NotFound
        );
    }
}
