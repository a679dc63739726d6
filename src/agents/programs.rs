//! Detects when the program of an agent is replaced, for example by an update.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use aetheel_store::disk::Stamp;

/// Time without a change after which the replacement of a program counts as complete.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// The path and the stamp of each backend's program at its last examination, by backend.
#[derive(Debug, Default)]
pub(super) struct Programs(Mutex<BTreeMap<String, (PathBuf, Option<Stamp>)>>);

impl Programs {
    /// Sets the program of a backend and its stamp. `None` means that no program was found.
    pub(super) fn note(&self, backend: &str, program: Option<(PathBuf, Option<Stamp>)>) {
        let mut all = self.0.lock();
        match program {
            Some(program) => drop(all.insert(backend.to_owned(), program)),
            None => drop(all.remove(backend)),
        }
    }

    /// Returns the backends whose programs were replaced, once the replacement is complete. Ignores
    /// programs that do not exist: they are being replaced, or the next turn reports them.
    pub(super) fn changed(&self, now: SystemTime) -> Vec<String> {
        let all = self.0.lock();
        let is_other = |(path, before): &(PathBuf, Option<Stamp>)| {
            Stamp::of(path).is_some_and(|stamp| Some(stamp) != *before && has_settled(&stamp, now))
        };
        all.iter()
            .filter(|(_, program)| is_other(program))
            .map(|(backend, _)| backend.clone())
            .collect()
    }
}

/// Returns whether a program was not changed for [`SETTLE_TIME`]. Returns `true` if its time is in
/// the future, because the clock may have been set back.
fn has_settled(stamp: &Stamp, now: SystemTime) -> bool {
    stamp.age(now).is_none_or(|age| age >= SETTLE_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_program_is_detected_when_the_replacement_is_complete() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("agent");
        std::fs::write(&program, "1").expect("written");
        let programs = Programs::default();
        programs.note("x", Some((program.clone(), Stamp::of(&program))));
        let later = SystemTime::now() + Duration::from_secs(60);
        assert_eq!(programs.changed(later), Vec::<String>::new());
        std::fs::remove_file(&program).expect("removed");
        assert_eq!(programs.changed(later), Vec::<String>::new(), "it is gone for now");
        std::fs::write(folder.path().join("new"), "2").expect("written");
        std::fs::rename(folder.path().join("new"), &program).expect("renamed");
        let soon = later
            - Stamp::of(&program).expect("it is there").age(later).expect("it is in the past")
            + SETTLE_TIME / 2;
        assert_eq!(programs.changed(soon), Vec::<String>::new(), "it may still be written to");
        assert_eq!(programs.changed(later), ["x"]);
        programs.note("x", Some((program.clone(), Stamp::of(&program))));
        assert_eq!(programs.changed(later), Vec::<String>::new());
    }

    #[test]
    fn a_change_of_a_links_target_is_detected() {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, link) = (folder.path().join("target"), folder.path().join("agent"));
        std::fs::write(&target, "1").expect("written");
        std::os::unix::fs::symlink(&target, &link).expect("linked");
        let programs = Programs::default();
        programs.note("x", Some((link.clone(), Stamp::of(&link))));
        std::fs::write(&target, "22").expect("written");
        assert_eq!(programs.changed(SystemTime::now() + Duration::from_secs(60)), ["x"]);
        programs.note("x", None);
        assert_eq!(
            programs.changed(SystemTime::now() + Duration::from_secs(60)),
            Vec::<String>::new()
        );
    }
}
