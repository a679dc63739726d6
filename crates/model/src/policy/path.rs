//! The paths in a request, resolved from their text alone.

/// A file that a tool reads or changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolPath {
    /// The path as the agent wrote it.
    pub path: String,
    /// The absolute path without `.` and `..`, or the path itself if its meaning is not known.
    pub resolved: String,
    /// Whether it is the working directory or below it.
    pub is_inside: bool,
}

impl ToolPath {
    /// Resolves a path in a working directory. Symbolic links are not followed, because they may
    /// change before the agent uses the path. The sandbox limits where they can lead.
    #[must_use]
    pub fn of(path: &str, cwd: &str) -> Self {
        // Agents and shells replace these before they open the file.
        let is_expanded = path.starts_with('~')
            || path.contains(|character: char| character.is_control() || "$*`".contains(character));
        if is_expanded || path.trim() != path || path.is_empty() || !cwd.starts_with('/') {
            return Self::unknown(path);
        }
        let whole = if path.starts_with('/') { path.to_owned() } else { format!("{cwd}/{path}") };
        let (parts, folder) = (parts(&whole), parts(cwd));
        let is_inside = parts.starts_with(&folder);
        Self { path: path.to_owned(), resolved: format!("/{}", parts.join("/")), is_inside }
    }

    /// Returns a path whose meaning is not known.
    #[must_use]
    pub fn unknown(path: &str) -> Self {
        Self { path: path.to_owned(), resolved: path.to_owned(), is_inside: false }
    }
}

/// Returns the parts of an absolute path without `.` and `..`.
fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_inside_only_if_its_text_proves_it() {
        let inside = |path: &str| ToolPath::of(path, "/home/ada/project").is_inside;
        for path in ["a", "./a/../b", "/home/ada/project", "/home//ada/project/x", "a/.../b"] {
            assert!(inside(path), "{path}");
        }
        for path in [
            "..",
            "../project2/a",
            "/home/ada/project2",
            "/home/ada/project/../x",
            "a/../../x",
            "~/project/a",
            "$HOME/a",
            "`pwd`/a",
            "a*",
            "a\0b",
            "a\nb",
            "",
            " ",
            "a ",
        ] {
            assert!(!inside(path), "{path:?}");
        }
        assert_eq!(ToolPath::of("../x/./y", "/home/ada/project").resolved, "/home/ada/x/y");
    }
}
