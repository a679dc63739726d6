//! Hands each build to the running gateway, which serves it in one channel. Tested by
//! `tests/gateway/rollout.rs`.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

use aetheel::commands::kit::KitError;
use aetheel::startup::running::gateway_of;
use aetheel::terminal::{self, OutputStyle};
use aetheel_model::id::ChannelId;
use aetheel_model::plain::with_causes;
use aetheel_settings::Config;
use aetheel_store::workspace::{LiveAnswer, LiveFolder, LiveHandover, component_digest};

/// How long the gateway may take to load a build.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
const ANSWER_INTERVAL: Duration = Duration::from_millis(25);

/// The channel that the builds serve. Dropping it withdraws the last one.
pub(super) struct LiveChannel {
    channel: ChannelId,
    folder: LiveFolder,
    /// The builds that were handed over, with the name of their backend.
    handover: Option<(String, LiveHandover)>,
}

impl LiveChannel {
    pub(super) fn new(config: &Config, channel: ChannelId) -> Self {
        Self { channel, folder: LiveFolder::new(&config.config_dir), handover: None }
    }

    /// Hands a build over, and prints the gateway's answer.
    ///
    /// # Errors
    /// The build cannot be handed over.
    pub(super) async fn serve(
        &mut self,
        config: &Config,
        backend: &str,
        component: &Path,
    ) -> Result<(), KitError> {
        let (page, start) = (OutputStyle::for_stdout(), Instant::now());
        let failed = |error: &dyn std::error::Error| KitError::failed(with_causes(error));
        let handover = self.handover_of(backend)?;
        let bytes = std::fs::read(component).map_err(|error| {
            KitError::failed(format!("cannot read {}: {error}", component.display()))
        })?;
        let digest = component_digest(&bytes);
        handover.put(&bytes).map_err(|error| failed(&error))?;
        if gateway_of(config).is_none() {
            terminal::line(&page.bold("live: no gateway runs here; it serves once one is started"));
            return Ok(());
        }
        while start.elapsed() < ANSWER_LIMIT {
            if let Some(answer) = handover.answer(&digest) {
                let took = page.dim(&format!("after {}", terminal::time(start.elapsed())));
                let channel = self.channel;
                terminal::line(&match answer {
                    LiveAnswer::Serves => {
                        format!(
                            "{} {took}",
                            page.good(&format!("live: it serves channel {channel}"))
                        )
                    }
                    LiveAnswer::Refused(reason) => {
                        page.bad(&format!("live: the gateway refuses it: {reason}"))
                    }
                });
                return Ok(());
            }
            tokio::time::sleep(ANSWER_INTERVAL).await;
        }
        terminal::line(&page.bad("live: the gateway does not answer; its log may have the reason"));
        Ok(())
    }

    fn handover_of(&mut self, backend: &str) -> Result<&LiveHandover, KitError> {
        if self.handover.as_ref().is_none_or(|(name, _)| name != backend) {
            // Withdraws the build of a backend with another name.
            self.handover = None;
            let handover = self.folder.begin(backend, self.channel);
            let handover = handover.map_err(|error| KitError::failed(with_causes(&error)))?;
            let handover = handover.ok_or_else(|| {
                KitError::failed(format!(
                    "another `aetheel backend dev --live` serves `{backend}` in channel {}",
                    self.channel
                ))
            })?;
            self.handover = Some((backend.to_owned(), handover));
        }
        let (_, handover) = self.handover.as_ref().expect("it was set above");
        Ok(handover)
    }
}

/// The signals that end the command, so that the last build is withdrawn first.
pub(super) struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl EndSignals {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system refuses it.
    pub(super) fn listen() -> Result<Self, KitError> {
        let on = |kind| {
            signal(kind)
                .map_err(|error| KitError::failed(format!("cannot listen for signals: {error}")))
        };
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hangup: on(SignalKind::hangup())?,
        })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
