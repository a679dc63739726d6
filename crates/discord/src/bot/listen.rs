//! Makes the bot receive events.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

use super::Discord;
use super::listener::GatewayListener;
use crate::connection::gateway;
use crate::connection::gateway_sink::GatewaySink;
use crate::connection::permit::Permit;
use crate::connection::phase::ConnectionPhase;
use crate::connection::sharing::{ClusterSink, EventSharing};
use crate::inbound::probes::ProbeSender;
use crate::inbound::router::{EventRouter, RouterDeps};
use crate::inbound::{InboundProcessor, InboundQueue, IntakeState};
use crate::questions::OfferHandler;
use crate::setup::start_error::StartError;
use aetheel_dispatch::{ClusterChat as _, Dispatcher, LoginHistory};
use aetheel_model::id::ChannelId;
use aetheel_runtime::supervisor;

impl Discord {
    /// Logs in to the gateway and accepts prompts from then on. Returns when the bot is ready, and
    /// keeps trying while Discord is not reachable. Dropping the future disconnects. With
    /// `sharing`, it returns at once, processes the events of [`EventSharing::incoming`], and is
    /// logged in while this node is the leader.
    ///
    /// # Errors
    /// [`StartError`] if Discord refuses the bot.
    pub async fn listen(
        &self,
        dispatcher: Dispatcher,
        accept: Option<OfferHandler>,
        sharing: Option<EventSharing>,
    ) -> Result<GatewayListener, StartError> {
        let inner = Arc::clone(&self.inner);
        // Old questions are closed in a task of its own, because Discord may be slow and prompts
        // should not wait for that.
        supervisor::spawn_finite("old questions", async move {
            inner.questions.close_stale(&inner.api, inner.options.time_limits.send).await
        });
        let notes = Arc::clone(&self.inner.notes);
        let saving = supervisor::spawn("notes", async move { notes.keep_saving().await });
        let (arrivals, received) = mpsc::unbounded_channel();
        let phase = Arc::new(watch::channel(ConnectionPhase::Starting).0);
        let closing = Arc::<IntakeState>::default();
        let reception = InboundProcessor::new(
            Arc::clone(&self.inner),
            dispatcher.clone(),
            Arc::clone(&self.inbound.lookups),
            Arc::clone(&closing),
        );
        let reception = InboundQueue::new(reception, Arc::clone(&self.inbound.channel_queues));
        let reception = supervisor::spawn("reception", reception.run(received));
        let (stop, stopped) = oneshot::channel();
        let pulses = ProbeSender::new(arrivals.clone());
        let _ = self.inbound.events.set(arrivals.clone());
        let parts = RouterDeps {
            inner: Arc::clone(&self.inner),
            shared: Arc::clone(&self.inbound),
            services: dispatcher.clone(),
            accept,
            inbound: arrivals,
            runtime: Handle::current(),
        };
        let (sink, leader, logins, reader_task): (
            Arc<dyn GatewaySink>,
            _,
            Arc<dyn LoginHistory>,
            _,
        ) = match sharing {
            None => (Arc::new(parts), None, Arc::clone(&self.inner.notes) as _, None),
            Some(EventSharing { outgoing: out, incoming: from, leader, logins }) => {
                let base = &self.inner.options.settings.api_base;
                let reader = EventRouter::new(parts, Some(out.clone())).map_err(|error| {
                    StartError::Unreachable { base: base.clone(), why: error.to_string() }
                })?;
                phase.send_replace(ConnectionPhase::Ready);
                // The previous process may have ended before it had caught up with channels that
                // moved to this node. Only the leader logs in, so no login repeats that.
                let noted = self.inner.notes.channels().into_iter();
                self.catch_up(noted.map(|(id, _)| ChannelId::discord(id)).collect());
                let reader_task =
                    supervisor::spawn_finite("node events", reader.read_incoming(from));
                (Arc::new(ClusterSink::new(out)), Some(leader), logins, Some(reader_task))
            }
        };
        let permit = Permit::new(stopped, leader);
        self.connection.logs_in.store(permit.is_given(), Ordering::SeqCst);
        let gateway = supervisor::spawn_finite(
            "discord",
            gateway::keep_connected(
                Arc::clone(&self.connection),
                sink,
                logins,
                Arc::clone(&phase),
                permit,
            ),
        );
        let inner = Arc::clone(&self.inner);
        let listening = GatewayListener {
            phase,
            closing,
            stop: Some(stop),
            gateway: Some(gateway),
            incoming: reader_task,
            reception,
            saving,
            probe_sender: pulses,
            inner,
        };
        match listening.wait_for_phase(|phase| !matches!(phase, ConnectionPhase::Starting)).await {
            ConnectionPhase::Failed(error) => Err(error),
            ConnectionPhase::Starting | ConnectionPhase::Ready => Ok(listening),
        }
    }
}
