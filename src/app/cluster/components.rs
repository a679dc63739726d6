//! Installs the components that an operator sent to all nodes
//! (`aetheel backend install --all-nodes`).
//!
//! This node installs such a component as its operator would, without any question. A component
//! that this node does not trust, or that fails its checks here, changes nothing. A component that
//! needs more capabilities than were accepted is written to the folder of backends and waits there
//! for approval; until then the previous version serves. Tested by `tests/gateway/distribution.rs`.

use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::mail::patiently;
use crate::backend::AdmissionError;
use crate::cluster::{Cluster, Component};
use crate::kit::selftest;
use crate::plain::with_causes;
use crate::startup::{InstallError, InstallPlan, Installer, is_component_name};
use crate::workspace::{ServedComponent, component_digest};

/// Delay before a component that could not be written is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Result of installing a component.
enum InstallOutcome {
    /// The component is installed.
    Installed,
    /// The component is installed and waits for the operator's approval. Contains the capabilities
    /// that it needs and a hint.
    AwaitsApproval(String),
    /// The component was not installed. Contains the reason and a hint.
    Refused(String),
}

/// The reason why a component cannot be written. The next attempt may succeed.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error(transparent)]
    Prepare(#[from] InstallError),
    /// The component cannot replace this file.
    #[error("{}: {error}", target.display())]
    Replace {
        target: PathBuf,
        #[source]
        error: io::Error,
    },
}

/// Installs the components that operators send to all nodes, until the program ends. `most` is the
/// largest size of a component in bytes.
pub(super) async fn install_all(cluster: Cluster, installer: Installer, most: u64) {
    let (mut peers, mut looked_at) = (cluster.peers(), 0);
    loop {
        let news = peers.wait_for(|peers| peers.component > looked_at).await;
        let Ok(newest) = news.map(|peers| peers.component) else { return pending().await };
        looked_at = newest;
        while let Some(handed) = patiently!(cluster.next_component(most)).flatten() {
            install_one(&installer, handed.component, most).await;
            patiently!(cluster.mark_component_seen(handed.number));
        }
    }
}

/// Installs one component and logs the result. Tries again while it cannot be written.
async fn install_one(installer: &Installer, component: Component, most: u64) {
    let (file, from) = (component.file.clone(), component.from.clone());
    loop {
        match install(installer, &component, most).await {
            Ok(InstallOutcome::Installed) => {
                tracing::info!(file, from, "a backend for all nodes is installed");
            }
            Ok(InstallOutcome::AwaitsApproval(why)) => {
                tracing::warn!(
                    file,
                    from,
                    "a backend for all nodes waits for approval on this machine: it {why}"
                );
            }
            Ok(InstallOutcome::Refused(why)) => {
                tracing::warn!(
                    file,
                    from,
                    "a backend for all nodes is refused by this node, and nothing was changed: it {why}"
                );
            }
            Err(error) => {
                tracing::warn!(
                    file,
                    from,
                    error = error.to_string(),
                    "a backend for all nodes cannot be written; trying again"
                );
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
        }
        return;
    }
}

/// Checks a component and installs it.
///
/// # Errors
/// Returns [`WriteError`] if a file cannot be written.
async fn install(
    installer: &Installer,
    component: &Component,
    most: u64,
) -> Result<InstallOutcome, WriteError> {
    let Component { file, digest, bytes, signature, .. } = component;
    let refused = |why: String| Ok(InstallOutcome::Refused(why));
    if !is_component_name(file) {
        return refused("has an invalid file name; send it again with `aetheel backend install FILE --all-nodes`".to_owned());
    }
    if bytes.is_empty() {
        return refused(format!(
            "is larger than {most} bytes; raise COMPONENT_LIMIT_BYTES and send it again"
        ));
    }
    if component_digest(bytes) != *digest {
        return refused("differs from the file that was sent: its SHA-256 is another one; check who else writes to the database of the cluster".to_owned());
    }
    let hint = |error: &AdmissionError| {
        format!(
            "{}; hint: {}; then `aetheel backend install FILE` on this machine",
            with_causes(error),
            error.hint()
        )
    };
    let served = ServedComponent {
        digest: digest.clone(),
        bytes: bytes.as_slice().into(),
        signature: signature.clone(),
    };
    let staged = match installer.stage(file, served).await {
        Ok(staged) => staged,
        Err(error) => return refused(hint(&error)),
    };
    let plan = installer.plan(staged, Path::new(file)).await;
    if let Err(error) = plan.staged.try_in_place(&plan.target).await {
        let cases = selftest::folder_of(&plan.target);
        return refused(format!(
            "{}; hint: put the new version's recordings into {}, then `aetheel backend install FILE` on this machine",
            with_causes(&error),
            cases.display()
        ));
    }
    let InstallPlan { staged, before, aside, wants, .. } = &plan;
    if before.as_ref().is_none_or(|before| before.inspection.digest != *digest) {
        let installation = installer.prepare(&plan).await?;
        let finished = installation.finish(aside.clone()).await;
        finished.map_err(|error| WriteError::Replace { target: plan.target.clone(), error })?;
    }
    let name = &staged.inspection.descriptor.name;
    Ok(match wants {
        Some(wants) => InstallOutcome::AwaitsApproval(format!(
            "{wants}; hint: `aetheel backend approve {name}` shows all of it and asks; until then the previous version serves"
        )),
        None => InstallOutcome::Installed,
    })
}
