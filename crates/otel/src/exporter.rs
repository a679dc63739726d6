//! The queue of spans, and the task that sends them in batches. A turn never waits for it: spans
//! that find the queue full, or that the collector does not take, are lost and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aetheel_model::observed::ObservedEvent;
use aetheel_turn::TurnObservers;
use opentelemetry_sdk::trace::SpanData;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::collector::{Collector, CollectorError};
use crate::fold::TracedTurns;
use crate::ids;
use crate::options::TraceOptions;

/// Maximum number of spans that wait for the collector.
const QUEUE: usize = 2_048;
const MAX_BATCH: usize = 512;
/// How long a span waits for others before it is sent.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// Delays before a batch is sent again after a temporary error.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];
/// Minimum time between two warnings about lost spans.
const WARN_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum time for the last spans when the gateway ends.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// Sends traces of turns to a collector.
pub struct TraceExporter {
    options: TraceOptions,
    turns: Mutex<TracedTurns>,
    /// `None` after the exporter was closed.
    queue: Mutex<Option<mpsc::Sender<SpanData>>>,
    counts: Arc<SpanCounts>,
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct SpanCounts {
    /// Spans that were queued, and not sent or given up yet.
    waiting: AtomicU64,
    /// Spans that found the queue full, until a warning names them.
    overflow: AtomicU64,
}

impl TraceExporter {
    /// Starts the task that sends spans. Must be called in a Tokio runtime. Connects only when
    /// there are spans.
    ///
    /// # Errors
    /// The certificates of the system cannot be read.
    pub fn start(options: TraceOptions) -> Result<Self, reqwest::Error> {
        let collector = Collector::new(&options)?;
        let (queue, spans) = mpsc::channel(QUEUE);
        let counts = Arc::<SpanCounts>::default();
        let losses =
            SpanLosses { counts: Arc::clone(&counts), lost: 0, problem: None, warned: None };
        let task = tokio::spawn(run(collector, spans, losses));
        Ok(Self {
            options,
            turns: Mutex::new(TracedTurns::new()),
            queue: Mutex::new(Some(queue)),
            counts,
            task: Mutex::new(Some(task)),
        })
    }

    /// Sends the spans that wait, for at most two seconds. Spans of later events are dropped.
    pub async fn close(&self) {
        drop(self.queue.lock().take());
        let Some(mut task) = self.task.lock().take() else { return };
        if timeout(CLOSE_TIME, &mut task).await.is_err() {
            task.abort();
            let lost = self.counts.waiting.load(Ordering::Relaxed);
            tracing::warn!(
                lost,
                "the collector of traces does not respond; the last spans are lost"
            );
        }
    }
}

impl TurnObservers for TraceExporter {
    fn is_empty(&self) -> bool {
        false
    }

    fn notify(&self, event: &ObservedEvent) {
        if !self.options.samples(ids::trace_id(&event.turn)) {
            return;
        }
        let Some(span) = self.turns.lock().add(event) else { return };
        if let Some(queue) = &*self.queue.lock() {
            self.counts.waiting.fetch_add(1, Ordering::Relaxed);
            if queue.try_send(span).is_err() {
                self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
                self.counts.overflow.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn restore(&self, event: &ObservedEvent) {
        if self.options.samples(ids::trace_id(&event.turn)) {
            // The previous process has sent the spans that ended there.
            self.turns.lock().add(event);
        }
    }
}

/// Counts lost spans and reports them.
struct SpanLosses {
    counts: Arc<SpanCounts>,
    /// Number of spans lost since the last warning.
    lost: u64,
    problem: Option<String>,
    /// When the last warning was logged, until spans arrive again.
    warned: Option<Instant>,
}

impl SpanLosses {
    /// Notes that a batch of `count` spans is done, of which `lost` did not arrive.
    fn settle(&mut self, count: usize, lost: u64, problem: Option<String>) {
        self.counts.waiting.fetch_sub(count as u64, Ordering::Relaxed);
        let overflow = self.counts.overflow.swap(0, Ordering::Relaxed);
        self.lost += lost + overflow;
        self.problem = problem.or_else(|| (overflow > 0).then(|| "too many spans".to_owned()));
        if let Some(problem) = &self.problem {
            if self.warned.is_none_or(|warned| warned.elapsed() >= WARN_INTERVAL) {
                tracing::warn!(
                    lost = std::mem::take(&mut self.lost),
                    problem,
                    "spans were lost on the way to the collector of traces; hint: check OTEL_EXPORTER_OTLP_ENDPOINT, and that the collector runs and takes OTLP over HTTP"
                );
                self.warned = Some(Instant::now());
            }
        } else if self.warned.take().is_some() {
            let lost = std::mem::take(&mut self.lost);
            tracing::info!(lost, "the collector of traces takes spans again");
        }
    }
}

/// Sends batches until the queue is closed and empty.
async fn run(collector: Collector, mut spans: mpsc::Receiver<SpanData>, mut losses: SpanLosses) {
    while let Some(first) = spans.recv().await {
        let mut batch = vec![first];
        let due = Instant::now() + BATCH_TIME;
        while batch.len() < MAX_BATCH
            && let Ok(Some(span)) = timeout_at(due, spans.recv()).await
        {
            batch.push(span);
        }
        let count = batch.len();
        let body = collector.body(batch);
        let mut sent = collector.send(body.clone()).await;
        for delay in RETRY_DELAYS {
            let is_temporary = sent.as_ref().is_err_and(CollectorError::is_temporary);
            // At the end of the gateway there is no time for another attempt.
            if !is_temporary || spans.is_closed() {
                break;
            }
            sleep(delay).await;
            sent = collector.send(body.clone()).await;
        }
        match sent {
            Ok(receipt) if receipt.rejected == 0 => losses.settle(count, 0, None),
            Ok(receipt) => {
                let problem = format!("the collector rejected them: {}", receipt.message);
                losses.settle(count, receipt.rejected.min(count as u64), Some(problem));
            }
            Err(error) => losses.settle(count, count as u64, Some(error.to_string())),
        }
    }
}
