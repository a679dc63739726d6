//! Requests to the collector.

use std::time::Duration;

use aetheel_model::plain::{short_line, with_causes};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::trace::SpanData;
use prost::Message as _;
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode, Url};

use crate::options::TraceOptions;

const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Maximum size of an answer, in bytes.
const ANSWER_LIMIT: usize = 64 << 10;
/// Maximum length of a message of the collector in the log, in characters.
const MESSAGE_LIMIT: usize = 200;

/// The reason why spans did not arrive.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectorError {
    /// The collector cannot be reached, or does not answer in time.
    #[error("{0}")]
    Unreachable(String),
    #[error("the collector answers with status {0}")]
    Status(StatusCode),
}

impl CollectorError {
    /// Returns whether the same request may succeed later, according to the specification of OTLP.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Status(status) => matches!(status.as_u16(), 429 | 502 | 503 | 504),
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchReceipt {
    pub(crate) rejected: u64,
    pub(crate) message: String,
}

pub(crate) struct Collector {
    client: Client,
    address: Url,
    resource: ResourceAttributesWithSchema,
}

impl Collector {
    /// Prepares the requests. Connects to nothing.
    ///
    /// # Errors
    /// The certificates of the system cannot be read.
    pub(crate) fn new(options: &TraceOptions) -> Result<Self, reqwest::Error> {
        let client = Client::builder()
            .timeout(REQUEST_LIMIT)
            // A redirect would send the headers to another place.
            .redirect(Policy::none())
            .user_agent(concat!("aetheel/", env!("CARGO_PKG_VERSION")))
            .default_headers(options.headers())
            .build()?;
        Ok(Self { client, address: options.address.clone(), resource: (&options.resource).into() })
    }

    pub(crate) fn body(&self, batch: Vec<SpanData>) -> Vec<u8> {
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }

    /// Sends the body of a request.
    ///
    /// # Errors
    /// [`CollectorError`], without the address and the headers.
    pub(crate) async fn send(&self, body: Vec<u8>) -> Result<BatchReceipt, CollectorError> {
        let unreachable =
            |error: reqwest::Error| CollectorError::Unreachable(with_causes(&error.without_url()));
        let request = self.client.post(self.address.clone());
        let request = request.header(CONTENT_TYPE, "application/x-protobuf").body(body);
        let mut response = request.send().await.map_err(unreachable)?;
        if !response.status().is_success() {
            return Err(CollectorError::Status(response.status()));
        }
        let mut answer = Vec::new();
        while let Ok(Some(piece)) = response.chunk().await {
            if answer.len() + piece.len() > ANSWER_LIMIT {
                // The status says that the spans arrived.
                return Ok(BatchReceipt::default());
            }
            answer.extend_from_slice(&piece);
        }
        Ok(receipt(&answer))
    }
}

/// Reads the answer to a batch. An answer that cannot be read counts as success, as its status says.
fn receipt(answer: &[u8]) -> BatchReceipt {
    let partial = ExportTraceServiceResponse::decode(answer).ok();
    let partial = partial.and_then(|answer| answer.partial_success);
    partial.map_or_else(BatchReceipt::default, |partial| BatchReceipt {
        rejected: u64::try_from(partial.rejected_spans).unwrap_or(0),
        message: short_line(&partial.error_message, MESSAGE_LIMIT),
    })
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    use super::*;

    #[test]
    fn rejected_spans_are_counted_and_the_reason_is_one_plain_line() {
        let partial = ExportTracePartialSuccess {
            rejected_spans: 3,
            error_message: "too\nold\u{1b}[2J".to_owned(),
        };
        let answer = ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec();
        assert_eq!(receipt(&answer), BatchReceipt { rejected: 3, message: "too old".to_owned() });
        assert_eq!(receipt(b""), BatchReceipt::default());
        assert_eq!(receipt(b"<html>"), BatchReceipt::default());
    }

    #[test]
    fn only_errors_that_may_end_are_temporary() {
        let temporary = |status| {
            CollectorError::Status(StatusCode::from_u16(status).expect("a status")).is_temporary()
        };
        assert!(temporary(503) && temporary(429));
        assert!(!temporary(500) && !temporary(401) && !temporary(302));
        assert!(CollectorError::Unreachable(String::new()).is_temporary());
    }
}
