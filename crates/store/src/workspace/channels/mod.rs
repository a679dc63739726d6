//! `channels.md`: the project, backend and settings of each channel. The operator's file; only
//! `/project` writes to it.
//!
//! Pure except for [`directory()`] and [`bind()`]. `docs/configuration.md` has the format.

mod bind;
mod directory;
mod values;

pub use bind::{UnwritableValue, with_channel, with_project};
pub use directory::{DirectoryError, directory};
pub use values::{is_label, plain};

use values::{host_tools, names, safety};

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use super::heartbeats::parse_interval;
use super::lane_memory::MemoryScope;
use super::{DOCUMENT_LIMIT, FileError};
use crate::disk::{Stamp, replace, text_of};
use aetheel_model::agent::{Mode, Safety};
use aetheel_model::choice::CollisionMode;
use aetheel_model::event::Lane;
use aetheel_model::host_tool::HostToolKind;
use aetheel_model::markdown::KeyValue;
use aetheel_model::markdown::layout::{MarkdownError, SectionLayout, misspelled};
use aetheel_model::markdown::sections::{Section, sections};
use aetheel_model::suggest::suggestion;
use aetheel_runtime::ordinary::read_ordinary;

/// The operator's settings for a lane, or for a project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneSettings {
    /// Working directory, as written.
    pub directory: Option<String>,
    /// The name of the backend that answers.
    pub backend: Option<String>,
    /// The backends that people may choose, instead of those that are offered everywhere.
    pub backends: Option<Vec<String>>,
    /// The model for [`LaneSettings::backend`], or for the default backend if that is not set.
    pub model: Option<String>,
    /// The effort, for the same backend as [`LaneSettings::model`].
    pub effort: Option<String>,
    /// The highest safety level that is allowed.
    pub safety: Option<Safety>,
    /// The mode. `plan` excludes all others.
    pub mode: Option<Mode>,
    /// Whether people must mention the bot. If `false`, the bot reads every message.
    pub require_mention: Option<bool>,
    /// The project it belongs to, in lower case.
    pub project: Option<String>,
    /// The memory in which the agent's notes are saved, or `None` for the default one.
    pub memory: Option<MemoryScope>,
    /// Time after which the person who asked is pinged when the answer is complete.
    pub ping: Option<Duration>,
    /// The reaction to a file that another conversation uses, too.
    pub collisions: Option<CollisionMode>,
    /// Whether the directory of the project is the same one on all machines of a cluster.
    pub shared_directory: Option<bool>,
    /// The tools of the host that its agents may call, or `None` for the usual ones.
    pub host_tools: Option<Vec<HostToolKind>>,
    /// The label of the cluster's nodes that may serve it, or `None` for any node.
    pub node: Option<String>,
    /// The reason why nothing may run here until the file is corrected.
    pub fault: Option<String>,
}

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    lanes: BTreeMap<Lane, LaneSettings>,
    projects: BTreeMap<String, LaneSettings>,
    /// A line for each part that could not be read.
    pub warnings: Vec<String>,
    /// A line for each part that could not be read and may be a limit of a lane. A file with faults
    /// must not replace an earlier one.
    pub faults: Vec<String>,
}

const LAYOUT: SectionLayout<'static> = SectionLayout {
    is_known: &|key| key == "thinking" || ENTRIES.contains(&key),
    may_repeat: &|_| false,
    aliases: &[("thinking", "effort"), ("permission-mode", "safety")],
    has_prompt: false,
};

impl Channels {
    /// Parses the text of a file. Invalid parts cause a warning; an invalid limit is replaced by
    /// the strictest one.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (sections, strange) = sections(text);
        let mut warnings = Vec::new();
        let layout = LAYOUT.faults(text).into_iter().map(|(line, fault)| (line, fault.to_string()));
        let mut faults: Vec<String> = layout
            .chain(strange)
            .map(|(line, fault)| format!("channels.md line {line}: {fault}"))
            .collect();
        let (mut projects, mut lanes) = (BTreeMap::new(), Vec::new());
        for section in &sections {
            if let Some(name) = keyword(&section.title, "project") {
                let (settings, of) = read(section, &mut warnings);
                if let Some(of) = of {
                    warnings
                        .push(format!("channels.md line {}: a project has no `project`", of.line));
                }
                if projects.insert(name.to_lowercase(), settings).is_some() {
                    faults.push(format!(
                        "channels.md line {}: there is an earlier project {name:?}; write one section",
                        section.line
                    ));
                }
            } else {
                match lane(&section.title) {
                    Some(lane) => lanes.push((lane, section)),
                    None => faults.push(format!(
                        "channels.md line {}: {:?} is neither `project NAME`, `channel ID` nor another lane, such as `console`; the section is left out",
                        section.line, section.title
                    )),
                }
            }
        }
        let mut channels = Self::default();
        for (lane, section) in lanes {
            let (mut settings, of) = read(section, &mut warnings);
            if let Some(of) = of {
                match projects.get(&of.text().to_lowercase()) {
                    Some(project) => {
                        settings = settings.or(project);
                        settings.project = Some(of.text().to_lowercase());
                    }
                    None => {
                        let fault = format!(
                            "channels.md line {}: there is no section `## project {}`",
                            of.line,
                            of.text()
                        );
                        warnings.push(format!("{fault}; nothing runs in {lane}"));
                        settings.fault = Some(fault);
                    }
                }
            }
            if channels.lanes.insert(lane.clone(), settings).is_some() {
                faults.push(format!(
                    "channels.md line {}: there is an earlier section of {lane}; write one section",
                    section.line
                ));
            }
        }
        for entry in sections.iter().flat_map(|section| &section.entries) {
            let fault = misspelled_limit(&entry.key);
            faults.extend(fault.map(|fault| format!("channels.md line {}: {fault}", entry.line)));
        }
        (channels.warnings, channels.faults) = (warnings, faults);
        channels.projects = projects;
        channels
    }

    /// Returns the settings for a lane. They are empty if the file does not name the lane.
    #[must_use]
    pub fn of(&self, lane: &Lane) -> LaneSettings {
        self.lanes.get(lane).cloned().unwrap_or_default()
    }

    /// Returns the entries that apply to a lane: those of its section, and those of its project for
    /// keys that its section does not have.
    pub(super) fn entries(text: &str, of: &Lane) -> Vec<KeyValue> {
        let (sections, _) = sections(text);
        // The last section of a lane or project is the one that is used.
        let own = sections.iter().rfind(|section| lane(&section.title).as_ref() == Some(of));
        let mut entries = own.map(|own| own.entries.clone()).unwrap_or_default();
        let project = entries.iter().find(|entry| entry.key == "project").cloned();
        let is_project = |section: &&Section| {
            let name = keyword(&section.title, "project").map(str::to_lowercase);
            project.as_ref().is_some_and(|project| name == Some(project.text().to_lowercase()))
        };
        for entry in sections.iter().rfind(is_project).into_iter().flat_map(|it| &it.entries) {
            if entries.iter().all(|own| own.key != entry.key) {
                entries.push(entry.clone());
            }
        }
        entries
    }

    /// Returns the names of all projects of the file, in lower case.
    pub fn projects(&self) -> impl Iterator<Item = &str> {
        self.projects.keys().map(String::as_str)
    }

    /// Returns all lanes of the file with their settings.
    pub fn lanes(&self) -> impl Iterator<Item = (&Lane, &LaneSettings)> {
        self.lanes.iter()
    }
}

impl LaneSettings {
    /// Returns these settings, with missing ones taken from those of the project or of a thread's
    /// channel. A model and an effort are only taken for the backend that they were written for.
    #[must_use]
    pub fn or(self, project: &Self) -> Self {
        let same = self.backend.is_none() || self.backend == project.backend;
        Self {
            directory: self.directory.or_else(|| project.directory.clone()),
            model: self.model.or_else(|| project.model.clone().filter(|_| same)),
            effort: self.effort.or_else(|| project.effort.clone().filter(|_| same)),
            backend: self.backend.or_else(|| project.backend.clone()),
            backends: self.backends.or_else(|| project.backends.clone()),
            safety: self.safety.or(project.safety),
            mode: self.mode.or(project.mode),
            require_mention: self.require_mention.or(project.require_mention),
            memory: self.memory.or(project.memory),
            ping: self.ping.or(project.ping),
            collisions: self.collisions.or(project.collisions),
            shared_directory: self.shared_directory.or(project.shared_directory),
            host_tools: self.host_tools.or_else(|| project.host_tools.clone()),
            node: self.node.or_else(|| project.node.clone()),
            project: self.project.or_else(|| project.project.clone()),
            fault: self.fault.or_else(|| project.fault.clone()),
        }
    }
}

/// Returns the text after a keyword and white space.
fn keyword<'a>(title: &'a str, word: &str) -> Option<&'a str> {
    let (first, rest) = title.split_once(char::is_whitespace)?;
    (first.eq_ignore_ascii_case(word) && !rest.trim().is_empty()).then(|| rest.trim())
}

fn lane(title: &str) -> Option<Lane> {
    // The name that people know may be in the title, too: `channel #site 123456789`.
    let id = || {
        title.split_whitespace().rev().find_map(|word| word.trim_matches(['(', ')']).parse().ok())
    };
    title.parse().ok().or_else(|| id().map(Lane::Channel))
}

const ENTRIES: [&str; 16] = [
    "backend",
    "backends",
    "collisions",
    "directory",
    "effort",
    "host-tools",
    "memory",
    "mode",
    "model",
    "node",
    "permission-mode",
    "ping",
    "project",
    "require-mention",
    "safety",
    "shared-directory",
];

/// The entries that limit what agents and people may do.
const LIMITS: [&str; 9] = [
    "backends",
    "host-tools",
    "memory",
    "mode",
    "node",
    "permission-mode",
    "project",
    "require-mention",
    "safety",
];

fn misspelled_limit(key: &str) -> Option<MarkdownError> {
    misspelled(key, &LIMITS).filter(|_| !(LAYOUT.is_known)(key))
}

/// Returns the settings of a section, and its entry that names a project.
fn read<'a>(
    section: &'a Section,
    warnings: &mut Vec<String>,
) -> (LaneSettings, Option<&'a KeyValue>) {
    let (mut settings, mut project) = (LaneSettings::default(), None);
    for entry in &section.entries {
        let text = entry.text();
        let mut strange =
            |what: &str| warnings.push(format!("channels.md line {}: {what}", entry.line));
        match entry.key.as_str() {
            "project" => project = Some(entry),
            "directory" => settings.directory = Some(text.to_owned()),
            "backend" => settings.backend = Some(text.to_lowercase()),
            "backends" => settings.backends = Some(names(text)),
            "model" if plain(text) => settings.model = Some(text.to_owned()),
            "model" => strange(
                "a model must not begin with a dash or contain white space or control characters; it is ignored",
            ),
            "effort" | "thinking" => settings.effort = Some(text.to_owned()),
            "safety" | "permission-mode" => match safety(text) {
                Some((safety, mode)) => {
                    (settings.safety, settings.mode) = (Some(safety), mode.or(settings.mode))
                }
                None => {
                    strange("`safety` is not one of `ask`, `edit`, `danger`; `ask` is used");
                    settings.safety = Some(Safety::Default);
                }
            },
            "memory" => match MemoryScope::from_word(text) {
                Some(memory) => settings.memory = Some(memory),
                None => {
                    strange(
                        "`memory` is not one of `project`, `own`, `shared`, `none`; `none` is used",
                    );
                    settings.memory = Some(MemoryScope::Disabled);
                }
            },
            "require-mention" => match text {
                "yes" => settings.require_mention = Some(true),
                "no" => settings.require_mention = Some(false),
                _ => {
                    strange("`require-mention` is neither `yes` nor `no`; `yes` is used");
                    settings.require_mention = Some(true);
                }
            },
            "ping" => match parse_interval(text) {
                Ok(seconds) => settings.ping = Some(Duration::from_secs(seconds.into())),
                Err(fault) => strange(&format!("`ping`: {fault}; it is ignored")),
            },
            "collisions" => match CollisionMode::WORDS.iter().find(|(word, _)| *word == text) {
                Some((_, mode)) => settings.collisions = Some(*mode),
                None => {
                    strange("`collisions` is not `warn`, `ask` or `off`; `ask` is used");
                    settings.collisions = Some(CollisionMode::Ask);
                }
            },
            "shared-directory" => match text {
                "yes" => settings.shared_directory = Some(true),
                "no" => settings.shared_directory = Some(false),
                _ => strange("`shared-directory` is neither `yes` nor `no`; it is ignored"),
            },
            "host-tools" => settings.host_tools = Some(host_tools(text, &mut strange)),
            "node" if is_label(text) => settings.node = Some(text.to_owned()),
            "node" => {
                let what =
                    "`node` is not a label of `NODE_LABELS`: letters, digits, `.`, `_` and `-`";
                strange(&format!("{what}; nothing runs here"));
                settings.fault = Some(format!("channels.md line {}: {what}", entry.line));
            }
            "mode" => match text {
                // `permission-mode` may have said `plan`.
                "build" => settings.mode = settings.mode.or(Some(Mode::Build)),
                "plan" => settings.mode = Some(Mode::Plan),
                _ => {
                    strange("`mode` is neither `build` nor `plan`; `plan` is used");
                    settings.mode = Some(Mode::Plan);
                }
            },
            other if misspelled_limit(other).is_some() => {}
            other => {
                let meant = suggestion(other, ENTRIES);
                strange(&format!("`{other}` is unknown here{meant}; it is ignored"));
            }
        }
    }
    (settings, project)
}

/// Changes the entries of a lane in the file and nothing else. Blocks while it accesses the file
/// system.
pub(super) fn bind(
    path: &Path,
    of: &Lane,
    name: Option<&str>,
    entries: &[(&str, Option<&str>)],
) -> Result<Stamp, FileError> {
    let text = match read_ordinary(path, DOCUMENT_LIMIT).and_then(text_of) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(FileError::new("read", path, error)),
    };
    let text = with_channel(&text, of, name, entries)
        .map_err(|fault| FileError::new("change", path, std::io::Error::other(fault)))?;
    replace(path, text.as_bytes()).map_err(|source| FileError::new("write", path, source))
}

#[cfg(test)]
mod tests;
