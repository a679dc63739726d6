//! Stands for `traces` in a build without it.

use secrecy::SecretString;

use super::OptionalPart;
use aetheel_model::finding::Finding;
use aetheel_model::observed::ObservedEvent;
use aetheel_model::traces::TraceSettings;
use aetheel_settings::Config;

/// The export of traces, which does not exist in this build.
pub(super) enum TraceExporter {}

impl TraceExporter {
    pub(super) fn notify(&self, _: &ObservedEvent) {
        match *self {}
    }

    pub(super) fn restore(&self, _: &ObservedEvent) {
        match *self {}
    }

    pub(super) async fn close(&self) {
        match *self {}
    }
}

/// Refuses the address of a collector.
pub(super) fn secrets(settings: &TraceSettings) -> Result<Vec<SecretString>, Vec<Finding>> {
    match settings.endpoint {
        None => Ok(Vec::new()),
        Some(_) => Err(vec![OptionalPart::Traces.refuse_setting("OTEL_EXPORTER_OTLP_ENDPOINT")]),
    }
}

/// Returns `None`, because `secrets` refuses the settings of an export.
pub(super) fn start(_config: &Config) -> Option<TraceExporter> {
    None
}
