//! The warnings about files that two conversations use. Pure.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use aetheel_model::claim::Claim;
use aetheel_model::event::Lane;
use aetheel_model::file_use::{FileAccess, LaneFileUse};
use aetheel_model::plain::{counted, hex, short_line};
use aetheel_runtime::clock::Clock;

/// The maximum number of files in one warning.
const MAX_FILES: usize = 6;
/// The maximum number of files in one question.
const MAX_ASKED_FILES: usize = 2;
/// The maximum length of a path in a warning, in characters.
const MAX_PATH: usize = 100;
/// The maximum length of the name of a lane without a channel, in characters.
const MAX_LANE: usize = 60;
/// The number of bytes of a mark.
const MARK_BYTES: usize = 12;

/// The current time of both clocks: that of uses, and that of claims.
#[derive(Clone, Copy, Debug)]
pub(super) struct CollisionTime {
    pub(super) boot_ms: u64,
    pub(super) now: Timestamp,
}

impl CollisionTime {
    pub(super) fn of(clock: &Clock) -> Self {
        Self { boot_ms: clock.boot_ms(), now: clock.now() }
    }
}

/// The use or the claim of a file in a conversation.
#[derive(Clone, Debug)]
pub(super) enum FileInterest {
    /// Its agent used the file.
    Used(LaneFileUse),
    /// The file was reserved there.
    Claimed(Claim),
}

impl FileInterest {
    pub(super) fn lane(&self) -> &Lane {
        match self {
            Self::Used(used) => &used.lane,
            Self::Claimed(claim) => &claim.lane,
        }
    }

    /// Describes the interest of the lane that is warned.
    fn here(&self, time: CollisionTime) -> String {
        match self {
            Self::Used(used) => {
                format!("{} here {}", word(used.access), ago(used.at_ms, time.boot_ms))
            }
            Self::Claimed(claim) => {
                format!("reserved here {}{}", holder(claim), rest(claim, time.now))
            }
        }
    }

    /// Describes the interest of the other lane.
    fn there(&self, time: CollisionTime) -> String {
        match self {
            Self::Used(used) => {
                let by =
                    used.author.as_ref().map(|name| format!(" for {name}")).unwrap_or_default();
                let (place, ago) = (place(&used.lane), ago(used.at_ms, time.boot_ms));
                format!("{} in {place}{by} {ago}", word(used.access))
            }
            Self::Claimed(claim) => {
                let place = place(&claim.lane);
                format!("reserved {} in {place}{}", holder(claim), rest(claim, time.now))
            }
        }
    }
}

/// A file that two lanes use, from the view of one of them.
#[derive(Clone, Debug)]
pub(super) struct FilePlace {
    path: PathBuf,
    /// The path without links, whatever the view.
    whole: PathBuf,
    /// The interest of the lane that is warned.
    pub(super) here: FileInterest,
    /// The interest of the other lane.
    there: FileInterest,
}

impl FilePlace {
    pub(super) fn new(path: &Path, here: FileInterest, there: FileInterest) -> Self {
        Self { path: path.to_owned(), whole: path.to_owned(), here, there }
    }

    /// Shortens the path to the part below the working directory of the lane that is warned.
    pub(super) fn below(mut self, cwd: &Path) -> Self {
        if let Ok(below) = self.path.strip_prefix(cwd) {
            self.path = below.to_owned();
        }
        self
    }

    /// Returns the mark of the file and the other conversation: letters and digits, the same after a
    /// restart.
    pub(super) fn mark(&self) -> String {
        let text = format!("{}\n{}", self.there.lane(), self.whole.display());
        hex(&Sha256::digest(text)[..MARK_BYTES])
    }

    /// Returns the name of the file.
    pub(super) fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn shown_path(&self) -> String {
        short_line(&self.path.to_string_lossy().replace('`', "'"), MAX_PATH)
    }

    /// Describes both uses on one line.
    fn line(&self, time: CollisionTime) -> String {
        let (here, there) = (self.here.here(time), self.there.there(time));
        format!("- `{}`: {here}, {there}", self.shown_path())
    }
}

/// Returns the warning for a lane.
pub(super) fn warning(places: &[FilePlace], time: CollisionTime) -> String {
    let mut text = "⚠️ Another conversation uses the same files. One agent may overwrite changes of the other, or work from old content:".to_owned();
    for place in places.iter().take(MAX_FILES) {
        text.push('\n');
        text.push_str(&place.line(time));
    }
    let more = places.len().saturating_sub(MAX_FILES);
    if more > 0 {
        text.push_str(&format!("\n- and {}", counted(more, "more file")));
    }
    text + "\n(collision)"
}

/// Returns the notice about a claim that was released, because `other` was taken at the same time.
pub(super) fn yielded(own: &Claim, other: &Claim, now: Timestamp) -> String {
    format!(
        "⚠️ Your claim to {} was released: at the same time, {} was reserved {} in {}{}. (collision)",
        paths(own),
        paths(other),
        holder(other),
        place(&other.lane),
        rest(other, now)
    )
}

/// Returns why people are asked before an agent writes files, on one line.
pub(super) fn reason(places: &[FilePlace], time: CollisionTime) -> String {
    let named = places.iter().take(MAX_ASKED_FILES);
    let named =
        named.map(|place| format!("`{}` was {}", place.shown_path(), place.there.there(time)));
    let named = named.collect::<Vec<_>>().join("; ");
    match places.len().saturating_sub(MAX_ASKED_FILES) {
        0 => format!("{named}."),
        more => format!("{named}; and {}.", counted(more, "more file")),
    }
}

fn word(access: FileAccess) -> &'static str {
    match access {
        FileAccess::Read => "read",
        FileAccess::Write => "changed",
    }
}

fn paths(claim: &Claim) -> String {
    let paths: Vec<&str> = claim.paths.iter().map(|path| path.as_str()).collect();
    format!("`{}`", short_line(&paths.join("`, `"), MAX_PATH))
}

fn holder(claim: &Claim) -> String {
    short_line(&claim.by(), MAX_LANE)
}

/// Returns the remaining time and the reason of a claim.
fn rest(claim: &Claim, now: Timestamp) -> String {
    let reason = claim.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!(" for {}{reason}", claim.left(now))
}

fn place(lane: &Lane) -> String {
    match lane {
        Lane::Channel(channel) => format!("<#{channel}>"),
        Lane::Console => "the console".to_owned(),
        other => format!("`{}`", short_line(&other.to_string().replace('`', "'"), MAX_LANE)),
    }
}

fn ago(at_ms: u64, now_ms: u64) -> String {
    match now_ms.saturating_sub(at_ms) / 60_000 {
        0 => "just now".to_owned(),
        minutes => format!("{} ago", counted(minutes, "minute")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::claim::{ClaimHolder, ClaimPattern};
    use aetheel_model::id::ChannelId;

    const NOW: CollisionTime = CollisionTime { boot_ms: 600_100, now: Timestamp::UNIX_EPOCH };

    fn used(lane: Lane, access: FileAccess, at_ms: u64) -> FileInterest {
        FileInterest::Used(LaneFileUse { lane, author: Some("Ann".to_owned()), access, at_ms })
    }

    fn channel(number: u64) -> Lane {
        Lane::Channel(ChannelId::discord(number))
    }

    #[test]
    fn a_warning_names_the_file_the_access_the_person_the_place_and_the_time() {
        let here = used(Lane::Console, FileAccess::Write, 600_000);
        let there = used(channel(7), FileAccess::Read, 420_000);
        let place = FilePlace::new(Path::new("src/`a`.rs"), here, there);
        let text = warning(std::slice::from_ref(&place), NOW);
        let line = "- `src/'a'.rs`: changed here just now, read in <#7> for Ann 3 minutes ago";
        assert!(text.contains(line), "{text}");
        let asked = "`src/'a'.rs` was read in <#7> for Ann 3 minutes ago.";
        assert_eq!(reason(&[place], NOW), asked);
    }

    #[test]
    fn both_conversations_learn_who_reserved_a_file_how_long_and_why() {
        let directory = Path::new("/srv");
        let claim = FileInterest::Claimed(Claim {
            id: "a".to_owned(),
            directory: directory.to_owned(),
            paths: vec![ClaimPattern::parse("src", directory).expect("valid")],
            lane: channel(7),
            holder: ClaimHolder::Person("4".to_owned()),
            name: Some("Ann".to_owned()),
            until: Timestamp::from_second(25 * 60).expect("a time"),
            reason: Some("a release".to_owned()),
        });
        let write = used(channel(8), FileAccess::Write, 600_000);
        let path = Path::new("src/a.rs");
        let there = FilePlace::new(path, write.clone(), claim.clone());
        let line = "changed here just now, reserved by Ann in <#7> for 25 minutes (a release)";
        assert!(warning(&[there], NOW).contains(line));
        let here = FilePlace::new(path, claim, write);
        let line =
            "reserved here by Ann for 25 minutes (a release), changed in <#8> for Ann just now";
        assert!(warning(&[here], NOW).contains(line));
    }

    #[test]
    fn a_warning_about_many_files_is_short() {
        let here = used(Lane::Console, FileAccess::Write, 0);
        let there = used(Lane::Cron("x".repeat(100)), FileAccess::Write, 0);
        let long = "é".repeat(500);
        let places = vec![FilePlace::new(Path::new(&long), here, there); 300];
        let text = warning(&places, NOW);
        assert!(text.contains("- and 294 more files"), "{text}");
        assert!(text.chars().count() < 1_900, "{}", text.chars().count());
        assert!(reason(&places, NOW).ends_with("; and 298 more files."));
    }

    #[test]
    fn a_path_is_shown_from_the_working_directory_of_the_lane() {
        let side = || used(Lane::Console, FileAccess::Write, 0);
        let place = FilePlace::new(Path::new("/srv/site/src/a.rs"), side(), side());
        let below = place.clone().below(Path::new("/srv/site"));
        assert_eq!(below.path, Path::new("src/a.rs"));
        assert_eq!(below.mark(), place.mark());
        assert_eq!(place.below(Path::new("/home")).path, Path::new("/srv/site/src/a.rs"));
    }
}
