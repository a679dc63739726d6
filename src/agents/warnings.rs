//! Warnings about settings for backends that no backend here can have meant.

use std::path::PathBuf;
use std::sync::Arc;

use super::variant;
use super::{AgentRegistry, PROFILED};
use crate::agent::tool_names;
use crate::backend::Wants;
use crate::config::suggestion;
use crate::turn::{Backend as _, Backends as _};

impl AgentRegistry {
    /// The parts of `BACKEND_RUN` that name no backend, or a way to run that theirs has not.
    pub fn run_warnings(&self) -> Vec<String> {
        let runs = &self.examiner.config.backend_run;
        let unknown = runs.named.keys().filter(|name| self.get(name).is_none());
        let unknown =
            unknown.map(|name| format!("BACKEND_RUN names `{name}`, which is not a backend here"));
        let component = |name: &String| {
            self.base(name)
                .map(|(inner, _)| variant::run_of(name, inner.descriptor(), runs.of(name)).1)
        };
        unknown.chain(self.names().iter().filter_map(component).flatten()).collect()
    }

    /// Names in `ALLOWED_TOOLS` that no backend here knows.
    pub fn tool_warnings(&self) -> Vec<String> {
        let backends: Vec<_> = self.names().iter().filter_map(|name| self.get(name)).collect();
        let own = || backends.iter().map(|backend| backend.descriptor());
        let names: Vec<&str> = tool_names()
            .chain(own().flat_map(|own| own.tools.values().flatten()).map(String::as_str))
            .collect();
        let told = |name: String| {
            let meant = suggestion(&name, names.iter().copied());
            format!(
                "ALLOWED_TOOLS names `{name}`, which is a tool of no agent here, unless of an MCP server{meant}"
            )
        };
        self.examiner.config.allowed_tools.unknown(own()).into_iter().map(told).collect()
    }

    /// The files that wait for what they may do to be accepted.
    pub fn waiting(&self) -> Vec<(PathBuf, Arc<Wants>)> {
        self.components.waiting()
    }

    /// Those of a backend, in words.
    pub(super) fn waiting_of(&self, name: &str) -> Vec<String> {
        let component = self.component_of(name);
        let waiting =
            self.waiting().into_iter().filter(|(_, wants)| wants.descriptor.name == component);
        let told = |(path, wants): (PathBuf, Arc<Wants>)| {
            let file = path.file_name().unwrap_or_default().display();
            format!(
                "{file}, version {}, {wants}; it will not run until an owner runs `aetheel backend approve {component}`.",
                wants.descriptor.version
            )
        };
        waiting.map(told).collect()
    }

    /// Options in `backends.md` that are not what the descriptors of their backends say.
    pub fn option_warnings(&self) -> Vec<String> {
        self.options.faults(|name| match self.components.component(name) {
            _ if self.is_profile(name) || name == PROFILED => {
                Err("has its place in acp.md: a profile says there what its agent is told"
                    .to_owned())
            }
            Some(component) => Ok(component.descriptor().clone()),
            None => Err("is of no backend that serves here".to_owned()),
        })
    }
}
