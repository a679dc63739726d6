//! `acp.md`: how to start the agents that support the Agent Client Protocol, one section for each
//! agent.
//!
//! One component supports all of them, and each profile turns it into another backend. Pure except
//! for [`ProfileFile`]. `docs/backends.md` has the format.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;

use super::operator_file::OperatorFile;
use aetheel_model::agent::Descriptor;
use aetheel_model::agent::Safety;
use aetheel_model::agent::descriptor::{
    Credential, DescriptorChoice, DescriptorError, Expands, Feature, Flag, FlagValue, Program,
    StateAccess, StatePath,
};
use aetheel_model::markdown::layout::{SectionLayout, misspelled_keys};
use aetheel_model::markdown::sections::{Section, sections};

/// How one agent is started, and its capabilities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The name of its backend.
    pub name: String,
    /// The name for people; empty if it is the same as the name.
    pub label: String,
    /// The path of the program as it is written in the file, or `None` if it is looked up in
    /// `PATH`. A leading `~/` is the home folder.
    pub path: Option<String>,
    version_arguments: Vec<String>,
    credentials: Vec<Credential>,
    pass: Vec<String>,
    state: Vec<StatePath>,
    own_sandbox: bool,
    models: Vec<DescriptorChoice>,
    write_tools: Vec<String>,
    expands: Option<Vec<Expands>>,
    options: ProfileOptions,
}

/// The options that the component gets with every turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
struct ProfileOptions {
    /// File name of the program.
    program: String,
    arguments: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    environment: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    modes: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sign_in: Option<String>,
}

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profiles {
    /// The profiles, by the names of their backends.
    pub all: BTreeMap<String, Profile>,
    /// A line for each part that was left out.
    pub warnings: Vec<String>,
}

/// The file `acp.md`.
pub type ProfileFile = OperatorFile<Profiles>;

impl OperatorFile<Profiles> {
    /// Names the file in a configuration folder. Does not read it yet.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self::at(folder.join("acp.md"), Profiles::parse)
    }
}

const LAYOUT: SectionLayout<'static> = SectionLayout {
    is_known: &|key| KEYS.contains(&key),
    may_repeat: &|key| key == "set",
    aliases: &[],
    has_prompt: false,
};

const KEYS: [&str; 14] = [
    "command",
    "label",
    "version",
    "credentials",
    "environment",
    "state",
    "own-sandbox",
    "set",
    "modes",
    "models",
    "system-prompt",
    "sign-in",
    "write-tools",
    "expands",
];

impl Profiles {
    /// Parses the text of a file. Invalid parts are left out with a warning.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut profiles = Self::default();
        let (sections, strange) = sections(text);
        let mut layout = LAYOUT.faults(text);
        let misspelled = sections.iter().flat_map(|part| misspelled_keys(&part.entries, &KEYS));
        layout.extend(misspelled);
        let layout = layout.into_iter().map(|(line, fault)| (line, fault.to_string()));
        let faults: Vec<(usize, String)> = strange.into_iter().chain(layout).collect();
        let lines = faults.iter().map(|(line, fault)| format!("acp.md line {line}: {fault}"));
        profiles.warnings.extend(lines);
        for (index, section) in sections.iter().enumerate() {
            let end = sections.get(index + 1).map_or(usize::MAX, |next| next.line);
            // A fault may hide how the agent is limited.
            let has_faults = faults.iter().any(|(line, _)| (section.line..=end).contains(line));
            let read = Profile::read(section, &mut profiles.warnings).and_then(|profile| {
                if has_faults { Err(ProfileError::HasFaults) } else { Ok(profile) }
            });
            match read {
                Ok(profile) => {
                    let name = profile.name.clone();
                    if profiles.all.insert(name.clone(), profile).is_some() {
                        profiles.warnings.push(format!(
                            "acp.md line {}: there is an earlier profile `{name}`; this one is used",
                            section.line
                        ));
                    }
                }
                Err(fault) => profiles.warnings.push(format!(
                    "acp.md line {}: profile {:?} is left out: {fault}",
                    section.line, section.title
                )),
            }
        }
        profiles
    }
}

#[derive(Debug, thiserror::Error)]
enum ProfileError {
    #[error("a quote is missing in {0:?}")]
    QuoteMissing(String),
    #[error("it has no `command`")]
    CommandMissing,
    #[error("it has a line that is not read, which may be a limit")]
    HasFaults,
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
}

impl Profile {
    fn read(section: &Section, warnings: &mut Vec<String>) -> Result<Self, ProfileError> {
        let mut profile = Self { name: section.title.to_lowercase(), ..Self::default() };
        let options = &mut profile.options;
        let mut has_lost_limit = false;
        for entry in &section.entries {
            let mut strange = |what: String| {
                warnings.push(format!("acp.md line {}: {what}; it is ignored", entry.line))
            };
            match entry.key.as_str() {
                "command" => {
                    let mut words = words(entry.text())?;
                    if words.is_empty() {
                        continue;
                    }
                    let program = words.remove(0);
                    let file = program.rsplit('/').next().unwrap_or_default().to_owned();
                    profile.path = program.contains('/').then_some(program);
                    (options.program, options.arguments) = (file, words);
                }
                "label" => entry.text().clone_into(&mut profile.label),
                "version" => profile.version_arguments = words(entry.text())?,
                "credentials" => profile.credentials = entry.list().map(credential).collect(),
                "environment" => profile.pass = entry.list().map(str::to_owned).collect(),
                "state" => profile.state = entry.list().map(state).collect(),
                "own-sandbox" => match entry.text() {
                    "yes" => profile.own_sandbox = true,
                    "no" => profile.own_sandbox = false,
                    other => {
                        strange(format!("`own-sandbox` {other:?} is neither `yes` nor `no`"));
                        has_lost_limit = true;
                    }
                },
                "set" => {
                    for item in entry.list() {
                        match item.split_once('=') {
                            Some((name, value)) => options
                                .environment
                                .extend([(name.trim().to_owned(), value.trim().to_owned())]),
                            None => strange(format!("{item:?} is not `NAME=value`")),
                        }
                    }
                }
                "modes" => {
                    for item in entry.list() {
                        match item.split_once('=') {
                            Some((level @ ("default" | "edit" | "danger" | "plan"), mode)) => {
                                options.modes.insert(level.to_owned(), mode.trim().to_owned());
                            }
                            _ => {
                                strange(format!(
                                    "{item:?} is not a level (`default`, `edit`, `danger`, `plan`), `=` and a mode"
                                ));
                                has_lost_limit = true;
                            }
                        }
                    }
                }
                "models" => profile.models = entry.list().map(choice).collect(),
                "system-prompt" => match entry.text() {
                    how @ ("prompt" | "meta" | "none") => {
                        options.system_prompt = Some(how.to_owned())
                    }
                    other => strange(format!(
                        "`system-prompt` {other:?} is not one of `prompt`, `meta`, `none`"
                    )),
                },
                "sign-in" => {
                    options.sign_in =
                        Some(entry.text().to_owned()).filter(|method| !method.is_empty())
                }
                "write-tools" => profile.write_tools = entry.list().map(str::to_owned).collect(),
                "expands" => {
                    let mut known = Vec::new();
                    for item in entry.list() {
                        match serde_json::from_value(json!(item)) {
                            Ok(kind) => known.push(kind),
                            Err(_) => strange(format!("`expands` does not know {item:?}")),
                        }
                    }
                    profile.expands = Some(known);
                }
                other => strange(format!("`{other}` is unknown here")),
            }
        }
        if profile.options.program.is_empty() {
            return Err(ProfileError::CommandMissing);
        }
        if has_lost_limit {
            return Err(ProfileError::HasFaults);
        }
        // Checked now, so that the operator learns of a fault before the agent is used.
        profile.check()?;
        Ok(profile)
    }

    fn check(&self) -> Result<Descriptor, DescriptorError> {
        self.apply(&Descriptor::parse(
            r#"{"name":"profile","version":"1","programs":[{"name":"agent"}]}"#,
        )?)
    }

    /// Returns the descriptor for this agent, made from the component's.
    ///
    /// # Errors
    /// The profile contains something that no descriptor may contain.
    pub fn apply(&self, component: &Descriptor) -> Result<Descriptor, DescriptorError> {
        let mut descriptor = component.clone();
        self.name.clone_into(&mut descriptor.name);
        descriptor.label =
            if self.label.is_empty() { self.name.clone() } else { self.label.clone() };
        let options = &self.options;
        let (flags, words): (Vec<_>, Vec<_>) = options
            .arguments
            .iter()
            .cloned()
            .partition(|word| word.len() > 1 && word.starts_with('-'));
        let program = Program {
            framing: component.programs.first().map(|known| known.framing).unwrap_or_default(),
            name: options.program.clone(),
            version_arguments: self.version_arguments.clone(),
            words,
            flags: flags.iter().map(|text| flag(text)).collect(),
        };
        descriptor.programs = vec![program];
        descriptor.understands.clear();
        descriptor.credentials.clone_from(&self.credentials);
        descriptor.state.clone_from(&self.state);
        descriptor.own_sandbox = self.own_sandbox;
        (descriptor.profiles, descriptor.rank, descriptor.own_command) = (Some(false), None, false);
        descriptor.environment.pass.extend(self.pass.iter().cloned());
        descriptor.environment.set.extend(options.environment.keys().cloned());
        descriptor.models.clone_from(&self.models);
        descriptor.write_tools.clone_from(&self.write_tools);
        if let Some(expands) = &self.expands {
            descriptor.expands.clone_from(expands);
        }
        let without = |feature: Feature| match feature {
            Feature::SystemPrompt => options.system_prompt.as_deref() == Some("none"),
            Feature::Plan => !options.modes.is_empty() && !options.modes.contains_key("plan"),
            _ => false,
        };
        descriptor.features.retain(|feature| !without(*feature));
        // Parsing the text form checks everything.
        Descriptor::parse(&serde_json::to_string(&descriptor)?)
    }

    /// Returns `settings.options` for every turn with this agent.
    #[must_use]
    pub fn options(&self) -> String {
        json!(self.options).to_string()
    }

    /// Returns the path of its program, if the profile has one.
    #[must_use]
    pub fn program_path(&self, home: Option<&str>) -> Option<PathBuf> {
        let path = self.path.as_deref()?;
        Some(match (path.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => Path::new(home).join(rest),
            _ => PathBuf::from(path),
        })
    }
}

fn flag(text: &str) -> Flag {
    match text.split_once('=') {
        Some((name, value)) => Flag {
            name: name.to_owned(),
            value: FlagValue::One,
            values: vec![value.to_owned()],
            safety: Safety::Default,
        },
        None => Flag {
            name: text.to_owned(),
            value: FlagValue::None,
            values: Vec::new(),
            safety: Safety::Default,
        },
    }
}

fn credential(text: &str) -> Credential {
    if text.contains('/') || text.starts_with('~') {
        Credential::File(text.to_owned())
    } else {
        Credential::Variable(text.to_owned())
    }
}

/// Parses `~/.x/`, `~/.x/ (read)` or `~/.x/=$X_HOME/x`.
fn state(text: &str) -> StatePath {
    let (text, access) = match text.strip_suffix("(read)") {
        Some(text) => (text.trim_end(), StateAccess::Read),
        None => (text, StateAccess::Write),
    };
    let (path, moved) =
        text.split_once("=$").map_or((text, None), |(path, moved)| (path, Some(moved)));
    let (name, below) = moved.map_or((None, ""), |moved| match moved.split_once('/') {
        Some((name, below)) => (Some(name), below.trim_end_matches('/')),
        None => (Some(moved), ""),
    });
    StatePath {
        path: path.trim().to_owned(),
        access,
        moved_by: name.map(str::to_owned),
        below: below.to_owned(),
    }
}

fn choice(text: &str) -> DescriptorChoice {
    let (id, label) = text.split_once('=').unwrap_or((text, text));
    DescriptorChoice { id: id.trim().to_owned(), label: label.trim().to_owned() }
}

/// Splits a command line into words at white space; quotes keep white space.
fn words(line: &str) -> Result<Vec<String>, ProfileError> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '"' || c == '\'' => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(ProfileError::QuoteMissing(line.to_owned()));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests;
