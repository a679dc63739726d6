//! The conversation of `aetheel console`.

use std::time::{Duration, Instant};

use aetheel_console::{Console, SessionEnd};
use aetheel_model::choice::LogFormat;
use aetheel_runtime::log;

use crate::app::{audit as audit_log, recovery, tool_server};
use crate::cli::exit;
use crate::commands::context::start_log_with;
use crate::startup::settings::OperatorSettings;
use crate::startup::{PreparedStart, Purpose};
use crate::terminal::{self, Verbosity};

pub(super) async fn run(settings: OperatorSettings) -> Result<u8, u8> {
    let began = Instant::now();
    // Failures of a turn are shown with its answer, so the log needs to show little. LOG_LEVEL
    // overrides this.
    let chosen = terminal::verbosity() != Verbosity::Usual;
    let filter = if chosen || settings.variables.contains_key("LOG_LEVEL") {
        settings.config.log_level.as_str()
    } else {
        "warn,aetheel_dispatch=error"
    };
    // In a pipe, stderr is for people, too, like that of other commands.
    let format = match settings.config.log_format {
        LogFormat::Auto => LogFormat::Human,
        chosen => chosen,
    };
    start_log_with(format, filter, &settings.redactor)?;
    let prepared = PreparedStart::prepare(settings, Purpose::Console)
        .await
        .map_err(|refused| refused.print())?;
    // The console ignores the instructions for the first start; only the gateway sends them to the
    // agent.
    prepared.boot().await.map_err(|refused| refused.print())?;
    let console = std::sync::Arc::new(Console::at_terminal(
        prepared.config.config_dir.join("state/console.history"),
    ));
    if let Some(print) = console.log_printer() {
        log::redirect_lines(print);
    }
    let live = console.is_live();
    let (grace, agents) = (prepared.config.shutdown_grace, prepared.agents());
    let config = prepared.config.clone();
    audit_log::open_console(&config, &prepared.redactor);
    let (dispatcher, drain) = prepared.dispatcher(console.clone(), None);
    let _tool_server = tool_server::open(&config, &dispatcher, None, None).await;
    let recovery = tokio::spawn(recovery::watch(dispatcher.clone(), agents));
    tracing::info!(
        ready_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        "console ready"
    );
    let left = aetheel_console::run(&dispatcher, &console).await;
    console.leave();
    recovery.abort();
    let (grace, code) = match left {
        // At a terminal the person saw the failures; a script gets an exit code.
        Ok(SessionEnd::Done { failed }) if failed == 0 || live => (Duration::ZERO, exit::OK),
        Ok(SessionEnd::Done { .. }) => (Duration::ZERO, exit::FAILED),
        Ok(SessionEnd::Terminated) => (grace, exit::OK),
        Err(error) => {
            tracing::error!(%error, "cannot listen for signals");
            (Duration::ZERO, exit::SOFTWARE)
        }
    };
    dispatcher.shutdown(grace).await;
    drain.close().await;
    audit_log::close_console().await;
    Ok(code)
}
