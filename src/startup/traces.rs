//! The export of traces, as the operator's settings say.

use secrecy::SecretString;

use super::node_name;
use aetheel_model::finding::Finding;
use aetheel_model::plain::with_causes;
use aetheel_model::traces::TraceSettings;
pub(super) use aetheel_otel::TraceExporter;
use aetheel_otel::TraceOptions;
use aetheel_settings::Config;

/// Checks the settings. Returns the secrets in them.
///
/// # Errors
/// All settings that cannot be used.
pub(super) fn secrets(settings: &TraceSettings) -> Result<Vec<SecretString>, Vec<Finding>> {
    let invalid = |fault: aetheel_otel::TraceFault| Finding::invalid("settings", fault.to_string());
    match TraceOptions::of(settings, None) {
        Ok(options) => Ok(options.iter().flat_map(TraceOptions::secrets).collect()),
        Err(faults) => Err(faults.into_iter().map(invalid).collect()),
    }
}

/// Starts the export if the operator named a collector.
pub(super) fn start(config: &Config) -> Option<TraceExporter> {
    let node = config.cluster_url.as_ref().map(|_| node_name(config));
    // Faults of these settings were reported before.
    let options = TraceOptions::of(&config.traces, node.as_deref()).ok().flatten();
    let traces = options.map(TraceExporter::start).transpose().unwrap_or_else(|error| {
        tracing::error!(
            error = with_causes(&error),
            "traces are not sent; hint: check the system's certificates"
        );
        None
    });
    if traces.is_some() {
        tracing::info!("traces of turns are sent to a collector");
    }
    traces
}
