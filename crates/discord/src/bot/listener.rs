//! A bot that is connected and receives events.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use crate::connection::phase::ConnectionPhase;
use crate::delivery::context::BotContext;
use crate::inbound::IntakeState;
use crate::inbound::probes::ProbeSender;
use crate::setup::start_error::StartError;

/// A bot that receives events. Dropping it disconnects without waiting.
pub struct GatewayListener {
    pub(crate) phase: Arc<watch::Sender<ConnectionPhase>>,
    pub(crate) closing: Arc<IntakeState>,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) gateway: Option<JoinHandle<()>>,
    /// The task that processes the events from other nodes.
    pub(crate) incoming: Option<JoinHandle<()>>,
    pub(crate) reception: JoinHandle<()>,
    pub(crate) saving: JoinHandle<()>,
    pub(crate) probe_sender: ProbeSender,
    pub(crate) inner: Arc<BotContext>,
}

impl GatewayListener {
    /// Returns the sender of health probes.
    #[must_use]
    pub fn pulses(&self) -> ProbeSender {
        self.probe_sender.clone()
    }

    /// Stops accepting prompts, which the next process will find, and refuses commands. The authors
    /// of these prompts get a notice, unless `silently` is set because the next process follows at
    /// once. Can be called again to change `silently`.
    pub fn stop_intake(&self, silently: bool) {
        self.closing.close(silently);
    }

    /// Resolves when Discord refuses the bot permanently, because of a revoked token or refused
    /// intents.
    pub async fn failed(&self) -> StartError {
        match self.wait_for_phase(|phase| matches!(phase, ConnectionPhase::Failed(_))).await {
            ConnectionPhase::Failed(error) => error,
            ConnectionPhase::Starting | ConnectionPhase::Ready => std::future::pending().await,
        }
    }

    /// Removes the marks of prompts that still wait, disconnects, and saves the notes. Removing
    /// marks and disconnecting take at most five seconds each, even during a reconnect.
    pub async fn close(mut self) {
        if !self.closing.is_closed() {
            self.stop_intake(false);
        }
        let BotContext { queue_markers: waiting, api, identity, .. } = &*self.inner;
        if tokio::time::timeout(
            Duration::from_secs(5),
            waiting.clear_all(api, identity.application),
        )
        .await
        .is_err()
        {
            debug!("could not remove all marks of waiting prompts from discord in time");
        }
        self.stop.take();
        if let Some(gateway) = self.gateway.take()
            && tokio::time::timeout(Duration::from_secs(5), gateway).await.is_err()
        {
            warn!("the discord connection did not close in time");
        }
        self.saving.abort();
        self.inner.notes.save().await;
    }

    pub(crate) async fn wait_for_phase(
        &self,
        wanted: impl Fn(&ConnectionPhase) -> bool,
    ) -> ConnectionPhase {
        let mut phase = self.phase.subscribe();
        // This cannot fail, because the sender is in `self`.
        phase
            .wait_for(|phase| wanted(phase))
            .await
            .map_or(ConnectionPhase::Starting, |phase| phase.clone())
    }
}

impl Drop for GatewayListener {
    fn drop(&mut self) {
        // The gateway task notices that its stop signal is gone. Events that it already received
        // are not processed any more.
        if let Some(incoming) = &self.incoming {
            incoming.abort();
        }
        self.reception.abort();
        self.saving.abort();
    }
}
