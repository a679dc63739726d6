//! The rows of `aetheel backend list`, and the table for people.
//!
//! Fields of the JSON form may be added, but never change or disappear.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::extension_row::ExtensionRow;
use super::listing_rows::{RegistryRow, Rival, RolloutRow};
use crate::agents::findings::Findings;
use crate::startup::LoadedBackends;
use crate::terminal::{ColumnAlignment, OutputStyle, aligned};
use aetheel_model::agent::descriptor::{DescriptorChoice, Feature, LinkSharing, OneShot};
use aetheel_model::finding::Finding;
use aetheel_model::plain::with_causes;
use aetheel_recording::Backend;
use aetheel_store::workspace::{BackendLock, BackendLockError, RolloutNote};
use aetheel_turn::Backends as _;
use aetheel_wasm::ServingInfo;

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct BackendListing {
    pub default: Option<String>,
    /// The reason why `auto` selected it.
    pub detected: Option<String>,
    /// Which components may serve: `any`, `pinned` or `signed`.
    pub trust: &'static str,
    pub backends: Vec<BackendRow>,
    pub extensions: Vec<ExtensionRow>,
    #[serde(serialize_with = "Finding::serialize_lines")]
    pub refused: Vec<Finding>,
    /// Other problems. The one fault among them is the reason why there is no default backend.
    #[serde(serialize_with = "Finding::serialize_lines")]
    pub warnings: Vec<Finding>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct BackendRow {
    pub name: String,
    label: String,
    /// The component's name. It differs from `name` for a launch profile.
    pub component: String,
    pub version: String,
    pub generation: u32,
    pub digest: String,
    pub default: bool,
    /// How the backend runs: `live` or `one-shot`.
    run: &'static str,
    runs: Vec<&'static str>,
    program: Option<String>,
    pub program_path: Option<PathBuf>,
    pub agent_version: Option<String>,
    /// Version requirements of the agents that the backend supports.
    understands: Vec<String>,
    features: Vec<Feature>,
    efforts: Vec<DescriptorChoice>,
    models: Vec<DescriptorChoice>,
    pub available: bool,
    /// The reasons why it cannot work here; empty if it is available.
    pub reasons: Vec<String>,
    #[serde(serialize_with = "Finding::serialize_lines")]
    pub warnings: Vec<Finding>,
    /// The file that the component was loaded from.
    pub file: Option<PathBuf>,
    /// The reason why it is trusted, or `None` if trust is not checked.
    #[serde(rename = "standing")]
    pub trust: Option<String>,
    /// The reason why this component was selected, if there are others with its name.
    pub chosen: Option<String>,
    /// The other components with its name.
    pub others: Vec<Rival>,
    /// The new version that does not serve yet, and its rollout.
    pub rollout: Option<RolloutRow>,
    pub registry: Option<RegistryRow>,
}

impl BackendRow {
    /// `declared` has the modes that the component supports; `backend` is the component as it runs
    /// here.
    pub(super) fn new(
        backend: &dyn Backend,
        component: String,
        declared: (LinkSharing, OneShot),
        findings: &Findings,
        default: bool,
    ) -> Self {
        let (descriptor, generation) = (backend.descriptor(), backend.generation());
        let runs = match declared {
            (LinkSharing::Turn, _) => vec!["one-shot"],
            (_, OneShot::Never) => vec!["live"],
            _ => vec!["live", "one-shot"],
        };
        Self {
            name: descriptor.name.clone(),
            label: descriptor.label().to_owned(),
            component,
            version: descriptor.version.clone(),
            generation: generation.number,
            digest: generation.digest.clone(),
            default,
            run: if descriptor.sharing == LinkSharing::Turn { "one-shot" } else { "live" },
            runs,
            program: descriptor.programs.first().map(|program| program.name.clone()),
            program_path: findings.program.clone(),
            agent_version: findings.version.clone(),
            understands: descriptor.understands.clone(),
            features: descriptor
                .features
                .iter()
                .copied()
                .filter(|feature| *feature != Feature::Unknown)
                .collect(),
            efforts: descriptor.efforts.clone(),
            models: descriptor.models.clone(),
            available: findings.faults.is_empty(),
            reasons: findings.faults.iter().map(|fault| fault.finding.to_string()).collect(),
            warnings: findings.warnings.clone(),
            file: None,
            trust: None,
            chosen: None,
            others: Vec::new(),
            rollout: None,
            registry: None,
        }
    }

    /// Adds from where the component came, unless its file was replaced since.
    fn with_registry(mut self, lock: &BackendLock) -> Self {
        let file = self.file.as_ref().and_then(|path| path.file_name()?.to_str());
        let entry = file.and_then(|file| lock.find(file, &self.digest));
        self.registry = entry.map(|entry| RegistryRow {
            reference: entry.reference.clone(),
            cases: entry.cases.clone(),
            proven_with: entry.proven.clone(),
        });
        self
    }

    /// Adds the file of the component, and the reasons for its selection.
    pub(super) fn with_file(mut self, chosen: Option<&ServingInfo>) -> Self {
        let Some(chosen) = chosen else { return self };
        let rivals = chosen.alternatives.iter();
        let rivals = rivals.map(|other| Rival {
            file: other.path.clone(),
            version: other.version.clone(),
            understands: other.understands.clone(),
        });
        self.others = rivals.collect();
        self.file = Some(chosen.path.clone());
        self.trust = chosen.trust.label();
        self.chosen.clone_from(&chosen.why);
        self
    }

    /// Describes which of several files serves and why, or returns `None` if there is only one.
    pub(super) fn selection(&self) -> Option<String> {
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().display().to_string();
        let others = self.others.iter().map(|other| {
            format!(
                "{} ({}, for {})",
                name(&other.file),
                other.version,
                other.understands.join(" or ")
            )
        });
        let others: Vec<String> = others.collect();
        Some(format!(
            "{}, because {}; not {}",
            name(self.file.as_ref()?),
            self.chosen.as_ref()?,
            others.join(", ")
        ))
    }

    pub(super) fn is_demo(&self) -> bool {
        self.program.as_deref() == Some(env!("CARGO_PKG_NAME"))
    }

    /// Returns whether the agent is not installed and the backend is not the default.
    fn is_absent(&self) -> bool {
        !self.available && !self.default && self.program.is_some() && self.program_path.is_none()
    }

    fn cells(&self) -> [String; 5] {
        let agent = match (&self.program_path, &self.agent_version) {
            (Some(path), Some(version)) => format!("{version} at {}", path.display()),
            (Some(path), None) => path.display().to_string(),
            (None, _) => "–".to_owned(),
        };
        let name = format!("{}{}", self.name, if self.default { " *" } else { "" });
        let status = if self.available { "ready" } else { "not available" };
        let version = format!(
            "{} ({}@{})",
            self.version,
            self.generation,
            self.digest.get(..12).unwrap_or(&self.digest)
        );
        [name, status.to_owned(), self.run.to_owned(), version, agent]
    }

    /// Returns the detail lines, each with a label and a text.
    fn details(&self) -> Vec<(&'static str, String)> {
        let ids = |choices: &[DescriptorChoice]| {
            choices.iter().map(|choice| choice.id.clone()).collect::<Vec<_>>().join(", ")
        };
        // Names as they are in the contract.
        let able = self.features.iter().filter(|feature| **feature != Feature::OwnSignIn);
        let features: Vec<String> = able
            .filter_map(|feature| Some(serde_json::to_value(feature).ok()?.as_str()?.to_owned()))
            .collect();
        let mut details: Vec<(&'static str, String)> =
            self.reasons.iter().map(|reason| ("why not", reason.clone())).collect();
        details.extend(self.selection().map(|choice| ("serves from", choice)));
        details.extend(self.rollout.iter().map(|rollout| ("on rollout", rollout.text())));
        details.extend(self.trust.clone().map(|trust| ("trust", trust)));
        if let Some(registry) = &self.registry {
            details.push(("from", registry.reference.clone()));
            details.extend(registry.proven_with.clone().map(|versions| ("proven with", versions)));
        }
        if self.available {
            details.extend(self.warnings.iter().map(|warning| ("warning", warning.to_string())));
            details.extend([
                ("can", features.join(", ")),
                ("efforts", ids(&self.efforts)),
                ("models", ids(&self.models)),
            ]);
        }
        details.retain(|(_, text)| !text.is_empty());
        details
    }
}

impl BackendListing {
    /// Adds which backends came from a registry.
    pub(super) fn with_lock(mut self, lock: Result<BackendLock, BackendLockError>) -> Self {
        match lock {
            Ok(lock) => {
                let rows = self.backends.into_iter();
                self.backends = rows.map(|row| row.with_registry(&lock)).collect();
            }
            Err(error) => self.warnings.push(Finding::warning("backends", with_causes(&error))),
        }
        self
    }

    /// Examines all agents and lists the backends.
    pub(super) async fn load(loaded: LoadedBackends) -> Self {
        let extensions = loaded.extensions().into_iter().map(ExtensionRow::new).collect();
        let LoadedBackends { agents, components, gate, refused, default, detected, .. } = loaded;
        agents.examine_remaining().await;
        let notes = agents.rollout_notes();
        let mut backends = Vec::new();
        for name in agents.names() {
            let component = agents.component_of(&name);
            let declared =
                components.get(&component).map_or((LinkSharing::Turn, OneShot::Never), |backend| {
                    let descriptor = backend.descriptor();
                    (descriptor.sharing, descriptor.one_shot)
                });
            if let (Some(backend), Some(findings)) = (agents.get(&name), agents.findings(&name)) {
                let is_default = default.as_ref().is_ok_and(|default| *default == name);
                let chosen = components.serving_info(&component);
                let rollout = components.rollout(&component).map(|pair| {
                    let digest = &pair.successor.generation().digest;
                    let known = notes.iter().find(|note| note.digest == *digest);
                    let note = known.cloned();
                    let note = note.unwrap_or_else(|| RolloutNote::new(&component, digest));
                    RolloutRow::new(&pair, &note)
                });
                let row = BackendRow::new(&*backend, component, declared, &findings, is_default);
                backends.push(BackendRow { rollout, ..row.with_file(chosen.as_deref()) });
            }
        }
        let ignored = |text| Finding::warning("backends", text);
        let mut warnings: Vec<Finding> = agents.warnings().into_iter().map(ignored).collect();
        warnings.extend(agents.run_warnings());
        warnings.extend(agents.option_warnings());
        warnings.extend(agents.tool_warnings());
        warnings.extend(gate.warnings().await.into_iter().map(ignored));
        let default = match default {
            Ok(default) => Some(default),
            Err(refused) => {
                // The first fault is the summary; the others repeat the reasons of the backends.
                warnings.extend(refused.faults.into_iter().take(1));
                None
            }
        };
        let trust = gate.level().word();
        Self { default, detected, trust, backends, extensions, refused, warnings }
    }

    /// Formats a table with the available backends first. Without `all`,
    /// agents that are not installed are listed in one line.
    pub(super) fn table(&self, style: OutputStyle, all: bool) -> String {
        let heads = ["BACKEND", "STATUS", "RUNS", "VERSION", "AGENT"].map(str::to_owned);
        let (absent, mut backends): (Vec<&BackendRow>, Vec<&BackendRow>) =
            self.backends.iter().partition(|row| !all && row.is_absent());
        backends.sort_by_key(|row| !row.available);
        let mut rows = vec![heads];
        rows.extend(backends.iter().map(|row| row.cells()));
        let mut lines = aligned(&rows, ColumnAlignment::Left).into_iter();
        let mut out = String::new();
        if let Some(heads) = lines.next().filter(|_| !backends.is_empty()) {
            let _ = writeln!(out, "{}", style.bold(&heads));
        }
        for (row, text) in backends.iter().zip(lines) {
            let _ = writeln!(out, "{}", if row.available { text } else { style.dim(&text) });
            for (what, text) in row.details() {
                let _ = writeln!(out, "  {}", style.dim(&format!("{what}: {text}")));
            }
        }
        if !absent.is_empty() {
            let names: Vec<&str> = absent.iter().map(|row| row.name.as_str()).collect();
            let line = format!(
                "not installed: {} (`aetheel backend list --all` shows more)",
                names.join(", ")
            );
            let _ = writeln!(out, "{}", style.dim(&line));
        }
        if let Some(default) = &self.default {
            let how =
                self.detected.as_ref().map(|why| format!(" (auto: {why})")).unwrap_or_default();
            let _ = writeln!(out, "\n* {default} answers where nothing else was chosen{how}");
        }
        out.push_str(&ExtensionRow::lines(&self.extensions));
        if self.trust != "any" {
            let _ = writeln!(out, "trust: only {} backend files serve (BACKEND_TRUST)", self.trust);
        }
        for refused in &self.refused {
            let _ = writeln!(out, "refused: {refused}");
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "warning: {warning}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::findings::AgentFault;
    use aetheel_model::agent::Descriptor;
    use aetheel_recording::{Generation, Guest, GuestFailure};

    struct Listed(Descriptor, Generation);

    #[async_trait::async_trait]
    impl Backend for Listed {
        fn descriptor(&self) -> &Descriptor {
            &self.0
        }

        fn generation(&self) -> &Generation {
            &self.1
        }

        async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
            Err(GuestFailure::Refused("not opened in this test".into()))
        }
    }

    fn listing() -> BackendListing {
        let backend = |json: &str| {
            Listed(
                Descriptor::parse(json).expect("valid"),
                Generation { number: 2, digest: "ab".repeat(32) },
            )
        };
        let first = backend(
            r#"{"name":"first","label":"First","version":"1.0","sharing":"session","one-shot":"offered","programs":[{"name":"one"}],
            "features":["resume","plan"],"efforts":[{"id":"high","label":"High"}],"models":[{"id":"m","label":"M"}],"understands":["^2"]}"#,
        );
        let second = backend(r#"{"name":"second","version":"1","programs":[{"name":"two"}]}"#);
        let found = Findings {
            program: Some("/bin/one".into()),
            version: Some("2.1".into()),
            ..Findings::default()
        };
        let finding = Finding::unavailable("agent", "program not found: two; install it");
        let fault = AgentFault { brief: "no", finding };
        let missing = Findings { faults: vec![fault], ..Findings::default() };
        BackendListing {
            default: Some("first".into()),
            detected: None,
            trust: "any",
            backends: vec![
                BackendRow::new(
                    &first,
                    "first".into(),
                    (LinkSharing::Session, OneShot::Offered),
                    &found,
                    true,
                ),
                BackendRow::new(
                    &second,
                    "acp".into(),
                    (LinkSharing::Turn, OneShot::Never),
                    &missing,
                    false,
                ),
            ],
            extensions: Vec::new(),
            refused: vec![],
            warnings: vec![],
        }
    }

    #[test]
    fn a_table_shows_available_backends_and_why_others_are_not() {
        let wanted = "\
BACKEND  STATUS         RUNS      VERSION               AGENT
first *  ready          live      1.0 (2@abababababab)  2.1 at /bin/one
  can: resume, plan
  efforts: high
  models: m
second   not available  one-shot  1 (2@abababababab)    –
  why not: program not found: two; install it

* first answers where nothing else was chosen
";
        assert_eq!(listing().table(OutputStyle::plain(), true), wanted);
        assert!(listing().table(OutputStyle::coloured(), true).contains("\x1b["));
    }

    #[test]
    fn missing_agents_share_one_line_unless_all_is_set() {
        let wanted = "\
BACKEND  STATUS  RUNS  VERSION               AGENT
first *  ready   live  1.0 (2@abababababab)  2.1 at /bin/one
  can: resume, plan
  efforts: high
  models: m
not installed: second (`aetheel backend list --all` shows more)

* first answers where nothing else was chosen
";
        assert_eq!(listing().table(OutputStyle::plain(), false), wanted);
        let mut wanted = listing();
        wanted.backends[1].default = true;
        assert!(
            wanted.table(OutputStyle::plain(), false).contains("second *  not available"),
            "the default backend is always listed in full"
        );
        let mut signed_out = listing();
        signed_out.backends[1].program_path = Some("/bin/two".into());
        assert!(
            signed_out.table(OutputStyle::plain(), false).contains("why not:"),
            "it is installed"
        );
    }

    #[test]
    fn the_json_form_has_a_fixed_set_of_fields() {
        let json = serde_json::to_value(listing()).expect("JSON");
        let wanted = serde_json::json!({
            "name": "first", "label": "First", "component": "first", "version": "1.0", "generation": 2, "digest": "ab".repeat(32),
            "default": true, "run": "live", "runs": ["live", "one-shot"], "program": "one", "program-path": "/bin/one",
            "agent-version": "2.1", "understands": ["^2"], "features": ["resume", "plan"], "efforts": [{"id": "high", "label": "High"}],
            "models": [{"id": "m", "label": "M"}], "available": true, "reasons": [], "warnings": [],
            "file": null, "standing": null, "chosen": null, "others": [], "rollout": null, "registry": null
        });
        assert_eq!(json["backends"][0], wanted);
        assert_eq!(
            json["backends"][1]["reasons"],
            serde_json::json!(["program not found: two; install it"])
        );
        let mut fields: Vec<&String> = json.as_object().expect("an object").keys().collect();
        fields.sort();
        let known =
            ["backends", "default", "detected", "extensions", "refused", "trust", "warnings"];
        assert_eq!(fields, known);
    }
}
