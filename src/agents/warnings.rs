//! Warnings about settings that fit no backend on this machine.

use std::path::PathBuf;
use std::sync::Arc;

use super::AgentRegistry;
use super::configured;
use super::options::NoOptions;
use aetheel_model::agent::{declared_names, tool_names};
use aetheel_model::finding::Finding;
use aetheel_model::suggest::suggestion;
use aetheel_recording::Backend as _;
use aetheel_turn::Backends as _;
use aetheel_wasm::RequestedCapabilities;

impl AgentRegistry {
    /// Returns warnings about unknown backends in `BACKEND_RUN`, and about backends that cannot run
    /// in the chosen way.
    pub fn run_warnings(&self) -> Vec<Finding> {
        let runs = &self.examiner.config.backend_run;
        let unknown = runs.named.keys().filter(|name| self.get(name).is_none());
        let unknown =
            unknown.map(|name| format!("BACKEND_RUN names `{name}`, which is not a backend here"));
        let component = |name: &String| {
            self.base(name).map(|(inner, _)| {
                configured::resolve_run(name, inner.descriptor(), runs.of(name)).1
            })
        };
        let names = self.names();
        let all = unknown.chain(names.iter().filter_map(component).flatten());
        all.map(|message| Finding::warning("BACKEND_RUN", message)).collect()
    }

    /// Returns warnings about names in `ALLOWED_TOOLS` that no backend here declares.
    pub fn tool_warnings(&self) -> Vec<Finding> {
        let backends: Vec<_> = self.names().iter().filter_map(|name| self.get(name)).collect();
        let own = || backends.iter().map(|backend| backend.descriptor());
        let names: Vec<&str> = tool_names().chain(own().flat_map(declared_names)).collect();
        let warning = |name: String| {
            let meant = suggestion(&name, names.iter().copied());
            Finding::warning(
                "ALLOWED_TOOLS",
                format!(
                    "ALLOWED_TOOLS names `{name}`, which is not a tool of an agent here (it may be one of an MCP server){meant}"
                ),
            )
        };
        self.examiner.config.allowed_tools.unknown(own()).into_iter().map(warning).collect()
    }

    /// Returns the component files that wait for approval, with the capabilities that were not
    /// accepted.
    pub fn unapproved(&self) -> Vec<(PathBuf, Arc<RequestedCapabilities>)> {
        self.components.waiting()
    }

    /// Describes the files of a backend that wait for approval, one line each.
    pub(super) fn unapproved_of(&self, name: &str) -> Vec<String> {
        let component = self.component_of(name);
        let waiting =
            self.unapproved().into_iter().filter(|(_, wants)| wants.descriptor.name == component);
        let warning = |(path, wants): (PathBuf, Arc<RequestedCapabilities>)| {
            let file = path.file_name().unwrap_or_default().display();
            format!(
                "{file}, version {}, {wants}; it will not run until an owner runs `aetheel backend approve {component}`.",
                wants.descriptor.version
            )
        };
        waiting.map(warning).collect()
    }

    /// Returns warnings about options and accounts in `backends.md` that do not fit their backends.
    pub fn option_warnings(&self) -> Vec<Finding> {
        let faults = self.options.faults(|name| match self.components.component(name) {
            _ if self.is_profile(name) || self.takes_profiles(name) => Err(NoOptions::Profile),
            Some(component) => Ok(component.descriptor().clone()),
            None => Err(NoOptions::NotServing),
        });
        let faults = faults.into_iter().chain(self.account_faults());
        faults.map(|fault| Finding::warning("backends.md", fault)).collect()
    }
}
