//! Everything that reads the events of turns: the observers of the backends folder, and the export
//! of traces.

use std::sync::Arc;

use super::traces::{self, TraceExporter};
use aetheel_model::observed::ObservedEvent;
use aetheel_settings::Config;
use aetheel_turn::TurnObservers;
use aetheel_wasm::ObserverSet;

/// Passes events to the observers, and to the export of traces if there is one.
pub(super) struct Observation {
    components: Arc<ObserverSet>,
    traces: Option<TraceExporter>,
}

impl Observation {
    /// Starts the export of traces if the operator named a collector.
    pub(super) fn start(components: Arc<ObserverSet>, config: &Config) -> Self {
        Self { components, traces: traces::start(config) }
    }

    /// Ends the observers, and sends the spans that wait. Takes at most two seconds for each.
    pub(super) async fn close(&self) {
        self.components.close().await;
        if let Some(traces) = &self.traces {
            traces.close().await;
        }
    }
}

impl TurnObservers for Observation {
    fn is_empty(&self) -> bool {
        self.traces.is_none() && self.components.is_empty()
    }

    fn notify(&self, event: &ObservedEvent) {
        self.components.notify(event);
        if let Some(traces) = &self.traces {
            traces.notify(event);
        }
    }

    fn restore(&self, event: &ObservedEvent) {
        if let Some(traces) = &self.traces {
            traces.restore(event);
        }
    }
}
