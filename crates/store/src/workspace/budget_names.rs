//! Finds names in `budgets.md` that nothing here has. Their caps would never apply.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Channels, CronJobs, DOCUMENT_LIMIT, Heartbeats};
use aetheel_model::budget::BudgetRules;
use aetheel_model::suggest::nearest;
use aetheel_runtime::ordinary::read_ordinary;

/// The names that budgets may use.
pub struct KnownNames {
    folder: PathBuf,
    backends: Box<dyn Fn() -> Vec<String> + Send>,
}

impl KnownNames {
    /// Returns the names of a configuration folder. The files are read at each check, because they
    /// can change.
    #[must_use]
    pub fn new(folder: &Path, backends: impl Fn() -> Vec<String> + Send + 'static) -> Self {
        Self { folder: folder.to_owned(), backends: Box::new(backends) }
    }

    /// Returns a line for each name that does not exist. Blocks.
    #[must_use]
    pub fn faults(&self, rules: &BudgetRules) -> Vec<String> {
        let mut faults = BTreeSet::new();
        for cap in &rules.caps {
            for (key, name) in cap.names() {
                let known = self.of(key);
                if known.iter().any(|known| known == name) {
                    continue;
                }
                let next = nearest(name, known.iter().map(String::as_str)).map_or_else(
                    || format!("correct the name, or remove the budget `{}`", cap.name),
                    |meant| format!("did you mean `{meant}`?"),
                );
                faults.insert((
                    cap.line,
                    format!("the {key} {name:?} of `{}` does not exist; {next}", cap.name),
                ));
            }
        }
        let lines = faults.into_iter();
        lines.map(|(line, fault)| format!("budgets.md line {line}: {fault}")).collect()
    }

    fn of(&self, key: &str) -> Vec<String> {
        match key {
            "project" => {
                let channels = Channels::parse(&self.text("channels.md"));
                channels.projects().map(str::to_owned).collect()
            }
            "backend" => (self.backends)(),
            _ => {
                let checks = Heartbeats::parse(&self.text("heartbeat.md")).checks.into_iter();
                let jobs = CronJobs::parse(&self.text("agents.md")).jobs.into_iter();
                checks.map(|check| check.name).chain(jobs.map(|job| job.name)).collect()
            }
        }
    }

    /// Returns the text of a file. Empty if it cannot be read.
    fn text(&self, name: &str) -> String {
        let read = read_ordinary(&self.folder.join(name), DOCUMENT_LIMIT);
        read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}
