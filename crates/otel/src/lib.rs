//! Traces of turns for an OpenTelemetry collector (OTLP over HTTP, with protobuf).
//!
//! [`TraceExporter`] reads the events that observers get, so that a turn does not know of it. Its
//! parts:
//!
//! | module | content |
//! |---|---|
//! | `options` | the operator's settings, checked |
//! | [`names`] | all names of attributes, with the version of the conventions |
//! | `ids` | ids of traces and spans, which a restart does not change (pure) |
//! | `fold` | spans from the events of turns (pure) |
//! | `exporter` | the queue, and the task that sends batches |
//! | `collector` | the requests to the collector |
//!
//! `docs/tracing.md` explains what operators see. Tested here and in `tests/gateway/tracing.rs`.

mod collector;
mod exporter;
mod fold;
mod ids;
pub mod names;
mod options;

pub use exporter::TraceExporter;
pub use options::{TraceFault, TraceOptions};
