//! The cost of counting events, without and with a recorder of metrics.

use std::time::{Duration, Instant};

use aetheel_model::event::EventKind;
use aetheel_runtime::figures::{self, CallTimer, EventOutcome};
use divan::Bencher;
use metrics_exporter_prometheus::PrometheusBuilder;

/// Runs a bench without a recorder, and with one as behind `/metrics`.
fn with_recorder(bencher: Bencher, recorded: bool, act: impl Fn() + Sync) {
    if !recorded {
        return bencher.bench_local(act);
    }
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || bencher.bench_local(act));
}

/// Happens two or three times per event.
#[divan::bench(args = [false, true])]
fn an_event_is_counted(bencher: Bencher, recorded: bool) {
    with_recorder(bencher, recorded, || {
        figures::count_event(EventKind::Message, EventOutcome::Accepted)
    });
}

/// Happens once per turn in the program.
#[divan::bench(args = [false, true])]
fn a_turn_is_counted(bencher: Bencher, recorded: bool) {
    with_recorder(bencher, recorded, || {
        figures::turn_ended("claude", "completed", Duration::from_secs(3))
    });
}

/// Happens once per call of a guest. A turn has hundreds.
#[divan::bench(args = [false, true])]
fn a_call_is_measured(bencher: Bencher, recorded: bool) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let calls = if recorded {
        metrics::with_local_recorder(&recorder, || CallTimer::of("claude"))
    } else {
        CallTimer::of("claude")
    };
    let handle = recorder.handle();
    bencher.with_inputs(Instant::now).bench_local_values(|began| calls.ended(began));
    handle.run_upkeep();
}
