//! Plans the additions to the operator's files, and verifies each by parsing the result.
//!
//! The operator's text is never changed. Imported text is added below it, and a job, channel or
//! project that already exists stays as it is. Only an example that is unchanged since
//! `aetheel init` wrote it is replaced.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use super::Target;
use super::found::{Channel, Found, Job, Project, Text, When};
use super::markdown::{self, words};
use super::secrets::without_shapes;
use crate::commands::init::STARTERS;
use crate::disk::{read_ordinary, replace, text_of};
use crate::event::Lane;
use crate::markdown::outline::{below, outline};
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
const GIVE_WAY: [Document; 4] =
    [Document::Identity, Document::Soul, Document::User, Document::Tools];

/// The planned additions.
pub(super) struct Plan {
    files: BTreeMap<&'static str, File>,
    /// Items that already exist, one line each.
    pub there: Vec<String>,
    /// Items that are not written because the operator's files differ, one line each.
    pub conflicts: Vec<String>,
    /// Texts in which words were redacted, one line each.
    pub hidden: Vec<String>,
    redactor: Redactor,
}

/// A file of the operator.
pub(super) struct File {
    path: PathBuf,
    /// The current contents, or `None` if the file does not exist.
    before: Option<String>,
    after: String,
    /// Whether the file is the unchanged example and is replaced.
    pub gives_way: bool,
}

impl File {
    /// Returns whether the file does not exist yet.
    pub(super) fn is_new(&self) -> bool {
        self.before.is_none()
    }

    /// Returns the added lines, in order.
    pub(super) fn added(&self) -> Vec<&str> {
        let before = if self.gives_way { "" } else { self.before.as_deref().unwrap_or_default() };
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

impl Plan {
    /// Plans the additions for the imported data.
    ///
    /// # Errors
    /// Names a file of the operator that cannot be read.
    pub(super) fn new(found: &Found, target: &Target<'_>) -> Result<Self, String> {
        let mut plan = Self {
            files: BTreeMap::new(),
            there: Vec::new(),
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
                Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
            };
            let after = before.clone().unwrap_or_default();
            plan.files.insert(name, File { path, before, after, gives_way: false });
        }
        for text in &found.texts {
            plan.text(found.called, text);
        }
        let mut taken = Vec::new();
        for job in &found.jobs {
            let job = plan.tidied(job, &mut taken);
            plan.job(&job);
        }
        for project in &found.projects {
            plan.project(project, target);
        }
        for channel in &found.channels {
            plan.channel(channel, target);
        }
        Ok(plan)
    }

    /// Returns the files that change.
    pub(super) fn changes(&self) -> impl Iterator<Item = (&'static str, &File)> {
        let changes = |file: &File| file.before.as_deref().unwrap_or_default() != file.after;
        self.files.iter().filter(move |(_, file)| changes(file)).map(|(name, file)| (*name, file))
    }

    /// Writes the files, each atomically. New files are readable only by their owner.
    ///
    /// # Errors
    /// Names a file that changed in the meantime or cannot be written. The files before it, in the
    /// order of their names, are written.
    pub(super) fn write(&self) -> Result<(), String> {
        for (name, file) in self.changes() {
            let now = match read_ordinary(&file.path, DOCUMENT_LIMIT).and_then(text_of) {
                Ok(text) => Some(text),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(format!("cannot read {name}: {error}")),
            };
            if now != file.before {
                return Err(format!("{name} was changed in the meantime; run this again"));
            }
            replace(&file.path, file.after.as_bytes())
                .map_err(|error| format!("cannot write {}: {error}", file.path.display()))?;
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
        let clean = self.redactor.clean(text.to_owned());
        let known = clean.matches("***").count().saturating_sub(text.matches("***").count());
        let (clean, guessed) = without_shapes(&clean);
        if known + guessed > 0 {
            self.hidden.push(format!("{what}: {}, written as ***", known + guessed));
        }
        clean
    }

    fn text(&mut self, called: &str, text: &Text) {
        let (name, title) = (text.into.file(), format!("From {called}: {}", text.from));
        let inert = markdown::inert(&self.hide(&text.from, &text.text));
        if inert.is_empty() {
            return;
        }
        let block = format!("# {title}\n\n{inert}\n");
        let before = self.file(name).to_owned();
        if before.contains(&block) {
            self.there.push(format!("{name}: {}", text.from));
            return;
        }
        if markdown::has_section(&before, &title) {
            self.conflicts.push(format!(
                "{name}: {} was imported before, and the source or the section has changed since; delete the section \"{title}\" to import it again",
                text.from
            ));
            return;
        }
        let example = STARTERS.iter().any(|(example, text)| *example == name && *text == before);
        let gives_way = example && GIVE_WAY.contains(&text.into);
        let head = match (gives_way, before.trim_end()) {
            (true, _) | (_, "") => format!("# {}", text.into.title()),
            (false, before) => before.to_owned(),
        };
        let after = format!("{head}\n\n{block}");
        if text.into == Document::Agents && orders(name, &after) != orders(name, &before) {
            self.conflicts.push(format!("{name}: {} cannot be written without changing jobs or hooks: a code block or comment in the file may not be closed", text.from));
            return;
        }
        if self.set(name, &text.from, after) && gives_way {
            self.files.get_mut(name).expect("it was set").gives_way = true;
        }
    }

    /// Returns the job with a unique name and without secrets.
    fn tidied(&mut self, job: &Job, taken: &mut Vec<String>) -> Job {
        let (called, instruction) =
            (self.hide("the name of a job", &job.name), self.hide(&job.name, &job.instruction));
        let mut first = markdown::name(&called);
        if first.is_empty() {
            first = "Job".to_owned();
        }
        let (mut name, mut number) = (first.clone(), 1);
        while taken.contains(&name.to_lowercase()) {
            number += 1;
            name = format!("{first} {number}");
        }
        taken.push(name.to_lowercase());
        Job { name, instruction, ..job.clone() }
    }

    fn job(&mut self, job: &Job) {
        let (name, before) = match job.when {
            When::Cron(_) => (Document::Agents.file(), self.file(Document::Agents.file())),
            When::Every { .. } => (HEARTBEATS, self.file(HEARTBEATS)),
        };
        let (standing, what) = (orders(name, before), format!("job {}", job.name));
        let key = job.name.to_lowercase();
        let after = match job.when {
            When::Cron(_) => with_job(before, job),
            When::Every { .. } => {
                let head =
                    if before.trim().is_empty() { "# Heartbeats" } else { before.trim_end() };
                format!("{head}\n\n{}", markdown::job(2, job))
            }
        };
        let mut read = orders(name, &after);
        let written = read.all.remove(&key);
        match standing.all.get(&key) {
            Some(old) if *old == Order::of(job) => {
                self.there.push(format!("{name}: {}", job.name));
            }
            Some(_) => self.conflicts.push(format!(
                "{name}: there is another {:?}; it is kept, and this one is not imported",
                job.name
            )),
            // The other entries of the file must be unchanged.
            None if written == Some(Order::of(job)) && read == standing => {
                self.set(name, &what, after);
            }
            None => self.conflicts.push(format!(
                "{name}: {:?} cannot be added without being misread; add it by hand (a code block or comment at the end of {name} may not be closed)",
                job.name
            )),
        }
    }

    fn project(&mut self, project: &Project, target: &Target<'_>) {
        let name = markdown::name(&project.name);
        if let Err(fault) = target.allows(&project.directory) {
            self.conflicts.push(format!("{CHANNELS}: project {name}: {fault}"));
            return;
        }
        let entries = [("directory", Some(project.directory.as_str()))];
        match with_project(self.file(CHANNELS), &name, &entries) {
            Ok(Some(after)) => {
                self.set(CHANNELS, &name, after);
            }
            Ok(None) => self.there.push(format!("{CHANNELS}: project {name}")),
            Err(fault) => self.conflicts.push(format!("{CHANNELS}: project {name}: {fault}")),
        }
    }

    fn channel(&mut self, channel: &Channel, target: &Target<'_>) {
        let lane = Lane::Channel(channel.id);
        let set = Channels::parse(self.file(CHANNELS)).of(&lane);
        let mut entries = Vec::new();
        let told = |what: &str| format!("{CHANNELS}: channel {}: {what}", channel.id);
        match (&channel.directory, set.directory) {
            (Some(wanted), None) => match target.allows(wanted) {
                Ok(()) => entries.push(("directory", Some(wanted.as_str()))),
                Err(fault) => return self.conflicts.push(told(&fault)),
            },
            (Some(wanted), Some(stands)) if *wanted == stands => self.there.push(told("directory")),
            (Some(wanted), Some(stands)) => self.conflicts.push(told(&format!(
                "its directory is {stands} here and {wanted} there; it is not changed"
            ))),
            (None, _) => {}
        }
        match (channel.needs_no_mention, set.require_mention) {
            (true, None) => entries.push(("require-mention", Some("no"))),
            (true, Some(false)) => self.there.push(told("require-mention")),
            (true, Some(true)) => {
                self.conflicts
                    .push(told("it must be mentioned here and not there; this is not changed"));
            }
            (false, _) => {}
        }
        if entries.is_empty() {
            return;
        }
        let name = channel.name.as_deref().map(markdown::name).filter(|name| !name.is_empty());
        match with_channel(self.file(CHANNELS), &lane, name.as_deref(), &entries) {
            Ok(after) => {
                self.set(CHANNELS, &told(""), after);
            }
            Err(fault) => self.conflicts.push(told(&fault)),
        }
    }
}

impl Target<'_> {
    /// Checks that a channel may use this directory.
    fn allows(&self, directory: &str) -> Result<(), String> {
        channel_directory(directory, self.roots, self.home).map(drop).map_err(|fault| {
            format!(
                "{fault}; create the directory, or add it to PROJECT_ROOTS, then run this again"
            )
        })
    }
}

/// A job as parsed from a file, for comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Order {
    when: String,
    words: Vec<String>,
    channel: Option<u64>,
    zone: Option<String>,
}

impl Order {
    fn new(
        when: String,
        text: &str,
        channel: Option<u64>,
        zone: Option<&jiff::tz::TimeZone>,
    ) -> Self {
        let words = words(text).into_iter().map(str::to_owned).collect();
        let zone = zone.and_then(|zone| zone.iana_name()).map(str::to_owned);
        Self { when, words, channel, zone }
    }

    /// Returns the expected result of parsing a job.
    fn of(job: &Job) -> Self {
        let when = match &job.when {
            When::Cron(expression) => expression.clone(),
            When::Every { seconds, active: None } => format!("every {seconds} s"),
            When::Every { seconds, active: Some(active) } => format!("every {seconds} s {active}"),
        };
        let zone = job.zone.as_ref().and_then(|zone| jiff::tz::TimeZone::get(zone).ok());
        Self::new(when, &markdown::instruction(&job.instruction), job.channel, zone.as_ref())
    }
}

/// The jobs and hooks of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Orders {
    /// Jobs by name, in lower case.
    all: BTreeMap<String, Order>,
    hooks: Vec<Option<String>>,
    /// Number of warnings about entries that cannot be parsed.
    strange: usize,
}

/// Parses the jobs and hooks of `agents.md` or `heartbeat.md`.
fn orders(name: &str, text: &str) -> Orders {
    if name == HEARTBEATS {
        let read = Heartbeats::parse(text);
        let all = read.checks.iter().map(|check| {
            let when = check.heartbeat.to_string();
            let order = Order::new(when, &check.instruction, check.channel, check.zone.as_ref());
            (check.name.to_lowercase(), order)
        });
        return Orders { all: all.collect(), hooks: Vec::new(), strange: read.warnings.len() };
    }
    let (read, hooks) = (CronJobs::parse(text), Hooks::parse(text));
    let all = read.jobs.iter().map(|job| {
        let when = job.expression.to_string();
        let order = Order::new(when, &job.instruction, job.channel, job.zone.as_ref());
        (job.name.to_lowercase(), order)
    });
    Orders {
        all: all.collect(),
        hooks: Hook::ALL.map(|hook| hooks.of(hook).map(|hook| hook.text.clone())).into(),
        strange: read.warnings.len() + hooks.warnings.len(),
    }
}

/// Returns the text of `agents.md` with a job added after the other jobs.
fn with_job(text: &str, job: &Job) -> String {
    let parts = outline(text);
    let section = parts.iter().position(|part| {
        part.level > 0 && part.level < 6 && part.plain_title().eq_ignore_ascii_case("cron jobs")
    });
    let Some(at) = section else {
        let head = if text.trim().is_empty() { "# Agents" } else { text.trim_end() };
        return format!("{head}\n\n## Cron Jobs\n\n{}", markdown::job(3, job));
    };
    let written = markdown::job(parts[at].level + 1, job);
    let Some(next) = parts.get(at + 1 + below(&parts, at).len()) else {
        return format!("{}\n\n{written}", text.trim_end());
    };
    let end = text.split_inclusive('\n').take(next.line - 1).map(str::len).sum();
    let (before, after) = text.split_at(end);
    format!("{}\n\n{written}\n{after}", before.trim_end())
}
