//! Finds the files that a program needs: its own file, the package that contains it, and the
//! interpreter in its first line.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::find_program;

/// Bytes that are read to find the first line.
const FIRST_LINE: u64 = 512;
const MAX_INTERPRETERS: usize = 3;

/// Returns the paths that a program must be able to read and execute, without links. `name` is as
/// for [`find_program`].
pub(super) fn paths_of(name: &Path, path: &OsStr) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut next = find_program(name, path).ok();
    for _ in 0..MAX_INTERPRETERS {
        let Some(file) = next.take().and_then(|program| program.canonicalize().ok()) else { break };
        found.push(package_of(&file));
        next = interpreter(&file).and_then(|name| find_program(&name, path).ok());
    }
    found
}

/// Returns the package that contains a program, or the file itself if it is not part of one.
fn package_of(file: &Path) -> PathBuf {
    let mut package = PathBuf::new();
    for part in file.components() {
        package.push(part);
        // The folder also contains the packages that this one depends on.
        if part == Component::Normal(OsStr::new("node_modules")) {
            return package;
        }
    }
    let prefix = file
        .parent()
        .filter(|folder| folder.file_name() == Some(OsStr::new("bin")))
        .and_then(Path::parent);
    match prefix {
        // A virtual environment, or an interpreter with its library, but not `~/.local`.
        Some(prefix) if prefix.join("pyvenv.cfg").is_file() || is_runtime(prefix) => {
            prefix.to_owned()
        }
        _ => file.to_owned(),
    }
}

/// Returns whether a folder contains Node.js or Python, and nothing else.
fn is_runtime(prefix: &Path) -> bool {
    let own = prefix.join("lib/node_modules/npm").is_dir()
        || prefix.join("include/node").is_dir()
        || prefix.join("include/python3").exists();
    own && !prefix.join("share/keyrings").exists()
        && prefix.file_name() != Some(OsStr::new(".local"))
}

/// Returns the interpreter that the first line of a script names.
fn interpreter(file: &Path) -> Option<PathBuf> {
    let mut line = Vec::with_capacity(FIRST_LINE as usize);
    File::open(file).ok()?.take(FIRST_LINE).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = str::from_utf8(line).ok()?.split_ascii_whitespace();
    let first = words.next()?;
    if Path::new(first).file_name() != Some(OsStr::new("env")) {
        return Some(PathBuf::from(first));
    }
    words.find(|word| !word.starts_with('-') && !word.contains('=')).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn program(at: &Path, text: &str) {
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, text).unwrap();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_program_needs_its_package_and_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        program(&root.join("node/bin/node"), "");
        fs::create_dir_all(root.join("node/include/node")).unwrap();
        program(&root.join("npm/lib/node_modules/@x/agent/cli.js"), "#!/usr/bin/env node\n");
        fs::create_dir_all(root.join("bin")).unwrap();
        symlink(root.join("npm/lib/node_modules/@x/agent/cli.js"), root.join("bin/agent")).unwrap();
        let path = std::env::join_paths([root.join("bin"), root.join("node/bin")]).unwrap();
        assert_eq!(
            paths_of(Path::new("agent"), &path),
            [root.join("npm/lib/node_modules"), root.join("node")]
        );
        program(
            &root.join("venv/bin/tool"),
            &format!("#!{}\n", root.join("venv/bin/python").display()),
        );
        fs::write(root.join("venv/pyvenv.cfg"), "").unwrap();
        assert_eq!(paths_of(&root.join("venv/bin/tool"), OsStr::new("")), [root.join("venv")]);
    }

    #[test]
    fn a_file_without_a_package_is_granted_alone() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for at in ["agent", ".local/bin/agent", "home/bin/agent"] {
            program(&root.join(at), "\x7fELF");
            fs::create_dir_all(root.join(at).parent().unwrap().join("../lib")).unwrap();
            assert_eq!(paths_of(&root.join(at), OsStr::new("")), [root.join(at)], "{at}");
        }
        assert_eq!(paths_of(Path::new("nothing"), OsStr::new("/usr/bin")), [] as [PathBuf; 0]);
    }
}
