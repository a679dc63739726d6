//! The warnings about files that two conversations use. Pure.

use std::path::{Path, PathBuf};

use aetheel_model::event::Lane;
use aetheel_model::file_use::{FileAccess, LaneFileUse};
use aetheel_model::plain::{counted, short_line};

/// The maximum number of files in one warning.
const MAX_FILES: usize = 6;
/// The maximum length of a path in a warning, in characters.
const MAX_PATH: usize = 100;
/// The maximum length of the name of a lane without a channel, in characters.
const MAX_LANE: usize = 60;

/// A file that two lanes use, from the view of one of them.
#[derive(Clone, Debug)]
pub(super) struct FilePlace {
    path: PathBuf,
    /// The use in the lane that is warned.
    pub(super) here: LaneFileUse,
    /// The use in the other lane.
    there: LaneFileUse,
}

impl FilePlace {
    pub(super) fn new(path: &Path, here: &LaneFileUse, there: &LaneFileUse) -> Self {
        Self { path: path.to_owned(), here: here.clone(), there: there.clone() }
    }

    /// Shortens the path to the part below the working directory of the lane that is warned.
    pub(super) fn below(mut self, cwd: &Path) -> Self {
        if let Ok(below) = self.path.strip_prefix(cwd) {
            self.path = below.to_owned();
        }
        self
    }

    /// Describes both uses on one line.
    fn line(&self, now_ms: u64) -> String {
        let Self { path, here, there } = self;
        let path = short_line(&path.to_string_lossy().replace('`', "'"), MAX_PATH);
        let by = there.author.as_ref().map(|author| format!(" for {author}")).unwrap_or_default();
        format!(
            "- `{path}`: {} here {}, {} in {}{by} {}",
            word(here.access),
            ago(here.at_ms, now_ms),
            word(there.access),
            place(&there.lane),
            ago(there.at_ms, now_ms)
        )
    }
}

/// Returns the warning for a lane.
pub(super) fn warning(places: &[FilePlace], now_ms: u64) -> String {
    let mut text = "⚠️ Another conversation uses the same files. One agent may overwrite changes of the other, or work from old content:".to_owned();
    for place in places.iter().take(MAX_FILES) {
        text.push('\n');
        text.push_str(&place.line(now_ms));
    }
    let more = places.len().saturating_sub(MAX_FILES);
    if more > 0 {
        text.push_str(&format!("\n- and {}", counted(more, "more file")));
    }
    text + "\n(collision)"
}

fn word(access: FileAccess) -> &'static str {
    match access {
        FileAccess::Read => "read",
        FileAccess::Write => "changed",
    }
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
    use aetheel_model::id::ChannelId;

    fn used(lane: Lane, access: FileAccess, at_ms: u64) -> LaneFileUse {
        LaneFileUse { lane, author: Some("Ann".to_owned()), access, at_ms }
    }

    #[test]
    fn a_warning_names_the_file_the_access_the_person_the_place_and_the_time() {
        let here = used(Lane::Console, FileAccess::Write, 600_000);
        let there = used(Lane::Channel(ChannelId::discord(7)), FileAccess::Read, 420_000);
        let text = warning(&[FilePlace::new(Path::new("src/`a`.rs"), &here, &there)], 600_100);
        let line = "- `src/'a'.rs`: changed here just now, read in <#7> for Ann 3 minutes ago";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn a_warning_about_many_files_is_short() {
        let here = used(Lane::Console, FileAccess::Write, 0);
        let there = used(Lane::Cron("x".repeat(100)), FileAccess::Write, 0);
        let long = "é".repeat(500);
        let places = vec![FilePlace::new(Path::new(&long), &here, &there); 300];
        let text = warning(&places, 0);
        assert!(text.contains("- and 294 more files"), "{text}");
        assert!(text.chars().count() < 1_900, "{}", text.chars().count());
    }

    #[test]
    fn a_path_is_shown_from_the_working_directory_of_the_lane() {
        let (here, there) =
            (used(Lane::Console, FileAccess::Write, 0), used(Lane::Console, FileAccess::Write, 0));
        let place = FilePlace::new(Path::new("/srv/site/src/a.rs"), &here, &there);
        assert_eq!(place.clone().below(Path::new("/srv/site")).path, Path::new("src/a.rs"));
        assert_eq!(place.below(Path::new("/home")).path, Path::new("/srv/site/src/a.rs"));
    }
}
