//! The stages of the preparation of a start. Each checks a part of what the start needs, and
//! collects the problems.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::{LoadedBackends, Purpose, StartRefusal, shipped, surroundings, survey, unknown};
use crate::agents::findings::Findings;
use crate::cli::exit;
use crate::progress;
use aetheel_model::finding::{Finding, FindingLevel};
use aetheel_model::plain::with_causes;
use aetheel_model::redact::Redactor;
use aetheel_settings::Config;
use aetheel_store::workspace::{FileError, Workspace};
use aetheel_turn::Backends as _;
use aetheel_web::webhooks::WebhookSecrets;

/// A preparation, with the problems that its stages have found.
pub(super) struct Preparation {
    pub(super) purpose: Purpose,
    pub(super) config: Config,
    pub(super) variables: HashMap<String, String>,
    pub(super) found: Vec<Finding>,
    /// Whether an argument of the command names an unknown backend, and nothing else is invalid.
    pub(super) unknown_argument: bool,
}

impl Preparation {
    /// Checks the settings, and creates the missing folders.
    pub(super) fn check_surroundings(&mut self, redactor: &Redactor) {
        let Self { purpose, config, variables, found, .. } = self;
        let mut surroundings = surroundings::examine(config, variables, redactor, *purpose);
        for (name, folder) in
            [("WORKSPACE_DIR", &config.workspace_dir), ("CONFIG_DIR", &config.config_dir)]
        {
            if let Err(error) = survey::make_private(folder) {
                surroundings.retain(|finding| !finding.subject.starts_with(name));
                let message =
                    format!("{name}: cannot create the folder {}: {error}", folder.display());
                found.push(Finding::of_io(name, message, &error));
            }
        }
        found.extend(surroundings);
    }

    /// Copies the shipped components to the folder of backends, or those of `copied_backends`.
    pub(super) async fn install_shipped(&mut self, copied_backends: Option<PathBuf>) {
        if self.purpose != Purpose::Check {
            self.found.extend(shipped::install_shipped(&self.config, copied_backends).await);
        }
        self.found.extend(shipped::missing(&self.config));
    }

    /// Opens the operator's files and checks them.
    pub(super) async fn open_workspace(&mut self, secrets: &WebhookSecrets) -> Option<Workspace> {
        let Self { purpose, config, found, .. } = self;
        let unusable = |error: FileError| {
            let message = format!("CONFIG_DIR: {}", with_causes(&error));
            Finding::of_io("CONFIG_DIR", message, error.cause())
        };
        let opened = Workspace::open(&config.config_dir).await;
        let workspace = opened.map_err(|error| found.push(unusable(error))).ok();
        if *purpose == Purpose::Check {
            found.extend(survey::files(config, secrets));
        }
        if let Some(workspace) = &workspace {
            found.extend(survey::channels_faults(workspace));
            match workspace.boot(true).await {
                Ok(booted) if *purpose == Purpose::Check => {
                    let ignored = booted.warnings.into_iter();
                    found.extend(ignored.map(|text| Finding::left_out("boot.md", text)));
                }
                Ok(_) => {}
                Err(error) => found.push(unusable(error)),
            }
        }
        workspace
    }

    /// Loads the backends.
    pub(super) async fn load_backends(&mut self) -> Option<LoadedBackends> {
        let loading = LoadedBackends::load(&self.config, &self.variables);
        let message = survey::loading_message(&self.config);
        let loaded = match self.purpose {
            Purpose::Serve => progress::with_log(message, loading).await,
            Purpose::Console | Purpose::Check => progress::with_spinner(message, loading).await,
        };
        loaded.map_err(|more| self.found.extend(more)).ok()
    }

    /// Examines the agent of the default backend, and checks the names of backends in files.
    pub(super) async fn examine_backends(
        &mut self,
        loaded: &LoadedBackends,
        workspace: Option<&Workspace>,
    ) -> Option<Arc<Findings>> {
        if shipped::missing(&self.config).is_some() {
            return None;
        }
        let findings = match &loaded.default {
            Ok(name) => self.examine_default(name, loaded, workspace).await,
            Err(undecided) => {
                self.refuse_default(undecided, loaded);
                None
            }
        };
        if self.purpose == Purpose::Check {
            self.found.extend(survey::components(loaded).await);
        }
        if self.purpose != Purpose::Console {
            let home = self.variables.get("HOME").map(String::as_str);
            self.found.extend(survey::lanes(&self.config, &loaded.agents, home));
        }
        findings
    }

    async fn examine_default(
        &mut self,
        name: &str,
        loaded: &LoadedBackends,
        workspace: Option<&Workspace>,
    ) -> Option<Arc<Findings>> {
        let Self { config, found, .. } = self;
        let backend = loaded.agents.get(name);
        let own_command = backend.is_some_and(|it| it.descriptor().own_command);
        config.set_backend(name, own_command);
        let findings = loaded.agents.examine_default(name).await;
        found.extend(findings.iter().flat_map(|findings| findings.of_default(name)));
        found.extend(unknown::backends(config, &loaded.agents));
        if let Some(workspace) = workspace {
            found.extend(survey::budget_names(config, workspace, &loaded.agents));
        }
        findings
    }

    fn refuse_default(&mut self, undecided: &StartRefusal, loaded: &LoadedBackends) {
        let found = &mut self.found;
        self.unknown_argument = undecided.code == exit::USAGE
            && !found.iter().any(|finding| finding.level == FindingLevel::Invalid);
        found.extend(undecided.faults.iter().cloned());
        if self.purpose != Purpose::Check {
            let level = match undecided.code {
                exit::UNAVAILABLE => FindingLevel::Unavailable,
                _ => FindingLevel::Invalid,
            };
            let refused = loaded.refused.iter().cloned();
            found.extend(refused.map(|finding| Finding { level, ..finding }));
        }
    }

    /// Checks variables that are not settings. `unknown` has their names and places.
    pub(super) fn check_unknown(
        &mut self,
        loaded: Option<&LoadedBackends>,
        unknown: &[(String, String)],
    ) {
        match loaded {
            Some(loaded) => {
                self.found.extend(unknown::variables(unknown, &*loaded.agents));
                self.found.extend(loaded.agents.tool_warnings());
            }
            None => self.found.extend(unknown::misspelled(unknown)),
        }
    }

    /// Takes the problems of a level.
    pub(super) fn take(&mut self, level: FindingLevel) -> Vec<Finding> {
        self.found.extract_if(.., |finding| finding.level == level).collect()
    }

    /// Takes the problems that prevent a start. Returns `None` if no problem does and `is_complete`
    /// is set.
    pub(super) fn take_refusal(&mut self, is_complete: bool) -> Option<StartRefusal> {
        let mut faults = self.take(FindingLevel::Invalid);
        let (missing, passing) =
            (self.take(FindingLevel::Unavailable), self.take(FindingLevel::Passing));
        if is_complete && faults.is_empty() && missing.is_empty() && passing.is_empty() {
            return None;
        }
        let code = match (faults.is_empty(), missing.is_empty()) {
            (true, true) if !passing.is_empty() => exit::TEMPORARY,
            (true, _) => exit::UNAVAILABLE,
            (false, _) if self.unknown_argument => exit::USAGE,
            (false, _) => exit::CONFIG,
        };
        faults.extend(missing);
        faults.extend(passing);
        faults.extend(self.take(FindingLevel::LeftOut));
        Some(StartRefusal { code, faults, warnings: self.take(FindingLevel::Warning) })
    }
}
