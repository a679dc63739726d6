//! Plans the additions to the operator's files, and verifies each by parsing the result.
//!
//! The operator's text is never changed. Imported text is added below it, and a job, channel or
//! project that already exists stays as it is. Only an example that is unchanged since
//! `aetheel init` wrote it is replaced.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::MigrateError;
use crate::imported::{ImportedConfig, ImportedDocument, ImportedJob, JobSchedule};
use crate::markdown::{self, words};
use crate::secrets::redact_likely_secrets;
use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;
use aetheel_model::markdown::outline::{descendants, outline};
use aetheel_model::prompt::Document;
use aetheel_model::redact::Redactor;
use aetheel_runtime::ordinary::read_ordinary;
use aetheel_store::disk::{replace, text_of};
use aetheel_store::workspace::{
    Channels, CronJobs, DOCUMENT_LIMIT, Heartbeats, Hook, Hooks, with_channel,
};

const CHANNELS: &str = "channels.md";
const HEARTBEATS: &str = "heartbeat.md";
/// The examples of documents that describe the agent or its environment, as `aetheel init` writes
/// them. An unchanged one is replaced, because it would contradict the imported text.
const REPLACEABLE_EXAMPLES: [(Document, &str); 4] = [
    (Document::Identity, include_str!("../../../config/identity.md")),
    (Document::Soul, include_str!("../../../config/soul.md")),
    (Document::User, include_str!("../../../config/user.md")),
    (Document::Tools, include_str!("../../../config/tools.md")),
];

pub(crate) struct MigrationPlan {
    files: BTreeMap<&'static str, PlannedFile>,
    /// Items that already exist, one line each.
    pub existing: Vec<String>,
    /// Items that are not written because the operator's files differ, one line each.
    pub conflicts: Vec<String>,
    /// Texts in which words were redacted, one line each.
    pub hidden: Vec<String>,
    redactor: Redactor,
}

pub(crate) struct PlannedFile {
    path: PathBuf,
    /// The current contents, or `None` if the file does not exist.
    before: Option<String>,
    after: String,
    /// Whether the file is the unchanged example and is replaced.
    pub replaces_example: bool,
}

impl PlannedFile {
    /// Returns whether the file does not exist yet.
    pub(crate) fn is_new(&self) -> bool {
        self.before.is_none()
    }

    pub(crate) fn added(&self) -> Vec<&str> {
        let before =
            if self.replaces_example { "" } else { self.before.as_deref().unwrap_or_default() };
        let diff = similar::TextDiff::from_lines(before, &self.after);
        let inserted =
            |change: &similar::Change<&'_ str>| change.tag() == similar::ChangeTag::Insert;
        // The texts of the changes are parts of `after`.
        let lines: Vec<usize> = diff
            .iter_all_changes()
            .filter(inserted)
            .filter_map(|change| change.new_index())
            .collect();
        let all: Vec<&str> = self.after.lines().collect();
        lines.into_iter().filter_map(|line| all.get(line).copied()).collect()
    }
}

impl MigrationPlan {
    /// Plans the additions for the imported data.
    ///
    /// # Errors
    /// Names a file of the operator that cannot be read.
    pub(crate) fn new(found: &ImportedConfig, folder: &Path) -> Result<Self, MigrateError> {
        let mut plan = Self {
            files: BTreeMap::new(),
            existing: Vec::new(),
            conflicts: Vec::new(),
            hidden: Vec::new(),
            redactor: found.secrets.redactor(),
        };
        let names = Document::ALL.map(Document::file).into_iter().chain([CHANNELS, HEARTBEATS]);
        for name in names {
            let path = folder.join(name);
            let before = match read_ordinary(&path, DOCUMENT_LIMIT).and_then(text_of) {
                Ok(text) => Some(text),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(MigrateError::Read { file: path, error }),
            };
            let after = before.clone().unwrap_or_default();
            plan.files.insert(name, PlannedFile { path, before, after, replaces_example: false });
        }
        for text in &found.texts {
            plan.add_document(text);
        }
        let mut names = Vec::new();
        for job in &found.jobs {
            let job = plan.with_unique_name(job, &mut names);
            plan.add_job(&job);
        }
        for channel in &found.channels {
            plan.add_channel(*channel);
        }
        Ok(plan)
    }

    pub(crate) fn changes(&self) -> impl Iterator<Item = (&'static str, &PlannedFile)> {
        let changes = |file: &PlannedFile| file.before.as_deref().unwrap_or_default() != file.after;
        self.files.iter().filter(move |(_, file)| changes(file)).map(|(name, file)| (*name, file))
    }

    /// Writes the files, each atomically. New files are readable only by their owner.
    ///
    /// # Errors
    /// Names a file that changed in the meantime or cannot be written. The files before it, in the
    /// order of their names, are written.
    pub(crate) fn write(&self) -> Result<(), MigrateError> {
        for (name, file) in self.changes() {
            let now = match read_ordinary(&file.path, DOCUMENT_LIMIT).and_then(text_of) {
                Ok(text) => Some(text),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(MigrateError::Read { file: name.into(), error }),
            };
            if now != file.before {
                return Err(MigrateError::Changed(name));
            }
            replace(&file.path, file.after.as_bytes())
                .map_err(|error| MigrateError::Write { file: file.path.clone(), error })?;
        }
        Ok(())
    }

    fn file(&self, name: &str) -> &str {
        &self.files[name].after
    }

    /// Sets the new contents of a file, unless they are too long.
    fn set(&mut self, name: &'static str, what: &str, after: String) -> bool {
        if after.len() as u64 > DOCUMENT_LIMIT {
            self.conflicts.push(format!("{name}: {what} does not fit; the limit is 1 MiB"));
            return false;
        }
        let file = self.files.get_mut(name).expect("all files are known");
        file.after = after;
        true
    }

    /// Redacts known secrets, and words that look like secrets.
    fn hide(&mut self, what: &str, text: &str) -> String {
        let clean = self.redactor.redact(text.to_owned());
        let known = clean.matches("***").count().saturating_sub(text.matches("***").count());
        let (clean, guessed) = redact_likely_secrets(&clean);
        if known + guessed > 0 {
            self.hidden.push(format!("{what}: {}, written as ***", known + guessed));
        }
        clean
    }

    fn add_document(&mut self, text: &ImportedDocument) {
        let (name, title) = (text.into.file(), format!("From OpenClaw: {}", text.from));
        let inert = markdown::inert(&self.hide(&text.from, &text.text));
        if inert.is_empty() {
            return;
        }
        let block = format!("# {title}\n\n{inert}\n");
        let before = self.file(name).to_owned();
        if before.contains(&block) {
            self.existing.push(format!("{name}: {}", text.from));
            return;
        }
        if markdown::has_section(&before, &title) {
            self.conflicts.push(format!(
                "{name}: {} was imported before, and the source or the section has changed since; delete the section \"{title}\" to import it again",
                text.from
            ));
            return;
        }
        let gives_way = REPLACEABLE_EXAMPLES.contains(&(text.into, before.as_str()));
        let head = match (gives_way, before.trim_end()) {
            (true, _) | (_, "") => format!("# {}", text.into.title()),
            (false, before) => before.to_owned(),
        };
        let after = format!("{head}\n\n{block}");
        if text.into == Document::Agents && parse_jobs(name, &after) != parse_jobs(name, &before) {
            self.conflicts.push(format!("{name}: {} cannot be written without changing jobs or hooks: a code block or comment in the file may not be closed", text.from));
            return;
        }
        if self.set(name, &text.from, after) && gives_way {
            self.files.get_mut(name).expect("it was set").replaces_example = true;
        }
    }

    fn with_unique_name(&mut self, job: &ImportedJob, names: &mut Vec<String>) -> ImportedJob {
        let (called, instruction) =
            (self.hide("the name of a job", &job.name), self.hide(&job.name, &job.instruction));
        let mut first = markdown::heading_name(&called);
        if first.is_empty() {
            first = "Job".to_owned();
        }
        let (mut name, mut number) = (first.clone(), 1);
        while names.contains(&name.to_lowercase()) {
            number += 1;
            name = format!("{first} {number}");
        }
        names.push(name.to_lowercase());
        ImportedJob { name, instruction, ..job.clone() }
    }

    fn add_job(&mut self, job: &ImportedJob) {
        let (name, before) = match job.when {
            JobSchedule::Cron(_) => (Document::Agents.file(), self.file(Document::Agents.file())),
            JobSchedule::Every { .. } => (HEARTBEATS, self.file(HEARTBEATS)),
        };
        let (current, what) = (parse_jobs(name, before), format!("job {}", job.name));
        let key = job.name.to_lowercase();
        let after = match job.when {
            JobSchedule::Cron(_) => with_job(before, job),
            JobSchedule::Every { .. } => {
                let head =
                    if before.trim().is_empty() { "# Heartbeats" } else { before.trim_end() };
                format!("{head}\n\n{}", markdown::job(2, job))
            }
        };
        let mut read = parse_jobs(name, &after);
        let written = read.jobs.remove(&key);
        match current.jobs.get(&key) {
            Some(old) if *old == ParsedJob::of(job) => {
                self.existing.push(format!("{name}: {}", job.name));
            }
            Some(_) => self.conflicts.push(format!(
                "{name}: there is another {:?}; it is kept, and this one is not imported",
                job.name
            )),
            // The other entries of the file must be unchanged.
            None if written == Some(ParsedJob::of(job)) && read == current => {
                self.set(name, &what, after);
            }
            None => self.conflicts.push(format!(
                "{name}: {:?} cannot be added without being misread; add it by hand (a code block or comment at the end of {name} may not be closed)",
                job.name
            )),
        }
    }

    fn add_channel(&mut self, channel: ChannelId) {
        let (lane, text) = (Lane::Channel(channel), self.file(CHANNELS));
        let labelled = |what: &str| format!("{CHANNELS}: channel {channel}: {what}");
        match Channels::parse(text).of(&lane).require_mention {
            None => match with_channel(text, &lane, None, &[("require-mention", Some("no"))]) {
                Ok(after) => drop(self.set(CHANNELS, &labelled(""), after)),
                Err(error) => self.conflicts.push(labelled(&error.to_string())),
            },
            Some(false) => self.existing.push(labelled("require-mention")),
            Some(true) => self
                .conflicts
                .push(labelled("it must be mentioned here and not there; this is not changed")),
        }
    }
}

/// A job as parsed from a file, for comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ParsedJob {
    when: String,
    words: Vec<String>,
    channel: Option<ChannelId>,
    zone: Option<String>,
}

impl ParsedJob {
    fn new(
        when: String,
        text: &str,
        channel: Option<ChannelId>,
        zone: Option<&jiff::tz::TimeZone>,
    ) -> Self {
        let words = words(text).into_iter().map(str::to_owned).collect();
        let zone = zone.and_then(|zone| zone.iana_name()).map(str::to_owned);
        Self { when, words, channel, zone }
    }

    /// Returns the expected result of parsing a job.
    fn of(job: &ImportedJob) -> Self {
        let when = match &job.when {
            JobSchedule::Cron(expression) => expression.clone(),
            JobSchedule::Every { seconds, active: None } => format!("every {seconds} s"),
            JobSchedule::Every { seconds, active: Some(active) } => {
                format!("every {seconds} s {active}")
            }
        };
        let zone = job.zone.as_ref().and_then(|zone| jiff::tz::TimeZone::get(zone).ok());
        Self::new(when, &markdown::instruction(&job.instruction), job.channel, zone.as_ref())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ParsedJobs {
    /// Jobs by name, in lower case.
    jobs: BTreeMap<String, ParsedJob>,
    hooks: Vec<Option<String>>,
    /// Number of warnings about entries that cannot be parsed.
    warnings: usize,
}

/// Parses the jobs and hooks of `agents.md` or `heartbeat.md`.
fn parse_jobs(name: &str, text: &str) -> ParsedJobs {
    if name == HEARTBEATS {
        let read = Heartbeats::parse(text);
        let all = read.checks.iter().map(|check| {
            let when = check.heartbeat.to_string();
            let order =
                ParsedJob::new(when, &check.instruction, check.channel, check.zone.as_ref());
            (check.name.to_lowercase(), order)
        });
        return ParsedJobs {
            jobs: all.collect(),
            hooks: Vec::new(),
            warnings: read.warnings.len(),
        };
    }
    let (read, hooks) = (CronJobs::parse(text), Hooks::parse(text));
    let all = read.jobs.iter().map(|job| {
        let when = job.expression.to_string();
        let order = ParsedJob::new(when, &job.instruction, job.channel, job.zone.as_ref());
        (job.name.to_lowercase(), order)
    });
    ParsedJobs {
        jobs: all.collect(),
        hooks: Hook::ALL.map(|hook| hooks.of(hook).map(|hook| hook.text.clone())).into(),
        warnings: read.warnings.len() + hooks.warnings.len(),
    }
}

/// Returns the text of `agents.md` with a job added after the other jobs.
fn with_job(text: &str, job: &ImportedJob) -> String {
    let parts = outline(text);
    let section = parts.iter().position(|part| {
        part.level > 0 && part.level < 6 && part.plain_title().eq_ignore_ascii_case("cron jobs")
    });
    let Some(at) = section else {
        let head = if text.trim().is_empty() { "# Agents" } else { text.trim_end() };
        return format!("{head}\n\n## Cron Jobs\n\n{}", markdown::job(3, job));
    };
    let written = markdown::job(parts[at].level + 1, job);
    let Some(next) = parts.get(at + 1 + descendants(&parts, at).len()) else {
        return format!("{}\n\n{written}", text.trim_end());
    };
    let end = text.split_inclusive('\n').take(next.line - 1).map(str::len).sum();
    let (before, after) = text.split_at(end);
    format!("{}\n\n{written}\n{after}", before.trim_end())
}
