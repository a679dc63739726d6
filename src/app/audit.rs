//! The audit log of the gateway: connected at the start, and written to the end at the exit.

use std::time::Duration;

use aetheel_model::audit::{self, AuditEntry, AuditKind};
use aetheel_model::redact::Redactor;
use aetheel_settings::Config;
use aetheel_store::workspace::AuditLog;
use aetheel_turn::Backends;

/// Time limit for the last entries, because the disk may not respond.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

/// Connects the log, and notes the start with the backends that serve.
pub(super) fn open(config: &Config, redactor: &Redactor, backends: &dyn Backends) {
    connect(config, redactor);
    AuditEntry::new(AuditKind::GatewayStarted)
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("process", std::process::id())
        .with_known("node", config.node_name.as_ref())
        .note();
    for backend in backends.names().iter().filter_map(|name| backends.get(name)) {
        let descriptor = backend.descriptor();
        AuditEntry::new(AuditKind::ComponentLoaded)
            .with("backend", &descriptor.name)
            .with("version", &descriptor.version)
            .with("digest", &backend.generation().digest)
            .note();
    }
}

/// Connects the log, and notes the start of a conversation at a terminal.
pub fn open_console(config: &Config, redactor: &Redactor) {
    connect(config, redactor);
    AuditEntry::new(AuditKind::ConsoleStarted)
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("process", std::process::id())
        .with("uid", rustix::process::getuid().as_raw())
        .note();
}

/// Waits until the entries of a conversation at a terminal are written.
pub async fn close_console() {
    let _ = tokio::task::spawn_blocking(|| audit::flush(FLUSH_LIMIT)).await;
}

fn connect(config: &Config, redactor: &Redactor) {
    let log = AuditLog::start(&config.config_dir, config.audit_kept, redactor.clone());
    audit::connect(Box::new(log));
}

/// Notes the end of the gateway and waits until it is written. `agents` says whether they end or
/// continue.
pub(super) async fn close(agents: &'static str) {
    AuditEntry::new(AuditKind::GatewayStopped)
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("agents", agents)
        .note();
    let _ = tokio::task::spawn_blocking(|| audit::flush(FLUSH_LIMIT)).await;
}
