//! `aetheel run`: connects Discord to the agents until a signal arrives.

pub mod audit;
mod budgets;
#[cfg_attr(not(feature = "cluster"), path = "cluster_absent.rs")]
mod cluster;
mod core;
#[cfg_attr(not(feature = "dashboard"), path = "dashboard_absent.rs")]
mod dashboard;
mod gateway;
pub mod health;
mod hooks;
mod leader_schedules;
pub mod liveness;
mod mending;
mod phase;
mod process;
pub mod recovery;
mod rollouts;
pub mod service_manager;
mod shutdown;
mod signals;
mod start;
mod token_claim;
pub mod tool_server;
mod webhooks;

use self::gateway::Gateway;
use self::process::GatewayProcess;
use crate::cli::exit;
use crate::startup::settings::OperatorSettings;
use aetheel_runtime::supervisor::{self, TaskFailure};

/// Runs the gateway until a signal, or until Discord rejects the bot for good. Returns the exit
/// code.
pub async fn serve(mut settings: OperatorSettings) -> u8 {
    let process = match GatewayProcess::begin(&mut settings).await {
        Ok(process) => process,
        Err(code) => return code,
    };
    match Gateway::start(process, settings).await {
        Ok(mut gateway) => {
            let (code, end) = gateway.run().await;
            gateway.drain(code, end).await
        }
        Err(code) => code,
    }
}

/// Waits until a task ends that must run as long as the program, and logs it. Returns the exit
/// code.
async fn critical_task_ended() -> u8 {
    let TaskFailure { name, how } = supervisor::first_failure().await;
    tracing::error!(
        task = name,
        how,
        "a task has ended that the program needs; the program exits to be started again"
    );
    exit::SOFTWARE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_a_critical_task_exits_with_70() {
        let _watch = supervisor::supervise();
        let _ = supervisor::spawn("reception", async {}).await;
        assert_eq!(critical_task_ended().await, 70);
    }
}
