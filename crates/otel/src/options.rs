//! The settings of the export, checked. They are checked only if there is an endpoint.

use aetheel_model::traces::TraceSettings;
use opentelemetry::KeyValue;
use opentelemetry::trace::TraceId;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, ShouldSample as _};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};

const TRACES_PATH: &str = "/v1/traces";

/// A setting that cannot be used. Contains no value of `OTEL_EXPORTER_OTLP_HEADERS`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceFault {
    /// The endpoint is not an address of a collector.
    #[error("OTEL_EXPORTER_OTLP_ENDPOINT must be an address such as `http://127.0.0.1:4318`: {0}")]
    Endpoint(String),
    /// The endpoint contains a name or a password.
    #[error(
        "OTEL_EXPORTER_OTLP_ENDPOINT must not contain credentials; hint: use OTEL_EXPORTER_OTLP_HEADERS"
    )]
    Credentials,
    /// The protocol is another one.
    #[error(
        "OTEL_EXPORTER_OTLP_PROTOCOL {0:?} must be `http/protobuf`; hint: collectors receive it at port 4318"
    )]
    Protocol(String),
    /// A header cannot be sent.
    #[error(
        "OTEL_EXPORTER_OTLP_HEADERS: part {0} is not NAME=VALUE of an HTTP header; hint: write `%20` for a blank and `%2C` for a comma"
    )]
    Header(usize),
    /// A resource attribute is not a pair.
    #[error("OTEL_RESOURCE_ATTRIBUTES: {0:?} is not NAME=VALUE")]
    Attribute(String),
    /// The sampler is unknown.
    #[error(
        "OTEL_TRACES_SAMPLER {0:?} must be one of `always_on`, `always_off`, `traceidratio`, or one of them after `parentbased_`"
    )]
    Sampler(String),
    /// The part of turns is not a number from 0 to 1.
    #[error("OTEL_TRACES_SAMPLER_ARG {0:?} must be a number from 0 to 1")]
    Share(String),
}

/// The address of the collector, the headers for it, and the attributes of this gateway.
#[derive(Clone)]
pub struct TraceOptions {
    pub(crate) address: Url,
    headers: Vec<(HeaderName, SecretString)>,
    pub(crate) resource: Resource,
    sampler: Sampler,
}

impl TraceOptions {
    /// Checks the settings. Returns `None` without an endpoint. `node` is the name of this machine
    /// in its cluster.
    ///
    /// # Errors
    /// All settings that cannot be used.
    pub fn of(
        settings: &TraceSettings,
        node: Option<&str>,
    ) -> Result<Option<Self>, Vec<TraceFault>> {
        let Some(endpoint) = &settings.endpoint else { return Ok(None) };
        let mut faults = Vec::new();
        let mut keep = |fault| faults.push(fault);
        let address = address(endpoint).map_err(&mut keep).ok();
        if settings.protocol != "http/protobuf" {
            keep(TraceFault::Protocol(settings.protocol.clone()));
        }
        let headers = settings.headers.as_ref().map_or("", |headers| headers.expose_secret());
        let headers = self::headers(headers).map_err(&mut keep).unwrap_or_default();
        let attributes = attributes(&settings.resource_attributes);
        let attributes = attributes.map_err(&mut keep).unwrap_or_default();
        let sampler = sampler(&settings.sampler, &settings.sampler_arg);
        let sampler = sampler.map_err(&mut keep).unwrap_or(Sampler::AlwaysOff);
        let Some(address) = address.filter(|_| faults.is_empty()) else { return Err(faults) };
        let mut resource = Resource::builder_empty()
            .with_attributes([
                KeyValue::new("service.name", settings.service_name.clone()),
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            ])
            .with_attributes(node.map(|node| KeyValue::new("service.instance.id", node.to_owned())))
            .with_attributes(attributes.iter().cloned());
        if settings.service_name != "aetheel" {
            // The more special variable takes precedence over `service.name` in the list.
            resource = resource.with_service_name(settings.service_name.clone());
        }
        Ok(Some(Self { address, headers, resource: resource.build(), sampler }))
    }

    /// Returns the texts that must be hidden in all output: the values of headers, and their parts,
    /// because the token after `Bearer` is a secret too.
    pub fn secrets(&self) -> impl Iterator<Item = SecretString> {
        self.headers.iter().flat_map(|(_, value)| {
            let value = value.expose_secret();
            let parts = value.split_whitespace().skip(1);
            std::iter::once(value).chain(parts).map(SecretString::from)
        })
    }

    /// Returns the headers of a request. Their values are left out of debug output.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            if let Ok(mut value) = HeaderValue::from_str(value.expose_secret()) {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        headers
    }

    /// Returns whether a trace is sent. Depends on its id alone, so that all spans of a turn agree.
    pub(crate) fn samples(&self, trace: TraceId) -> bool {
        let kind = &opentelemetry::trace::SpanKind::Internal;
        let result = self.sampler.should_sample(None, trace, "", kind, &[], &[]);
        result.decision == SamplingDecision::RecordAndSample
    }
}

fn address(endpoint: &str) -> Result<Url, TraceFault> {
    let base = endpoint.trim_end_matches('/');
    let address = Url::parse(&format!("{base}{TRACES_PATH}"));
    let address = address.map_err(|error| TraceFault::Endpoint(error.to_string()))?;
    if !matches!(address.scheme(), "http" | "https") {
        return Err(TraceFault::Endpoint("it must begin with http:// or https://".to_owned()));
    }
    if !address.username().is_empty() || address.password().is_some() {
        return Err(TraceFault::Credentials);
    }
    if address.query().is_some() || address.fragment().is_some() {
        return Err(TraceFault::Endpoint("it must end with the path".to_owned()));
    }
    Ok(address)
}

fn headers(text: &str) -> Result<Vec<(HeaderName, SecretString)>, TraceFault> {
    let parts = text.split(',').enumerate().filter(|(_, part)| !part.trim().is_empty());
    let pairs = parts.map(|(index, part)| {
        let pair = part.split_once('=').and_then(|(name, value)| {
            let value = decoded(value.trim())?;
            HeaderValue::from_str(&value).ok()?;
            Some((name.trim().parse().ok()?, SecretString::from(value)))
        });
        pair.ok_or(TraceFault::Header(index + 1))
    });
    pairs.collect()
}

fn attributes(text: &str) -> Result<Vec<KeyValue>, TraceFault> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let pairs = parts.map(|part| {
        let pair = part.split_once('=').filter(|(name, _)| !name.trim().is_empty());
        let pair = pair.and_then(|(name, value)| {
            Some(KeyValue::new(name.trim().to_owned(), decoded(value.trim())?))
        });
        pair.ok_or_else(|| TraceFault::Attribute(part.to_owned()))
    });
    pairs.collect()
}

fn sampler(name: &str, share: &str) -> Result<Sampler, TraceFault> {
    match name.strip_prefix("parentbased_").unwrap_or(name) {
        "always_on" => Ok(Sampler::AlwaysOn),
        "always_off" => Ok(Sampler::AlwaysOff),
        "traceidratio" => {
            let part = share.parse().ok().filter(|part| (0.0..=1.0).contains(part));
            let part: f64 = part.ok_or_else(|| TraceFault::Share(share.to_owned()))?;
            Ok(Sampler::TraceIdRatioBased(part))
        }
        _ => Err(TraceFault::Sampler(name.to_owned())),
    }
}

/// Replaces `%20` and the like. Returns `None` if the result is not text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(values: &[(&str, &str)]) -> TraceSettings {
        let value = |name: &str| {
            let value = values.iter().find(|(known, _)| *known == name);
            value.map(|(_, value)| (*value).to_owned())
        };
        let or = |name: &str, default: &str| value(name).unwrap_or_else(|| default.to_owned());
        TraceSettings {
            endpoint: value("OTEL_EXPORTER_OTLP_ENDPOINT"),
            headers: value("OTEL_EXPORTER_OTLP_HEADERS").map(SecretString::from),
            protocol: or("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            service_name: or("OTEL_SERVICE_NAME", "aetheel"),
            resource_attributes: or("OTEL_RESOURCE_ATTRIBUTES", ""),
            sampler: or("OTEL_TRACES_SAMPLER", "always_on"),
            sampler_arg: or("OTEL_TRACES_SAMPLER_ARG", "1.0"),
        }
    }

    fn faults(values: &[(&str, &str)]) -> Vec<TraceFault> {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        let all = [&[endpoint], values].concat();
        TraceOptions::of(&settings(&all), None).err().unwrap_or_default()
    }

    fn options(values: &[(&str, &str)]) -> TraceOptions {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector.example/base/");
        let all = [&[endpoint], values].concat();
        TraceOptions::of(&settings(&all), Some("node-1")).expect("valid").expect("an endpoint")
    }

    #[test]
    fn without_an_endpoint_nothing_is_checked() {
        let strange = settings(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
        assert!(TraceOptions::of(&strange, None).expect("no faults").is_none());
    }

    #[test]
    fn all_faults_are_found_and_none_shows_a_header() {
        let found = faults(&[
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=canary-1,canary-2"),
            ("OTEL_RESOURCE_ATTRIBUTES", "team"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ]);
        assert_eq!(
            found,
            [
                TraceFault::Protocol("grpc".into()),
                TraceFault::Header(2),
                TraceFault::Attribute("team".into()),
                TraceFault::Sampler("jaeger_remote".into()),
            ]
        );
        for (value, is_credentials) in
            [("collector:4318", false), ("ftp://x", false), ("http://u:canary@x", true)]
        {
            let setting = settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", value)]);
            let found = TraceOptions::of(&setting, None).err().unwrap_or_default();
            assert_eq!(found == [TraceFault::Credentials], is_credentials, "{found:?}");
            assert!(found.len() == 1 && !format!("{found:?}").contains("canary"), "{found:?}");
        }
        for share in ["2", "-1", "x", "NaN"] {
            let found = faults(&[
                ("OTEL_TRACES_SAMPLER", "traceidratio"),
                ("OTEL_TRACES_SAMPLER_ARG", share),
            ]);
            assert_eq!(found, [TraceFault::Share(share.into())]);
        }
    }

    #[test]
    fn headers_are_decoded_sent_and_hidden() {
        let options = options(&[(
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20canary-token,x-team= blue ",
        )]);
        let headers = options.headers();
        assert_eq!(headers["authorization"], "Bearer canary-token");
        assert_eq!(headers["x-team"], "blue");
        assert!(!format!("{headers:?}").contains("canary"));
        let hidden: Vec<String> =
            options.secrets().map(|secret| secret.expose_secret().to_owned()).collect();
        assert_eq!(hidden, ["Bearer canary-token", "canary-token", "blue"]);
        assert_eq!(options.address.as_str(), "https://collector.example/base/v1/traces");
    }

    #[test]
    fn a_share_of_the_traces_is_sampled_and_each_decision_is_repeatable() {
        let half = options(&[
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
        ]);
        let ids = (0..1_000_u64).map(|number| {
            let turn = aetheel_model::observed::ObservedTurn {
                turn: format!("{number:08x}"),
                lane: "channel:1".to_owned(),
                backend: "demo".to_owned(),
            };
            crate::ids::trace_id(&turn)
        });
        let sampled = ids.clone().filter(|id| half.samples(*id)).count();
        assert!((400..600).contains(&sampled), "{sampled}");
        assert!(ids.clone().all(|id| half.samples(id) == half.samples(id)));
        let none = options(&[("OTEL_TRACES_SAMPLER", "always_off")]);
        assert!(!ids.clone().any(|id| none.samples(id)));
    }

    #[test]
    fn the_resource_names_the_gateway_and_its_machine() {
        let named = options(&[
            ("OTEL_SERVICE_NAME", "team-bot"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other, deployment.environment.name=a%20b"),
        ]);
        let value = |name: &'static str| {
            named.resource.get(&name.into()).map(|value| value.to_string()).unwrap_or_default()
        };
        assert_eq!(value("service.name"), "team-bot");
        assert_eq!(value("service.instance.id"), "node-1");
        assert_eq!(value("deployment.environment.name"), "a b");
    }
}
