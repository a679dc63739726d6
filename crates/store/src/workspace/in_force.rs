//! Lists the limits in force, each with the line of the file that says so. `docs/configuration.md`
//! describes how the limits of a channel and of its project are combined.

use std::collections::BTreeSet;
use std::path::Path;

use super::bindings::SavedBinding;
use super::followed::kept_copy;
use super::state_file::StateFile;
use super::{BudgetFile, Channels, DOCUMENT_LIMIT, LimitFiles};
use aetheel_model::budget::{BudgetCap, BudgetRules, BudgetSubject};
use aetheel_model::event::Lane;
use aetheel_runtime::ordinary::read_ordinary;

/// A setting or limit, and where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingInForce {
    /// Its key, or the name of the budget.
    pub name: String,
    /// Its value for people.
    pub value: String,
    /// The file and line, such as `budgets.md:12`.
    pub source: String,
}

/// A file with limits, as it is in force.
struct LimitFile {
    text: String,
    name: String,
}

impl LimitFile {
    /// Reads a file, or its copy if the file has faults. A file that cannot be read is empty.
    fn read(folder: &Path, name: &str, has_faults: fn(&str) -> bool) -> Self {
        let text = |path: &Path| {
            let read = read_ordinary(path, DOCUMENT_LIMIT);
            read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
        };
        let present = text(&folder.join(name));
        if has_faults(&present) {
            let name_of_copy = format!("state/in-force/{name}");
            return Self { text: text(&kept_copy(folder, name)), name: name_of_copy };
        }
        Self { text: present, name: name.to_owned() }
    }
}

/// Returns the caps of `budgets.md`. Blocks.
#[must_use]
pub fn caps_in_force(folder: &Path) -> Vec<SettingInForce> {
    let file = LimitFile::read(folder, BudgetFile::NAME, |text| {
        !BudgetRules::parse(text).faults.is_empty()
    });
    let caps = BudgetRules::parse(&file.text).caps;
    caps.iter().map(|cap| cap_in_force(cap, &file.name)).collect()
}

fn cap_in_force(cap: &BudgetCap, file: &str) -> SettingInForce {
    SettingInForce {
        name: cap.name.clone(),
        value: format!("{}{}", cap.describe(), cap.describe_filters()),
        source: format!("{file}:{}", cap.line),
    }
}

/// Returns the number of lanes with settings in `channels.md`. Blocks.
#[must_use]
pub fn lanes_in_force(folder: &Path) -> usize {
    Channels::parse(&channels(folder).text).lanes().count()
}

fn channels(folder: &Path) -> LimitFile {
    LimitFile::read(folder, "channels.md", |text| !Channels::parse(text).faults.is_empty())
}

/// Returns the settings of a lane in `channels.md`, its own before those of its project. Blocks.
#[must_use]
pub fn lane_settings_in_force(folder: &Path, lane: &Lane) -> Vec<SettingInForce> {
    let file = channels(folder);
    lane_entries(&file.text, &file.name, lane)
}

fn lane_entries(text: &str, file: &str, lane: &Lane) -> Vec<SettingInForce> {
    let entries = Channels::entries(text, lane).into_iter();
    entries
        .map(|entry| SettingInForce {
            name: entry.key.clone(),
            value: entry.text().to_owned(),
            source: format!("{file}:{}", entry.line),
        })
        .collect()
}

/// Returns the lanes of `channels.md`, and those with a saved session or setting. Blocks.
#[must_use]
pub fn known_lanes(folder: &Path) -> BTreeSet<Lane> {
    let mut lanes: BTreeSet<Lane> =
        Channels::parse(&channels(folder).text).lanes().map(|(lane, _)| lane.clone()).collect();
    // A file that cannot be read has no lanes to offer.
    let sessions = StateFile::<SavedBinding>::read_folder(folder).unwrap_or_default();
    lanes.extend(sessions.into_iter().map(|saved| saved.lane));
    lanes
}

impl LimitFiles {
    /// Returns the settings of a lane in `channels.md`, before those of the channel of a thread.
    #[must_use]
    pub fn of_lane(&self, lane: &Lane, parent: Option<&Lane>) -> Vec<SettingInForce> {
        let channels = self.channels.lock();
        let (text, name) = channels.in_force();
        let mut settings = lane_entries(text, &name, lane);
        for setting in parent.into_iter().flat_map(|parent| lane_entries(text, &name, parent)) {
            if settings.iter().all(|own| own.name != setting.name) {
                settings.push(setting);
            }
        }
        settings
    }

    /// Returns the caps that apply to the turns of a lane, for some person.
    #[must_use]
    pub fn caps(&self, subject: &BudgetSubject) -> Vec<SettingInForce> {
        let (rules, name) = self.budgets.in_force();
        let caps = rules.caps.iter().filter(|cap| cap.may_apply(subject));
        caps.map(|cap| cap_in_force(cap, &name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::id::ChannelId;

    #[test]
    fn each_limit_has_the_line_that_says_so_and_a_faulty_file_its_copy() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        write("budgets.md", "## team\n- person: each\n- cap: $5 a day\n");
        write(
            "channels.md",
            "## project p\n- backend: codex\n- safety: edit\n\n## 42\n- project: p\n- safety: ask\n",
        );
        let lane = Lane::Channel(ChannelId::discord(42));
        let shown = || {
            let caps = caps_in_force(folder.path()).into_iter();
            let all = caps.chain(lane_settings_in_force(folder.path(), &lane));
            all.map(|SettingInForce { name, value, source }| format!("{name} {value} {source}"))
                .collect::<Vec<_>>()
        };
        let wanted = [
            "team $5.00 a day, person: each budgets.md:3",
            "project p channels.md:6",
            "safety ask channels.md:7",
            "backend codex channels.md:2",
        ];
        assert_eq!(shown(), wanted);
        write("state/in-force/budgets.md", "## team\n- cap: $7 a day\n");
        write("budgets.md", "### team\n- cap: $9 a day\n");
        assert_eq!(shown()[0], "team $7.00 a day state/in-force/budgets.md:2");
    }
}
