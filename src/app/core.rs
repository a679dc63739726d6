//! The parts of the gateway that exist during its recovery, its run and its shutdown.

use std::time::Duration;

use tokio::time::timeout;

use super::audit;
use super::cluster::ClusterNode;
use super::process::GatewayProcess;
use super::shutdown::{DELIVERY_GRACE, leave_agents, leave_holder};
use super::tool_server::ToolService;
use super::webhooks::WebhookService;
use crate::startup::DrainHandle;
use aetheel_dispatch::Dispatcher;
use aetheel_process::holder::HeldLauncher;
use aetheel_settings::Config;
use aetheel_store::workspace::Workspace;

/// Parts that exist from the first recovered event to the end.
pub(super) struct Core {
    pub(super) process: GatewayProcess,
    pub(super) config: Config,
    pub(super) dispatcher: Dispatcher,
    pub(super) workspace: Workspace,
    pub(super) webhooks: WebhookService,
    pub(super) drain: DrainHandle,
    pub(super) held: Option<HeldLauncher>,
    pub(super) node: Option<ClusterNode>,
    /// Answers agents until the program ends.
    pub(super) _tool_server: Option<ToolService>,
}

impl Core {
    /// Returns how long stopped turns may take to end and to deliver their answers.
    pub(super) fn stop_limit(&self) -> Duration {
        self.config.agents.stop_grace * 2 + DELIVERY_GRACE
    }

    /// Ends a gateway that has not read any prompt.
    pub(super) async fn abandon(self, code: u8) -> u8 {
        let stop_limit = self.stop_limit();
        let Self { dispatcher, drain, held, .. } = self;
        if held.as_ref().is_some_and(HeldLauncher::is_apart) {
            leave_agents(&dispatcher, drain, held, code).await;
        }
        let _ = timeout(stop_limit, dispatcher.shutdown(Duration::ZERO)).await;
        leave_holder(held).await;
        drain.close().await;
        audit::close("ended").await;
        code
    }
}
