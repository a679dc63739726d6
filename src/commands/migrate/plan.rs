//! Plans the additions to the operator's files, and verifies each by parsing the result.
//!
//! The operator's text is never changed. Imported text is added below it, and a job, channel or
//! project that already exists stays as it is. Only an example that is unchanged since
//! `aetheel init` wrote it is replaced.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use super::Target;
use super::error::MigrateError;
use super::imported::{
    ImportedChannel, ImportedConfig, ImportedDocument, ImportedJob, ImportedProject, JobSchedule,
};
use super::markdown::{self, words};
use super::secrets::redact_likely_secrets;
use crate::commands::init::EXAMPLE_FILES;
use crate::disk::{read_ordinary, replace, text_of};
use crate::event::Lane;
use crate::id::ChannelId;
use crate::markdown::outline::{descendants, outline};
use crate::prompt::Document;
use crate::redact::Redactor;
use crate::workspace::{
    Channels, CronJobs, DOCUMENT_LIMIT, Heartbeats, Hook, Hooks, channel_directory, with_channel,
    with_project,
};

const CHANNELS: &str = "channels.md";
const HEARTBEATS: &str = "heartbeat.md";
/// Documents that describe the agent or its environment. The unchanged example is replaced there,
/// because it would contradict the imported text.
const REPLACEABLE_EXAMPLES: [Document; 4] =
    [Document::Identity, Document::Soul, Document::User, Document::Tools];

/// The planned additions.
pub(super) struct MigrationPlan {
    files: BTreeMap<&'static str, PlannedFile>,
    /// Items that already exist, one line each.
    pub existing: Vec<String>,
    /// Items that are not written because the operator's files differ, one line each.
    pub conflicts: Vec<String>,
    /// Texts in which words were redacted, one line each.
    pub hidden: Vec<String>,
    redactor: Redactor,
}

pub(super) struct PlannedFile {
    path: PathBuf,
    /// The current contents, or `None` if the file does not exist.
    before: Option<String>,
    after: String,
    /// Whether the file is the unchanged example and is replaced.
    pub replaces_example: bool,
}

impl PlannedFile {
    /// Returns whether the file does not exist yet.
    pub(super) fn is_new(&self) -> bool {
        self.before.is_none()
    }

    /// Returns the added lines, in order.
    pub(super) fn added(&self) -> Vec<&str> {
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
    pub(super) fn new(found: &ImportedConfig, target: &Target<'_>) -> Result<Self, MigrateError> {
        let mut plan = Self {
            files: BTreeMap::new(),
            existing: Vec::new(),
            conflicts: Vec::new(),
            hidden: Vec::new(),
            redactor: found.secrets.redactor(),
        };
        let names = Document::ALL.map(Document::file).into_iter().chain([CHANNELS, HEARTBEATS]);
        for name in names {
            let path = target.folder.join(name);
            let before = match read_ordinary(&path, DOCUMENT_LIMIT).and_then(text_of) {
                Ok(text) => Some(text),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(MigrateError::Read { file: path, error }),
            };
            let after = before.clone().unwrap_or_default();
            plan.files.insert(name, PlannedFile { path, before, after, replaces_example: false });
        }
        for text in &found.texts {
            plan.add_document(found.app_name, text);
        }
        let mut taken = Vec::new();
        for job in &found.jobs {
            let job = plan.with_unique_name(job, &mut taken);
            plan.add_job(&job);
        }
        for project in &found.projects {
            plan.add_project(project, target);
        }
        for channel in &found.channels {
            plan.add_channel(channel, target);
        }
        Ok(plan)
    }

    /// Returns the files that change.
    pub(super) fn changes(&self) -> impl Iterator<Item = (&'static str, &PlannedFile)> {
        let changes = |file: &PlannedFile| file.before.as_deref().unwrap_or_default() != file.after;
        self.files.iter().filter(move |(_, file)| changes(file)).map(|(name, file)| (*name, file))
    }

    /// Writes the files, each atomically. New files are readable only by their owner.
    ///
    /// # Errors
    /// Names a file that changed in the meantime or cannot be written. The files before it, in the
    /// order of their names, are written.
    pub(super) fn write(&self) -> Result<(), MigrateError> {
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

    fn add_document(&mut self, called: &str, text: &ImportedDocument) {
        let (name, title) = (text.into.file(), format!("From {called}: {}", text.from));
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
        let example =
            EXAMPLE_FILES.iter().any(|(example, text)| *example == name && *text == before);
        let gives_way = example && REPLACEABLE_EXAMPLES.contains(&text.into);
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

    /// Returns the job with a unique name and without secrets.
    fn with_unique_name(&mut self, job: &ImportedJob, taken: &mut Vec<String>) -> ImportedJob {
        let (called, instruction) =
            (self.hide("the name of a job", &job.name), self.hide(&job.name, &job.instruction));
        let mut first = markdown::heading_name(&called);
        if first.is_empty() {
            first = "Job".to_owned();
        }
        let (mut name, mut number) = (first.clone(), 1);
        while taken.contains(&name.to_lowercase()) {
            number += 1;
            name = format!("{first} {number}");
        }
        taken.push(name.to_lowercase());
        ImportedJob { name, instruction, ..job.clone() }
    }

    fn add_job(&mut self, job: &ImportedJob) {
        let (name, before) = match job.when {
            JobSchedule::Cron(_) => (Document::Agents.file(), self.file(Document::Agents.file())),
            JobSchedule::Every { .. } => (HEARTBEATS, self.file(HEARTBEATS)),
        };
        let (standing, what) = (parse_jobs(name, before), format!("job {}", job.name));
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
        match standing.jobs.get(&key) {
            Some(old) if *old == ParsedJob::of(job) => {
                self.existing.push(format!("{name}: {}", job.name));
            }
            Some(_) => self.conflicts.push(format!(
                "{name}: there is another {:?}; it is kept, and this one is not imported",
                job.name
            )),
            // The other entries of the file must be unchanged.
            None if written == Some(ParsedJob::of(job)) && read == standing => {
                self.set(name, &what, after);
            }
            None => self.conflicts.push(format!(
                "{name}: {:?} cannot be added without being misread; add it by hand (a code block or comment at the end of {name} may not be closed)",
                job.name
            )),
        }
    }

    fn add_project(&mut self, project: &ImportedProject, target: &Target<'_>) {
        let name = markdown::heading_name(&project.name);
        if let Some(conflict) = target.directory_conflict(&project.directory) {
            self.conflicts.push(format!("{CHANNELS}: project {name}: {conflict}"));
            return;
        }
        let entries = [("directory", Some(project.directory.as_str()))];
        match with_project(self.file(CHANNELS), &name, &entries) {
            Ok(Some(after)) => {
                self.set(CHANNELS, &name, after);
            }
            Ok(None) => self.existing.push(format!("{CHANNELS}: project {name}")),
            Err(fault) => self.conflicts.push(format!("{CHANNELS}: project {name}: {fault}")),
        }
    }

    fn add_channel(&mut self, channel: &ImportedChannel, target: &Target<'_>) {
        let lane = Lane::Channel(channel.id);
        let set = Channels::parse(self.file(CHANNELS)).of(&lane);
        let mut entries = Vec::new();
        let labelled = |what: &str| format!("{CHANNELS}: channel {}: {what}", channel.id);
        match (&channel.directory, set.directory) {
            (Some(wanted), None) => match target.directory_conflict(wanted) {
                None => entries.push(("directory", Some(wanted.as_str()))),
                Some(conflict) => return self.conflicts.push(labelled(&conflict)),
            },
            (Some(wanted), Some(stands)) if *wanted == stands => {
                self.existing.push(labelled("directory"))
            }
            (Some(wanted), Some(stands)) => self.conflicts.push(labelled(&format!(
                "its directory is {stands} here and {wanted} there; it is not changed"
            ))),
            (None, _) => {}
        }
        match (channel.needs_no_mention, set.require_mention) {
            (true, None) => entries.push(("require-mention", Some("no"))),
            (true, Some(false)) => self.existing.push(labelled("require-mention")),
            (true, Some(true)) => {
                self.conflicts
                    .push(labelled("it must be mentioned here and not there; this is not changed"));
            }
            (false, _) => {}
        }
        if entries.is_empty() {
            return;
        }
        let name =
            channel.name.as_deref().map(markdown::heading_name).filter(|name| !name.is_empty());
        match with_channel(self.file(CHANNELS), &lane, name.as_deref(), &entries) {
            Ok(after) => {
                self.set(CHANNELS, &labelled(""), after);
            }
            Err(error) => self.conflicts.push(labelled(&error.to_string())),
        }
    }
}

impl Target<'_> {
    /// Returns why a channel may not use this directory, with the next step, or `None` if it may.
    fn directory_conflict(&self, directory: &str) -> Option<String> {
        let fault = channel_directory(directory, self.roots, self.home).err()?;
        Some(format!(
            "{fault}; create the directory, or add it to PROJECT_ROOTS, then run this again"
        ))
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

/// The jobs and hooks of a file.
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
