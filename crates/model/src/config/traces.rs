//! Settings of the export of traces. Their names are those of OpenTelemetry. The crate `otel` checks
//! the values, and only if there is an endpoint: platforms set some of these variables for all
//! programs.

use secrecy::SecretString;

use super::table::settings;

settings! {
    /// Where traces of turns are sent, and how. The values are as the operator wrote them.
    #[derive(Clone, Debug)]
    pub struct TraceSettings {
        /// The address of the collector, or `None` for no traces.
        endpoint: Option<String> = "OTEL_EXPORTER_OTLP_ENDPOINT", "", trimmed(),
            "Address of an OpenTelemetry collector that gets traces of turns, for example `http://127.0.0.1:4318`. Without it, no traces, and the other `OTEL_…` variables have no effect";
        /// Headers of each request, which may contain credentials.
        headers: Option<SecretString> = "OTEL_EXPORTER_OTLP_HEADERS", "", secret(),
            "Headers for the collector, as `NAME=VALUE`, separated by commas, with special characters as `%2C`. A secret, never given to an agent";
        /// The transport, of which there is one.
        protocol: String = "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", text(),
            advanced "Protocol of the collector; only `http/protobuf`";
        /// The name of this gateway in traces.
        service_name: String = "OTEL_SERVICE_NAME", "aetheel", text(),
            "Name of this gateway in traces";
        /// Further attributes of this gateway.
        resource_attributes: String = "OTEL_RESOURCE_ATTRIBUTES", "", text(),
            "Further attributes of this gateway in traces, as `NAME=VALUE`, separated by commas, for example `deployment.environment.name=staging`";
        /// The rule that selects the turns that get a trace.
        sampler: String = "OTEL_TRACES_SAMPLER", "always_on", text(),
            "Which turns get a trace: `always_on`, `always_off` or `traceidratio`; with `parentbased_` before it the same, because turns have no parent";
        /// The part of all turns, for the sampler `traceidratio`.
        sampler_arg: String = "OTEL_TRACES_SAMPLER_ARG", "1.0", text(),
            "Part of all turns that get a trace with `traceidratio`, from 0 to 1";
    }
}
