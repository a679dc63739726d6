//! Settings of the export of traces, as the operator wrote them.

use secrecy::SecretString;

/// Where traces of turns are sent, and how. The crate `otel` checks the values, and only if there is
/// an endpoint, because platforms set some of these variables for all programs.
#[derive(Clone, Debug)]
pub struct TraceSettings {
    /// The address of the collector, or `None` for no traces.
    pub endpoint: Option<String>,
    /// Headers of each request, which may contain credentials.
    pub headers: Option<SecretString>,
    /// The transport, of which there is one.
    pub protocol: String,
    /// The name of this gateway in traces.
    pub service_name: String,
    /// Further attributes of this gateway.
    pub resource_attributes: String,
    /// The rule that selects the turns that get a trace.
    pub sampler: String,
    /// The part of all turns, for the sampler `traceidratio`.
    pub sampler_arg: String,
}
