//! The file with the name of the holder that keeps a gateway's agents.
//!
//! The next gateway compares it with the holder it finds. If they differ, agents may have worked
//! after the last gateway ended, and their output is lost. A holder that leaves without having lost
//! any output removes its name.

use std::io;
use std::path::Path;

use aetheel_model::plain::with_causes;
use aetheel_store::disk::replace;

const FILE: &str = "holder.md";
const HEADING: &str = "# The holder of the agents\n\nWritten by the gateway.\n\n";
const BULLET: &str = "- holder: ";

/// Returns the name that was written last, or `None` if the last gateway used no holder. A file
/// that cannot be read has a name that no holder has.
pub(super) fn read(state: &Path) -> Option<String> {
    match std::fs::read_to_string(state.join(FILE)) {
        Ok(text) => {
            let name = text.lines().find_map(|line| line.strip_prefix(BULLET));
            Some(name.unwrap_or_default().trim().to_owned())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::warn!(error = %with_causes(&error), "cannot read `state/{FILE}`; interrupted turns are asked about");
            Some(String::new())
        }
    }
}

/// Writes the name of the holder that keeps agents from now on. A gateway that is killed meanwhile
/// leaves the earlier name: half a name would be one that no holder has.
pub(super) fn write(state: &Path, name: &str) {
    if read(state).as_deref() == Some(name) {
        return;
    }
    let content = format!("{HEADING}{BULLET}{name}\n");
    if let Err(error) = replace(&state.join(FILE), content.as_bytes()) {
        tracing::warn!(error = %with_causes(&error), "cannot write `state/{FILE}`; the next start asks about interrupted turns");
    }
}

/// Removes the name: agents end with the gateway from now on. Returns whether there was one.
pub(super) fn remove(state: &Path) -> bool {
    match std::fs::remove_file(state.join(FILE)) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => {
            tracing::warn!(error = %with_causes(&error), "cannot remove `state/{FILE}`; interrupted turns are asked about");
            true
        }
    }
}

/// Replaces the name, if there is one, by one that no holder has. The holder that leaves next does
/// not remove it, so that the next gateway knows of the lost output.
pub(super) fn invalidate(state: &Path) {
    if read(state).is_some() {
        write(state, "");
    }
}

pub(super) fn remove_own(state: &Path, name: &str) {
    if read(state).is_some_and(|written| written == name) {
        remove(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_written_in_place() {
        let state = tempfile::tempdir().expect("a folder");
        let state = state.path();
        write(state, "aetheel-1");
        let mut open = std::fs::File::open(state.join(FILE)).expect("opened");
        write(state, "aetheel-1");
        write(state, "aetheel-2");
        // A reader sees the content that a kill in the middle of a write in place would leave.
        let mut seen = String::new();
        io::Read::read_to_string(&mut open, &mut seen).expect("read");
        assert!(seen.ends_with("aetheel-1\n"), "{seen}");
        assert_eq!(read(state).as_deref(), Some("aetheel-2"));
    }

    #[test]
    fn a_holder_removes_its_name_unless_its_output_is_lost() {
        let state = tempfile::tempdir().expect("a folder");
        let state = state.path();
        invalidate(state);
        assert_eq!(read(state), None);
        write(state, "aetheel-1");
        remove_own(state, "aetheel-2");
        assert_eq!(read(state).as_deref(), Some("aetheel-1"));
        remove_own(state, "aetheel-1");
        assert_eq!(read(state), None);
        write(state, "aetheel-1");
        invalidate(state);
        remove_own(state, "aetheel-1");
        assert!(remove(state), "the gateway still finds it");
    }
}
