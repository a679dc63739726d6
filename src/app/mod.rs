//! `aetheel run`: Discord, until a signal.

mod cluster;
mod dashboard;
mod gateway;
pub mod health;
mod hooks;
pub mod liveness;
mod phase;
mod process;
pub mod recovery;
pub mod service_manager;
mod shutdown;
mod signals;
mod start;
mod webhooks;

use self::gateway::Gateway;
use self::process::Process;
use crate::cli::exit;
use crate::startup::settings::Settings;
use crate::vigil::{self, Fallen};

/// Runs the gateway until a signal, or until Discord rejects the bot for good. Returns the exit
/// code.
pub async fn serve(mut settings: Settings) -> u8 {
    let process = match Process::begin(&mut settings).await {
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

/// Returns the exit code once something has ended that the program cannot do without.
async fn deserted() -> u8 {
    let Fallen { name, how } = vigil::fallen().await;
    tracing::error!(
        task = name,
        how,
        "something has ended that the program cannot do without; it leaves to be started again"
    );
    exit::SOFTWARE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_what_it_cannot_do_without_is_70() {
        let _watch = vigil::keep();
        let _ = vigil::task("reception", async {}).await;
        assert_eq!(deserted().await, 70);
    }
}
