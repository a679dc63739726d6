//! Saves the state of a running process for another instance.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::HostTool;
use serde_json::json;

use super::Process;
use crate::plan::Fixed;

impl Process {
    /// Returns `None` if a request is open or the process serves no conversation.
    pub(in super::super) fn save_state(&self) -> Option<serde_json::Value> {
        let Self {
            number,
            version,
            models,
            reports_state,
            stale,
            offered,
            fixed,
            model,
            effort,
            mode,
            may_bypass,
            requests,
            pending,
        } = self;
        if !pending.is_empty() {
            return None;
        }
        let models: Vec<_> = models
            .iter()
            .map(|model| json!({ "value": model.id, "displayName": model.label, "supportedEffortLevels": model.efforts }))
            .collect();
        let offered: Vec<_> = offered
            .iter()
            .map(|tool| json!({ "name": tool.name, "description": tool.description, "input-schema": tool.input_schema }))
            .collect();
        Some(json!({
            "number": number, "requests": requests, "version": version, "models": models, "tells-state": reports_state, "stale": stale,
            "fixed": fixed.as_ref()?.save_state()?, "model": model, "effort": effort, "mode": mode, "may-bypass": may_bypass,
            "host-tools": offered,
        }))
    }

    pub(in super::super) fn restore(saved: &Value) -> Option<Self> {
        let text = |key: &str| saved.text(key).map(str::to_owned);
        let is = |key: &str| saved[key].as_bool();
        Some(Self {
            number: saved.count("number")?,
            version: text("version"),
            models: saved.list("models").iter().filter_map(super::model).collect(),
            reports_state: is("tells-state")?,
            stale: is("stale")?,
            // Versions for contract 0.2 save no tools.
            offered: saved.list("host-tools").iter().map(tool).collect::<Option<_>>()?,
            fixed: Some(Fixed::restore(&saved["fixed"])?),
            model: text("model"),
            effort: text("effort"),
            mode: text("mode")?,
            may_bypass: is("may-bypass")?,
            requests: saved.count("requests")?,
            ..Self::default()
        })
    }
}

fn tool(saved: &Value) -> Option<HostTool> {
    let text = |key: &str| saved.text(key).map(str::to_owned);
    Some(HostTool {
        name: text("name")?,
        description: text("description")?,
        input_schema: text("input-schema")?,
    })
}
