//! The process around the gateway: log, signals, status pages, service manager.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use super::health::ProgramHealth;
use super::liveness::Liveness;
use super::phase::ProgramPhase;
use super::service_manager::ServiceManager;
use super::signals::Signals;
use crate::cli::exit;
use crate::startup::TAKEN_ADDRESS;
use crate::startup::settings::OperatorSettings;
use crate::terminal::fail;
use aetheel_model::finding::Finding;
use aetheel_model::plain::with_causes;
use aetheel_runtime::log;
use aetheel_runtime::supervisor::{self, SupervisionGuard};
use aetheel_web::status::{StatusError, StatusPages};

/// The services that exist before the gateway starts and until the program ends.
pub(super) struct GatewayProcess {
    pub(super) began: Instant,
    pub(super) signals: Signals,
    /// While this exists, the end of a supervised task ends the program.
    pub(super) supervision: SupervisionGuard,
    pub(super) phase: watch::Sender<ProgramPhase>,
    pub(super) liveness: Liveness,
    pub(super) health: ProgramHealth,
    pub(super) service_manager: ServiceManager,
    _pages: Option<StatusPages>,
}

impl GatewayProcess {
    /// Starts the log, the signals and the status pages. If the status pages cannot be opened, adds
    /// that to [`OperatorSettings::faults`].
    ///
    /// # Errors
    /// Returns the exit code after it reported the reason.
    pub(super) async fn begin(settings: &mut OperatorSettings) -> Result<Self, u8> {
        let began = Instant::now();
        let config = &settings.config;
        log::start(config.log_format, &config.log_level, settings.redactor.clone()).map_err(
            |fault| {
                fail(&fault.to_string());
                exit::CONFIG
            },
        )?;
        let signals = Signals::listen().map_err(|error| {
            tracing::error!(%error, "cannot listen for signals");
            exit::SOFTWARE
        })?;
        let supervision = supervisor::supervise();
        log_start(settings);
        let phase = watch::Sender::new(ProgramPhase::Starting);
        let liveness = Liveness::default();
        let health = ProgramHealth::new(phase.subscribe(), liveness.clone());
        let pages = open_pages(settings.config.status_address, &health).await;
        let pages = pages.unwrap_or_else(|error| {
            let message = format!("STATUS_ADDRESS: {}", with_causes(&error));
            let finding = match &error {
                StatusError::Listen { source, .. } => Finding::of_io("addresses", message, source),
                StatusError::Record(_) => Finding::invalid("addresses", message),
            };
            settings.faults.push(finding.with_hint(TAKEN_ADDRESS));
            None
        });
        let system = ServiceManager::from_environment();
        Ok(Self {
            began,
            signals,
            supervision,
            phase,
            liveness,
            health,
            service_manager: system,
            _pages: pages,
        })
    }
}

fn log_start(settings: &OperatorSettings) {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "aetheel starts");
    let folder = &settings.folder;
    tracing::info!(
        folder = %folder.path.display(),
        why = %folder.reason,
        settings = settings.env_file.as_ref().map(|file| tracing::field::display(file.display())),
        "configuration folder"
    );
    if let Some(hint) = folder.hint() {
        tracing::warn!("the configuration is in the working directory; hint: {hint}");
    }
}

/// Opens the status pages if the operator configured an address.
async fn open_pages(
    address: Option<SocketAddr>,
    health: &ProgramHealth,
) -> Result<Option<StatusPages>, StatusError> {
    let Some(wanted) = address else { return Ok(None) };
    let pages = StatusPages::open(wanted, Arc::new(health.clone())).await?;
    tracing::info!(address = %pages.address, "status pages are open");
    Ok(Some(pages))
}
