//! `webhooks.md`: the systems that may call, how they authenticate, and the instructions for the
//! agent. The operator's file; only read. It never contains secrets, only the names of the
//! variables that contain them.
//!
//! Pure except for [`WebhookFile`]. `docs/webhooks.md` has the format.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroU32;
use std::path::Path;

use super::operator_file::OperatorFile;
use aetheel_model::id::ChannelId;
use aetheel_model::markdown::KeyValue;
use aetheel_model::markdown::layout::{SectionLayout, misspelled_keys};
use aetheel_model::markdown::sections::{Section, sections};

/// Size limit of an instruction, in bytes, because it is part of the prompt of every call.
const INSTRUCTION: usize = 32 << 10;
/// The highest rate that can be allowed, in calls a minute.
const FASTEST: u32 = 100_000;

/// How a caller authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookScheme {
    /// The symmetric signatures of <https://www.standardwebhooks.com>.
    Standard,
    /// The header `X-Hub-Signature-256` of GitHub, Gitea and Forgejo.
    Github,
    /// The secret itself in the header `Authorization`.
    Bearer,
}

/// The rate of accepted calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRate {
    /// The sustained rate.
    pub per_minute: NonZeroU32,
    /// Maximum number of calls that are accepted at once.
    pub burst: NonZeroU32,
}

/// A webhook that the operator defined in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// The last part of its URL: lower-case letters, digits and `-`.
    pub name: String,
    /// How callers authenticate.
    pub scheme: WebhookScheme,
    /// Names of the variables that contain its secrets. There can be two while a secret is being
    /// changed.
    pub secrets: Vec<String>,
    /// The channel for answers, or `None` for the operator's output channel.
    pub channel: Option<ChannelId>,
    /// Types of GitHub events that are accepted; empty for all except `ping`.
    pub events: Vec<String>,
    /// The rate of accepted calls.
    pub rate: CallRate,
    /// The operator's instruction for the agent.
    pub instruction: String,
    /// The line at which it begins in the file, from 1.
    pub line: usize,
}

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Webhooks {
    /// The webhooks by their name.
    pub all: BTreeMap<String, Webhook>,
    /// A line for each part that was left out. Contains nothing that could be a secret.
    pub warnings: Vec<String>,
}

/// The file `webhooks.md`.
pub type WebhookFile = OperatorFile<Webhooks>;

impl OperatorFile<Webhooks> {
    /// Names the file in a configuration folder. Does not read it yet.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self::at(folder.join("webhooks.md"), Webhooks::parse)
    }
}

/// The layout of the file. An instruction may have headings and lists, but no entries.
const LAYOUT: SectionLayout<'static> = SectionLayout {
    is_known: &|key| KEYS.contains(&key),
    may_repeat: &|_| false,
    aliases: &[("events", "event"), ("secrets", "secret")],
    has_prompt: true,
};

const KEYS: [&str; 8] =
    ["scheme", "secret", "secrets", "channel", "event", "events", "limit", "instruction"];

impl Webhooks {
    /// Parses the text of a file. An invalid definition is left out with a warning.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut webhooks = Self::default();
        let (sections, strange) = sections(text);
        // Lists in an instruction need not consist of entries.
        let in_prose = |line: usize| {
            let section = sections.iter().rev().find(|section| section.line <= line);
            section.and_then(|section| section.prose_line).is_some_and(|prose| prose <= line)
        };
        let mut layout = LAYOUT.faults(text);
        for section in &sections {
            let prose = section.prose_line.unwrap_or(usize::MAX);
            let before = section.entries.iter().take_while(|entry| entry.line < prose);
            layout.extend(misspelled_keys(&before.cloned().collect::<Vec<_>>(), &KEYS));
        }
        let layout = layout.into_iter().map(|(line, fault)| (line, fault.to_string()));
        // The line is not repeated, because it may contain a secret.
        let strange = strange.iter().filter(|(line, _)| !in_prose(*line));
        let strange = strange.map(|(line, _)| (*line, "this is not `key: value`".to_owned()));
        let faults: Vec<(usize, String)> = layout.chain(strange).collect();
        let lines = faults.iter().map(|(line, fault)| format!("webhooks.md line {line}: {fault}"));
        webhooks.warnings.extend(lines);
        let mut names = HashSet::new();
        for (index, section) in sections.iter().enumerate() {
            let end = sections.get(index + 1).map_or(usize::MAX, |next| next.line);
            // A fault may hide a limit of the webhook.
            let has_faults = faults.iter().any(|(line, _)| (section.line..=end).contains(line));
            let read = Webhook::read(section, &mut webhooks.warnings).and_then(|webhook| {
                if !names.insert(&section.title) {
                    webhooks.all.remove(&webhook.name);
                    return Err(WebhookError::DuplicateName);
                }
                if has_faults { Err(WebhookError::HasFaults) } else { Ok(webhook) }
            });
            match read {
                Ok(webhook) => drop(webhooks.all.insert(webhook.name.clone(), webhook)),
                Err(fault) => {
                    let (line, title) =
                        (section.line, section.title.chars().take(64).collect::<String>());
                    webhooks.warnings.push(format!(
                        "webhooks.md line {line}: webhook {title:?} is left out: {fault}"
                    ));
                }
            }
        }
        webhooks
    }

    /// Returns the names of all variables that contain secrets.
    pub fn secret_names(&self) -> impl Iterator<Item = &str> {
        self.all.values().flat_map(|webhook| &webhook.secrets).map(String::as_str)
    }
}

/// The reason why a webhook is left out. Contains nothing that could be a secret.
#[derive(Debug, thiserror::Error)]
enum WebhookError {
    #[error("a name is 1 to 64 lower-case letters, digits and `-`")]
    InvalidName,
    #[error("it has no `scheme` (`standard`, `github` or `bearer`)")]
    SchemeMissing,
    #[error("`scheme` is not one of `standard`, `github`, `bearer`")]
    UnknownScheme,
    #[error("it has no `secret`, the name of the environment variable that holds it")]
    SecretMissing,
    #[error(
        "`secret` must be the name of an environment variable such as `DEPLOY_WEBHOOK_SECRET`, never the secret itself; \
         if the file contains a secret, remove and change it (it is not repeated here)"
    )]
    NotAVariable,
    #[error("`secret` names more than two variables")]
    TooManySecrets,
    #[error("`channel` is not a Discord id (a number; copy it with developer mode on)")]
    InvalidChannel,
    #[error("`events` are lower-case words such as `pull_request`")]
    InvalidEvents,
    #[error("`events` is only possible with the scheme `github`")]
    EventsWithoutGithub,
    #[error("`limit` must be calls a minute, such as `60/min burst 30`, at most {FASTEST}")]
    InvalidRate,
    #[error("it has no instruction: write it for the agent after the entries")]
    InstructionMissing,
    #[error("its instruction is longer than {INSTRUCTION} bytes")]
    InstructionTooLong,
    #[error("there is an earlier one of this name, which is left out, too")]
    DuplicateName,
    #[error("it has a line that is not read, which may be a limit")]
    HasFaults,
}

impl Webhook {
    /// Returns whether a text can be the name of a webhook.
    #[must_use]
    pub fn is_name(text: &str) -> bool {
        (1..=64).contains(&text.len())
            && !text.starts_with('-')
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    }

    fn read(section: &Section, warnings: &mut Vec<String>) -> Result<Self, WebhookError> {
        let name = section.title.clone();
        if !Self::is_name(&name) {
            return Err(WebhookError::InvalidName);
        }
        let (mut scheme, mut secrets, mut channel, mut events) =
            (None, Vec::new(), None, Vec::new());
        let (mut rate, mut instruction) = (default_rate(), String::new());
        // Everything after the first paragraph belongs to the instruction.
        let entries = section
            .entries
            .iter()
            .filter(|entry| section.prose_line.is_none_or(|prose| entry.line < prose));
        for entry in entries {
            match entry.key.as_str() {
                "scheme" => scheme = Some(read_scheme(entry.text())?),
                "secret" | "secrets" => secrets = read_secrets(entry)?,
                "channel" => channel = Some(read_channel(entry.text())?),
                "event" | "events" => events = read_events(entry)?,
                "limit" => rate = read_rate(entry.text())?,
                "instruction" => instruction = format!("{}\n\n", entry.text()),
                other => {
                    let other: String = other.chars().take(32).collect();
                    warnings.push(format!(
                        "webhooks.md line {}: `{other}` is unknown here; it is ignored",
                        entry.line
                    ));
                }
            }
        }
        let scheme = scheme.ok_or(WebhookError::SchemeMissing)?;
        if secrets.is_empty() {
            return Err(WebhookError::SecretMissing);
        }
        if !events.is_empty() && scheme != WebhookScheme::Github {
            return Err(WebhookError::EventsWithoutGithub);
        }
        instruction.push_str(&section.prose);
        let instruction = instruction.trim().to_owned();
        if instruction.is_empty() {
            return Err(WebhookError::InstructionMissing);
        }
        if instruction.len() > INSTRUCTION {
            return Err(WebhookError::InstructionTooLong);
        }
        Ok(Self { name, scheme, secrets, channel, events, rate, instruction, line: section.line })
    }
}

fn default_rate() -> CallRate {
    CallRate {
        per_minute: NonZeroU32::MIN.saturating_add(59),
        burst: NonZeroU32::MIN.saturating_add(29),
    }
}

fn read_scheme(text: &str) -> Result<WebhookScheme, WebhookError> {
    match text {
        "standard" => Ok(WebhookScheme::Standard),
        "github" => Ok(WebhookScheme::Github),
        "bearer" => Ok(WebhookScheme::Bearer),
        _ => Err(WebhookError::UnknownScheme),
    }
}

/// Parses one or two names. Anything else is not repeated, because it may be the secret itself.
fn read_secrets(entry: &KeyValue) -> Result<Vec<String>, WebhookError> {
    let names: Vec<String> = entry.list().map(str::to_owned).collect();
    if !names.iter().all(|name| is_variable(name)) {
        return Err(WebhookError::NotAVariable);
    }
    if names.len() > 2 {
        return Err(WebhookError::TooManySecrets);
    }
    Ok(names)
}

/// Returns whether a text looks like the name of a variable and not like a key: upper-case words of
/// moderate length, separated by `_`.
fn is_variable(text: &str) -> bool {
    let characters = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.len() <= 64
        && text.bytes().all(characters)
        && text.split('_').all(|word| word.len() <= 16)
}

fn read_channel(text: &str) -> Result<ChannelId, WebhookError> {
    // The name that people know may be there too, or the mention that Discord copies.
    let id = text
        .split_whitespace()
        .rev()
        .map(|word| word.trim_matches(['(', ')', '<', '>', '#']))
        .find(|word| word.parse::<ChannelId>().is_ok());
    id.and_then(|id| ChannelId::parse_nonzero(id).ok()).ok_or(WebhookError::InvalidChannel)
}

fn read_events(entry: &KeyValue) -> Result<Vec<String>, WebhookError> {
    let events: Vec<String> = entry.list().map(str::to_owned).collect();
    let plain = |event: &String| {
        event.len() <= 64 && event.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
    };
    if events.iter().all(plain) { Ok(events) } else { Err(WebhookError::InvalidEvents) }
}

/// Parses `60`, `60/min` or `60/min burst 30`. The default burst is half the rate.
fn read_rate(text: &str) -> Result<CallRate, WebhookError> {
    let number = |text: &str| {
        text.parse()
            .ok()
            .filter(|number: &NonZeroU32| number.get() <= FASTEST)
            .ok_or(WebhookError::InvalidRate)
    };
    let mut words = text.split_whitespace();
    let per_minute = number(words.next().unwrap_or_default().trim_end_matches("/min"))?;
    let burst = match (words.next(), words.next(), words.next()) {
        (None, ..) => NonZeroU32::new(per_minute.get() / 2).unwrap_or(NonZeroU32::MIN),
        (Some("burst"), Some(burst), None) => number(burst)?,
        _ => return Err(WebhookError::InvalidRate),
    };
    Ok(CallRate { per_minute, burst })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_has_entries_followed_by_its_instruction() {
        let text = "\
# Webhooks

For people: what calls us.

## deploy
- scheme: `standard`
- secret: `DEPLOY_WEBHOOK_SECRET`, DEPLOY_WEBHOOK_SECRET_OLD
- channel: #ops <#1099511627776123456>
- limit: 120/min burst 10

Say what was deployed:

- version: and since when
- nothing else

## pull-requests
- scheme: github
- secret: GITHUB_WEBHOOK_SECRET
- events: pull_request, `issues`
- instruction: Review it.
";
        let found = Webhooks::parse(text);
        assert_eq!(found.warnings, Vec::<String>::new());
        let deploy = &found.all["deploy"];
        assert_eq!(
            (deploy.scheme, deploy.channel),
            (WebhookScheme::Standard, Some(ChannelId::discord(1_099_511_627_776_123_456)))
        );
        assert_eq!(deploy.secrets, ["DEPLOY_WEBHOOK_SECRET", "DEPLOY_WEBHOOK_SECRET_OLD"]);
        assert_eq!((deploy.rate.per_minute.get(), deploy.rate.burst.get()), (120, 10));
        assert_eq!(
            deploy.instruction,
            "Say what was deployed:\n\n- version: and since when\n- nothing else"
        );
        let pulls = &found.all["pull-requests"];
        assert_eq!(
            (pulls.events.as_slice(), pulls.instruction.as_str()),
            (&["pull_request".to_owned(), "issues".to_owned()][..], "Review it.")
        );
        assert_eq!(
            (pulls.rate.per_minute.get(), pulls.rate.burst.get(), pulls.channel),
            (60, 30, None)
        );
        assert_eq!(found.secret_names().count(), 3);
    }

    #[test]
    fn invalid_webhooks_are_reported_and_the_others_are_read() {
        let cases = [
            ("## Bad Name\n- scheme: bearer\n- secret: A_SECRET\n\nDo.", "lower-case letters"),
            ("## ../etc\n- scheme: bearer\n- secret: A_SECRET\n\nDo.", "lower-case letters"),
            ("## x\n- secret: A_SECRET\n\nDo.", "no `scheme`"),
            ("## x\n- scheme: none\n- secret: A_SECRET\n\nDo.", "not one of"),
            ("## x\n- scheme: bearer\n\nDo.", "no `secret`"),
            ("## x\n- scheme: bearer\n- secret: A_1, A_2, A_3\n\nDo.", "more than two"),
            ("## x\n- scheme: bearer\n- secret: A_SECRET", "no instruction"),
            ("## x\n- scheme: bearer\n- secret: A_SECRET\n- channel: ops\n\nDo.", "`channel`"),
            ("## x\n- scheme: bearer\n- secret: A_SECRET\n- limit: fast\n\nDo.", "`limit`"),
            ("## x\n- scheme: bearer\n- secret: A_SECRET\n- limit: 0\n\nDo.", "`limit`"),
            ("## x\n- scheme: standard\n- secret: A_SECRET\n- events: push\n\nDo.", "`events`"),
        ];
        for (text, fault) in cases {
            let all = format!(
                "{text}\n\n## good\n- scheme: bearer\n- secret: A_SECRET\n- colour: blue\n\nDo."
            );
            let found = Webhooks::parse(&all);
            assert_eq!(found.all.keys().collect::<Vec<_>>(), ["good"], "{text}");
            assert!(
                found.warnings[0].contains("webhooks.md line 1: webhook")
                    && found.warnings[0].contains(fault),
                "{:?}",
                found.warnings
            );
            assert!(found.warnings[1].contains("`colour` is unknown here"), "{:?}", found.warnings);
        }
    }

    #[test]
    fn a_secret_in_place_of_its_name_is_refused_and_not_repeated() {
        for secret in [
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "hunter2hunter2",
            "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP",
            "0123456789abcdef0123456789abcdef",
            "correct horse battery",
        ] {
            let found = Webhooks::parse(&format!(
                "## x\n- scheme: bearer\n- secret: {secret}\n- {secret}\n\nDo."
            ));
            assert!(found.all.is_empty());
            let told = found.warnings.join("\n");
            assert!(
                told.contains("never the secret itself")
                    && !told.to_lowercase().contains(&secret.to_lowercase()),
                "{told}"
            );
        }
    }
}
