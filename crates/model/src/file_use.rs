//! Files that two conversations use at the same time.
//!
//! Two agents that work in the same directory can overwrite each other's changes, or work from a
//! file that the other one has changed since. [`FileUses`] remembers which lanes used which files,
//! and returns a [`Collision`] when a lane writes a file that another lane read or wrote shortly
//! before. It has no I/O and no clock. `dispatch::collisions` feeds it.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use crate::event::Lane;

/// Maximum number of files that are remembered. The tenth that was used least recently is then
/// forgotten.
const MAX_FILES: usize = 10_000;
const MAX_LANES: usize = 50;

/// The way in which an agent used a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileAccess {
    /// It read the file.
    Read,
    /// It created, changed, renamed or deleted the file.
    Write,
}

/// The use of a file by a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneFileUse {
    /// The lane of the turn.
    pub lane: Lane,
    /// The person who started the turn, if a person did.
    pub author: Option<String>,
    /// The strongest access within the time that is remembered.
    pub access: FileAccess,
    /// Time of the latest use, in milliseconds.
    pub at_ms: u64,
}

/// A file that a lane wrote shortly after another lane used it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collision {
    /// The file.
    pub path: PathBuf,
    /// The earlier use, by another lane.
    pub earlier: LaneFileUse,
    /// The write.
    pub later: LaneFileUse,
}

/// The recent uses of files. Each pair of lanes collides at most once per file, until both have left
/// the file alone for the time that is remembered.
#[derive(Debug)]
pub struct FileUses {
    /// How long a use is remembered, in milliseconds.
    window_ms: u64,
    files: HashMap<PathBuf, UsedFile>,
}

/// The lanes that used a file, oldest use first, their writes, and the pairs that collided there.
#[derive(Debug, Default)]
struct UsedFile {
    uses: Vec<LaneFileUse>,
    /// The time of the latest write of each lane.
    writes: BTreeMap<Lane, u64>,
    reported: BTreeMap<(Lane, Lane), u64>,
}

impl FileUses {
    /// Creates an empty memory of uses, which forgets each after `window_ms` milliseconds.
    #[must_use]
    pub fn new(window_ms: u64) -> Self {
        Self { window_ms, files: HashMap::new() }
    }

    /// Records the use of a file, and returns the collisions that it causes, oldest use first. A file
    /// must have one path. A use may arrive late, after uses that followed it.
    pub fn record(&mut self, path: &Path, now: LaneFileUse) -> Vec<Collision> {
        let since = now.at_ms.saturating_sub(self.window_ms);
        if !self.files.contains_key(path) {
            self.make_room(since);
        }
        let file = self.files.entry(path.to_owned()).or_default();
        file.uses.retain(|earlier| earlier.at_ms >= since);
        file.reported.retain(|_, last| *last >= since);
        file.writes.retain(|_, last| *last >= since);
        let mut collisions = Vec::new();
        let mut access = now.access;
        for earlier in &file.uses {
            if earlier.lane == now.lane {
                access = access.max(earlier.access);
                continue;
            }
            let pair = pair(&earlier.lane, &now.lane);
            let follows = now.access == FileAccess::Write && earlier.at_ms <= now.at_ms;
            let precedes = file.writes.get(&earlier.lane).is_some_and(|at| *at > now.at_ms);
            if let Some(last) = file.reported.get_mut(&pair) {
                *last = now.at_ms.max(*last);
            } else if follows || precedes {
                file.reported.insert(pair, now.at_ms.max(earlier.at_ms));
                let (earlier, later) = match follows {
                    true => (earlier.clone(), now.clone()),
                    false => (now.clone(), earlier.clone()),
                };
                collisions.push(Collision { path: path.to_owned(), earlier, later });
            }
        }
        file.uses.retain(|earlier| earlier.lane != now.lane);
        if file.uses.len() == MAX_LANES {
            let forgotten = file.uses.remove(0);
            file.writes.remove(&forgotten.lane);
        }
        if now.access == FileAccess::Write {
            file.writes.insert(now.lane.clone(), now.at_ms);
        }
        file.uses.push(LaneFileUse { access, ..now });
        collisions
    }

    /// Returns the uses with which a write of a lane would collide, oldest first. Uses from before the
    /// lane's own latest write are left out, except that another lane has written since.
    #[must_use]
    pub fn in_the_way(&self, path: &Path, lane: &Lane, now_ms: u64) -> Vec<LaneFileUse> {
        let since = now_ms.saturating_sub(self.window_ms);
        let Some(file) = self.files.get(path) else { return Vec::new() };
        let own = file.writes.get(lane).copied().filter(|at| *at >= since);
        let is_in_the_way = |used: &&LaneFileUse| {
            let wrote_since = || file.writes.get(&used.lane).is_some_and(|at| Some(*at) > own);
            used.lane != *lane && used.at_ms >= since && (own.is_none() || wrote_since())
        };
        file.uses.iter().filter(is_in_the_way).cloned().collect()
    }

    /// If there are too many files, forgets those that were not used since a time, or the tenth that
    /// was used least recently.
    fn make_room(&mut self, since: u64) {
        if self.files.len() < MAX_FILES {
            return;
        }
        self.files.retain(|_, file| file.last_ms() >= since);
        if self.files.len() < MAX_FILES {
            return;
        }
        let mut times: Vec<u64> = self.files.values().map(UsedFile::last_ms).collect();
        let tenth = times.len() / 10;
        let (_, newest_forgotten, _) = times.select_nth_unstable(tenth);
        let newest_forgotten = *newest_forgotten;
        self.files.retain(|_, file| file.last_ms() > newest_forgotten);
    }
}

impl UsedFile {
    fn last_ms(&self) -> u64 {
        self.uses.iter().map(|used| used.at_ms).max().unwrap_or(0)
    }
}

/// Returns two lanes in a fixed order.
fn pair(one: &Lane, other: &Lane) -> (Lane, Lane) {
    let (one, other) = if one <= other { (one, other) } else { (other, one) };
    (one.clone(), other.clone())
}

#[cfg(test)]
mod tests {
    use super::FileAccess::{Read, Write};
    use super::*;
    use crate::id::ChannelId;

    const WINDOW: u64 = 900_000;

    /// Records uses of one file, and returns the lanes of each collision with the access of the
    /// earlier one.
    fn collisions(uses: &[(u64, FileAccess, u64)]) -> Vec<(u64, FileAccess, u64)> {
        let mut memory = FileUses::new(WINDOW);
        let number = |lane: &Lane| match lane {
            Lane::Channel(channel) => channel.as_discord().unwrap_or(0),
            _ => 0,
        };
        let mut found = Vec::new();
        for (lane, access, at_ms) in uses {
            for Collision { earlier, later, .. } in
                memory.record(Path::new("/a"), of(*lane, *access, *at_ms))
            {
                found.push((number(&earlier.lane), earlier.access, number(&later.lane)));
            }
        }
        found
    }

    fn of(lane: u64, access: FileAccess, at_ms: u64) -> LaneFileUse {
        let lane = Lane::Channel(ChannelId::discord(lane));
        LaneFileUse { lane, author: None, access, at_ms }
    }

    #[test]
    fn a_write_collides_with_the_reads_and_writes_of_other_lanes() {
        assert_eq!(collisions(&[(1, Write, 0), (2, Write, 1)]), [(1, Write, 2)]);
        assert_eq!(collisions(&[(1, Read, 0), (2, Write, 1)]), [(1, Read, 2)]);
        assert_eq!(
            collisions(&[(1, Read, 0), (2, Read, 1), (3, Write, 2)]),
            [(1, Read, 3), (2, Read, 3)]
        );
    }

    #[test]
    fn reads_do_not_collide() {
        assert_eq!(collisions(&[(1, Read, 0), (2, Read, 1)]), []);
        assert_eq!(collisions(&[(1, Write, 0), (2, Read, 1)]), []);
        // The reader works from content that is old from then on.
        assert_eq!(collisions(&[(1, Write, 0), (2, Read, 1), (1, Write, 2)]), [(2, Read, 1)]);
    }

    #[test]
    fn a_use_that_arrives_late_collides_with_the_writes_that_followed_it() {
        assert_eq!(collisions(&[(1, Write, 9), (2, Read, 5)]), [(2, Read, 1)]);
        assert_eq!(collisions(&[(1, Write, 9), (2, Write, 5)]), [(2, Write, 1)]);
        assert_eq!(collisions(&[(1, Read, 9), (2, Write, 5)]), [], "it read the new content");
        assert_eq!(collisions(&[(1, Read, 9), (2, Read, 5)]), []);
    }

    #[test]
    fn a_lane_does_not_collide_with_itself() {
        assert_eq!(collisions(&[(1, Read, 0), (1, Write, 1), (1, Write, 2)]), []);
    }

    #[test]
    fn a_pair_collides_once_per_file_while_it_uses_the_file() {
        let often: Vec<_> = (0..6).map(|n| (1 + n % 2, Write, n * WINDOW / 2)).collect();
        assert_eq!(collisions(&often), [(1, Write, 2)]);
        let mut memory = FileUses::new(WINDOW);
        memory.record(Path::new("/a"), of(1, Write, 0));
        memory.record(Path::new("/b"), of(1, Write, 0));
        assert_eq!(memory.record(Path::new("/a"), of(2, Write, 1)).len(), 1);
        assert_eq!(memory.record(Path::new("/b"), of(2, Write, 1)).len(), 1);
    }

    #[test]
    fn old_uses_are_forgotten() {
        assert_eq!(collisions(&[(1, Write, 0), (2, Write, WINDOW + 1)]), []);
        let again =
            [(1, Write, 0), (2, Write, 1), (1, Write, 2 * WINDOW), (2, Write, 2 * WINDOW + 1)];
        assert_eq!(collisions(&again), [(1, Write, 2), (1, Write, 2)]);
    }

    #[test]
    fn a_write_is_remembered_although_the_lane_reads_the_file_later() {
        assert_eq!(collisions(&[(1, Write, 0), (1, Read, 1), (2, Write, 2)]), [(1, Write, 2)]);
    }

    #[test]
    fn a_write_is_in_the_way_of_another_lane_until_that_lane_has_written_the_file() {
        let mut memory = FileUses::new(WINDOW);
        let path = Path::new("/a");
        let lanes = |memory: &FileUses, lane: u64, now| {
            let found = memory.in_the_way(path, &of(lane, Read, 0).lane, now);
            found.into_iter().map(|used| used.access).collect::<Vec<_>>()
        };
        memory.record(path, of(1, Read, 0));
        assert_eq!(lanes(&memory, 2, 1), [Read]);
        assert_eq!(lanes(&memory, 1, 1), []);
        memory.record(path, of(2, Write, 2));
        assert_eq!(lanes(&memory, 2, 3), [], "people have allowed it before");
        assert_eq!(lanes(&memory, 1, 3), [Write]);
        memory.record(path, of(1, Read, 4));
        assert_eq!(lanes(&memory, 2, 5), []);
        memory.record(path, of(1, Write, 6));
        assert_eq!(lanes(&memory, 2, 7), [Write]);
        assert_eq!(lanes(&memory, 2, WINDOW + 7), []);
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut memory = FileUses::new(WINDOW);
        for file in 0..2 * MAX_FILES as u64 {
            memory.record(Path::new(&format!("/{file}")), of(1, Write, file / 1_000));
        }
        assert!(memory.files.len() <= MAX_FILES, "{}", memory.files.len());
        for lane in 1..200 {
            memory.record(Path::new("/a"), of(lane, Read, 20));
        }
        assert_eq!(memory.files[Path::new("/a")].uses.len(), MAX_LANES);
        let newest = format!("/{}", 2 * MAX_FILES - 1);
        assert_eq!(memory.record(Path::new(&newest), of(2, Write, 21)).len(), 1);
    }
}
