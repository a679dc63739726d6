//! The responses to callers: a status, a line of JSON, and the time after which to retry.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::signature::SignatureFault;
use aetheel_dispatch::PromptRefusal;

/// The result of a valid call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WebhookOutcome {
    /// The event of the call is saved.
    Accepted,
    /// The same delivery was accepted before.
    Duplicate,
    /// The webhook does not accept events of this kind.
    Ignored,
}

/// The reason why a call was refused. `Display` is for the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum WebhookRefusal {
    #[error("there is nothing at this address")]
    NotFound,
    #[error("the method is not POST")]
    Method,
    #[error("the gateway is starting or stopping")]
    Closed,
    #[error("too many calls at the same time")]
    Busy,
    #[error("the body is compressed")]
    Encoded,
    #[error("the body is neither JSON nor a form nor text")]
    Type,
    #[error("the body is too large")]
    Large,
    #[error("the body came too slowly")]
    Slow,
    #[error("the body is incomplete")]
    Broken,
    #[error("there is no such webhook")]
    Unknown,
    #[error("{0}")]
    Unproven(#[from] SignatureFault),
    #[error("more calls than its limit")]
    Often(Duration),
    #[error("the same delivery is being processed")]
    Pending,
    #[error("the event was refused: {0}")]
    Queue(PromptRefusal),
}

impl WebhookOutcome {
    pub(super) fn response(self) -> Response {
        let (status, text) = match self {
            Self::Accepted => (StatusCode::ACCEPTED, "accepted"),
            Self::Duplicate => (StatusCode::OK, "duplicate"),
            Self::Ignored => (StatusCode::OK, "ignored"),
        };
        respond(status, json!({ "status": text }).to_string(), None)
    }
}

impl WebhookRefusal {
    pub(super) fn response(&self) -> Response {
        let (status, text, retry) = self.response_parts();
        let mut response = respond(status, json!({ "error": text }).to_string(), retry);
        if matches!(self, Self::Method) {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }

    /// Returns the status, a message, and the seconds after which a retry may succeed.
    fn response_parts(&self) -> (StatusCode, &'static str, Option<u64>) {
        match self {
            Self::NotFound => (StatusCode::NOT_FOUND, "not found", None),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "method not allowed", None),
            Self::Closed => (StatusCode::SERVICE_UNAVAILABLE, "starting or stopping", Some(30)),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy", Some(1)),
            Self::Encoded => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "compressed bodies are not accepted", None)
            }
            Self::Type => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be JSON, a form or text", None)
            }
            Self::Large => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large", None),
            Self::Slow => (StatusCode::REQUEST_TIMEOUT, "the body came too slowly", None),
            Self::Broken => (StatusCode::BAD_REQUEST, "the body is incomplete", None),
            // All authentication failures have the same answer, including unknown names.
            Self::Unknown | Self::Unproven(_) => (StatusCode::UNAUTHORIZED, "unauthorized", None),
            Self::Often(wait) => {
                (StatusCode::TOO_MANY_REQUESTS, "too many calls", Some(wait.as_secs() + 1))
            }
            Self::Pending => (StatusCode::CONFLICT, "this delivery is being processed", Some(1)),
            Self::Queue(PromptRefusal::TooLong { .. }) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large", None)
            }
            Self::Queue(PromptRefusal::NotSaved) => {
                (StatusCode::SERVICE_UNAVAILABLE, "not saved", Some(10))
            }
            Self::Queue(PromptRefusal::ShuttingDown) => {
                (StatusCode::SERVICE_UNAVAILABLE, "starting or stopping", Some(30))
            }
            Self::Queue(_) => (StatusCode::SERVICE_UNAVAILABLE, "the queue is full", Some(10)),
        }
    }

    /// The number of the HTTP status, for example 401.
    pub(super) fn status(&self) -> u16 {
        self.response_parts().0.as_u16()
    }
}

fn respond(status: StatusCode, mut body: String, retry: Option<u64>) -> Response {
    body.push('\n');
    // Each connection carries one request, because only the headers of the first one have a time
    // limit.
    let fixed = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CONNECTION, "close"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let mut response = (status, fixed, body).into_response();
    if let Some(seconds) = retry {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
