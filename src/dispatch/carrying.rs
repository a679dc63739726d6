//! Carrying answers to people, for as long as that takes, while lanes and slots go on.
//!
//! An outlet that cannot deliver now waits until it can, with the answers of one place in their
//! order. Here nobody waits for it longer than a moment: the turn is over, and its lane takes up
//! the next event. When the program ends, what is still on its way stays in the journal, and the
//! next life carries it on.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument as _;

use super::Inner;
use super::keeping::Kept;
use super::reply::{Answer, DeliveryError, Notice, Reply};
use super::stage::Stage;
use crate::event::Event;
use crate::figures::{self, Outcome};
use crate::workspace::LostState;

/// A lane is held so long for its answer.
const MOMENT: Duration = Duration::from_secs(10);

impl Inner {
    /// Does something that may take for ever, and returns what came of it; none: it takes longer
    /// than a moment and goes on by itself, until the program ends.
    pub(super) async fn carry<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let mut leaving = self.leaving.subscribe();
        let task = async move {
            tokio::select! {
                biased;
                done = work => Some(done),
                // Its sender outlives all tasks.
                _ = leaving.wait_for(|leaving| *leaving) => None,
            }
        };
        match tokio::time::timeout(MOMENT, self.tasks.spawn(task.in_current_span())).await {
            Ok(Ok(done)) => done,
            Ok(Err(broken)) if broken.is_panic() => std::panic::resume_unwind(broken.into_panic()),
            Ok(Err(_)) | Err(_) => None,
        }
    }

    /// Delivers an answer and checks its event off. Returns once that is done, or goes on by itself
    /// after a moment.
    pub(super) async fn deliver(
        self: &Arc<Self>,
        event: &Event,
        kept: &Kept,
        stage: &Stage,
        answer: Answer,
    ) {
        let Some(reply) = stage.take() else { return };
        let (inner, event, kept) = (Arc::clone(self), event.clone(), kept.clone());
        if self
            .carry(async move { inner.see_delivered(&event, &kept, reply, answer).await })
            .await
            .is_none()
        {
            tracing::warn!(
                "the answer is not delivered yet; it is as soon as it can be, and its lane goes on"
            );
        }
    }

    async fn see_delivered(
        &self,
        event: &Event,
        kept: &Kept,
        reply: Box<dyn Reply>,
        answer: Answer,
    ) {
        let offer = answer.offer.clone();
        match reply.finish(answer).await {
            Ok(()) => {
                self.told(event, offer.as_ref()).await;
                figures::event(event.kind, Outcome::Delivered);
                tracing::info!("answer delivered");
                self.recovered(event, LostState::Delivered).await;
                self.check_off(event);
            }
            Err(error @ DeliveryError::Later(_)) => {
                tracing::warn!(%error, "the answer is kept for the next start")
            }
            // Another version may deliver it; then, once more, and not for ever.
            Err(error @ DeliveryError::Refused(_)) if kept.has_another_try() => {
                figures::event(event.kind, Outcome::Undelivered);
                tracing::error!(%error, "the answer was not delivered; it is kept and tried once more after the next start");
            }
            Err(error) => {
                figures::event(event.kind, Outcome::Undelivered);
                tracing::error!(%error, "the answer was not delivered; it is in the recording");
                if matches!(error, DeliveryError::Gone(_)) {
                    let text = format!(
                        "The answer to event {} of {} has no place any more: its channel is gone. The recording of its turn has it.",
                        event.sequence, event.lane
                    );
                    // Where there is no such channel, the log has told.
                    let _ = self
                        .parts
                        .outlet
                        .notify(Notice { channel: None, about: None, text, offer: None })
                        .await;
                }
                self.recovered(event, LostState::GivenUp).await;
                self.check_off(event);
            }
        }
    }

    /// Delivers something that nobody keeps, or gives it up when the program ends. `what` is for
    /// the log.
    pub(super) async fn tell(&self, reply: Box<dyn Reply>, answer: Answer, what: &'static str) {
        let told = async move {
            if let Err(error) = reply.finish(answer).await {
                tracing::warn!(%error, "{what} was not delivered");
            }
        };
        self.carry(told).await;
    }
}
