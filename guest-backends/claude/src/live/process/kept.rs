//! The state of a process that goes on, for another instance.

use aetheel_backend_sdk::json::Value;
use serde_json::json;

use super::Process;
use crate::plan::Fixed;

impl Process {
    /// None: it did not answer everything, or serves no conversation.
    pub(in super::super) fn kept(&self) -> Option<serde_json::Value> {
        let Self {
            number,
            version,
            models,
            tells_state,
            stale,
            fixed,
            model,
            effort,
            mode,
            may_bypass,
            requests,
            asked,
        } = self;
        if !asked.is_empty() {
            return None;
        }
        let models: Vec<_> = models
            .iter()
            .map(|model| json!({ "value": model.id, "displayName": model.label, "supportedEffortLevels": model.efforts }))
            .collect();
        Some(json!({
            "number": number, "requests": requests, "version": version, "models": models, "tells-state": tells_state, "stale": stale,
            "fixed": fixed.as_ref()?.kept()?, "model": model, "effort": effort, "mode": mode, "may-bypass": may_bypass,
        }))
    }

    pub(in super::super) fn taken_over(kept: &Value) -> Option<Self> {
        let text = |key: &str| kept.text(key).map(str::to_owned);
        let is = |key: &str| kept[key].as_bool();
        Some(Self {
            number: kept.count("number")?,
            version: text("version"),
            models: kept.list("models").iter().filter_map(super::model).collect(),
            tells_state: is("tells-state")?,
            stale: is("stale")?,
            fixed: Some(Fixed::taken_over(&kept["fixed"])?),
            model: text("model"),
            effort: text("effort"),
            mode: text("mode")?,
            may_bypass: is("may-bypass")?,
            requests: kept.count("requests")?,
            ..Self::default()
        })
    }
}
