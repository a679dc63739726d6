//! Joins this machine to its cluster, as the operator's settings say.

use secrecy::ExposeSecret as _;

use super::{StartRefusal, node_name};
use crate::cli::exit;
pub use aetheel_cluster::Cluster;
use aetheel_cluster::{ClusterError, LocalState, LocalStateError, NodeOptions};
use aetheel_discord::bot_id_of;
use aetheel_model::finding::Finding;
use aetheel_model::plain::with_causes;
use aetheel_settings::{Config, HolderMode};
use aetheel_store::workspace::{Journal, Lock, Workspace, is_label};

/// Hint for problems without a hint of their own.
const MANUAL: &str = "docs/configuration.md describes every setting";

/// Returns the problems of the cluster settings. Empty without a cluster.
#[must_use]
pub fn findings(config: &Config) -> Vec<Finding> {
    let Some(url) = &config.cluster_url else { return Vec::new() };
    let mut findings = Vec::new();
    let mut add = |message: String, hint: &str| {
        findings.push(Finding::invalid("cluster settings", message).with_hint(hint));
    };
    if let Err(error) = Cluster::check_url(url.expose_secret()) {
        add(error.to_string(), MANUAL);
    }
    if config.agent_holder == HolderMode::Off {
        let message = "CLUSTER_URL needs a holder, which ends the agents of a node that lost its place; AGENT_HOLDER is `off`";
        add(message.to_owned(), MANUAL);
    }
    if config.cluster_turn_lease < config.cluster_lease {
        let message = "CLUSTER_TURN_LEASE_SECONDS is less than CLUSTER_LEASE_SECONDS";
        add(message.to_owned(), "set it at least as high");
    }
    for label in config.node_labels.iter().filter(|label| !is_label(label)) {
        let message = format!(
            "NODE_LABELS: {label:?} is not a label: letters, digits, `.`, `_` and `-`, at most 64"
        );
        add(message, MANUAL);
    }
    let token = config.discord_bot_token.as_ref();
    if token.is_some_and(|token| bot_id_of(token.expose_secret()).is_none()) {
        let message = "CLUSTER_URL: DISCORD_BOT_TOKEN does not contain the id of its bot";
        add(message.to_owned(), "copy it again from Discord's developer portal");
    }
    findings
}

/// Returns the password in a URL, so that it can be redacted.
pub(super) fn password_of_url(url: &str) -> Option<String> {
    Cluster::password_of_url(url)
}

/// Joins the cluster and opens the journal of this node in its database. Calls `waits` before it
/// waits for the database. Returns `None` without a cluster.
///
/// # Errors
/// Returns [`StartRefusal`] if the journal cannot be used or this node cannot join the cluster.
pub(super) async fn join(
    config: &Config,
    workspace: &Workspace,
    waits: impl FnOnce(),
) -> Result<Option<(Journal, Cluster)>, StartRefusal> {
    if config.cluster_url.is_none() || config.discord_bot_token.is_none() {
        return Ok(None);
    }
    waits();
    let cluster = register(config, workspace).await?;
    let journal = LocalState::new(cluster.clone(), workspace.clone()).open_journal().await?;
    Ok(Some((journal, cluster)))
}

/// Registers this node in the cluster of `CLUSTER_URL`.
async fn register(config: &Config, workspace: &Workspace) -> Result<Cluster, StartRefusal> {
    let missing = |name: &str| StartRefusal::because(exit::CONFIG, format!("`{name}` is not set"));
    let url = config.cluster_url.as_ref().ok_or_else(|| missing("CLUSTER_URL"))?;
    let token = config.discord_bot_token.as_ref().ok_or_else(|| missing("DISCORD_BOT_TOKEN"))?;
    let identity = aetheel_cluster::create_identity(workspace.folder()).map_err(|error| {
        let why = format!("cannot save the node's identity: {}", with_causes(&error));
        StartRefusal::of_io(&why, &error)
    })?;
    let options = NodeOptions {
        name: node_name(config),
        identity,
        bot: bot_id_of(token.expose_secret()).unwrap_or_default(),
        lease: config.cluster_lease,
        turn_lease: config.cluster_turn_lease,
        takeover_grace: config.cluster_lease,
        labels: config.node_labels.clone(),
        files: String::new(),
        components: String::new(),
    };
    let joined = Cluster::join(url.expose_secret(), options).await;
    joined.map_err(|error| LocalStateError::Cluster(error).into())
}

/// Imports the journal and the state files of this machine into its cluster. No gateway may run on
/// this machine. Returns the node's name.
///
/// # Errors
/// Returns [`StartRefusal`] if a gateway runs, or if files or the database cannot be used.
pub async fn import(config: &Config) -> Result<String, StartRefusal> {
    let (workspace, _lock) = locked(config).await?;
    let cluster = register(config, &workspace).await?;
    LocalState::new(cluster.clone(), workspace).import().await?;
    Ok(cluster.name().to_owned())
}

/// Exports the journal from the cluster to this machine, the last one. No gateway may run on this
/// machine. Returns the number of lines.
///
/// # Errors
/// Returns [`StartRefusal`] if a gateway runs, other nodes still have data, or the journal cannot
/// be written. The cluster then keeps everything.
pub async fn export(config: &Config) -> Result<usize, StartRefusal> {
    let (workspace, _lock) = locked(config).await?;
    let cluster = register(config, &workspace).await?;
    Ok(LocalState::new(cluster, workspace).export().await?)
}

/// Opens the configuration folder and locks it, so that no gateway can start.
async fn locked(config: &Config) -> Result<(Workspace, Lock), StartRefusal> {
    let workspace =
        Workspace::open(&config.config_dir).await.map_err(|error| StartRefusal::of_file(&error))?;
    let lock =
        workspace.lock().map_err(|held| StartRefusal::because(exit::LOCKED, held.to_string()))?;
    Ok((workspace, lock))
}

/// Returns the exit code for an error of the database. If it cannot be reached, the code asks the
/// service manager for another start; otherwise a person has to help.
pub fn exit_code(error: &ClusterError) -> u8 {
    match error {
        ClusterError::Refused(_) => exit::UNAVAILABLE,
        ClusterError::Untrusted(_) => exit::CONFIG,
        ClusterError::Away(_) | ClusterError::Fenced => exit::TEMPORARY,
    }
}

impl From<LocalStateError> for StartRefusal {
    fn from(error: LocalStateError) -> Self {
        use LocalStateError as E;
        let why = with_causes(&error);
        match &error {
            E::Cluster(cause) => Self::because(exit_code(cause), why),
            E::Journal(cause) | E::MovedLanes(cause) => Self::of_io(&why, cause.cause()),
            E::StateFiles(source) | E::JournalFile { source, .. } => Self::of_io(&why, source),
            E::OtherNodes(_) | E::WaitingMessages(_) => Self::because(exit::UNAVAILABLE, why),
            E::JournalLost => Self::because(exit::TEMPORARY, why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_loses_its_lease_while_it_starts_is_started_again() {
        let cases = [
            (ClusterError::Fenced, exit::TEMPORARY),
            (ClusterError::Away("it does not answer".to_owned()), exit::TEMPORARY),
            (ClusterError::Refused("no such table".to_owned()), exit::UNAVAILABLE),
        ];
        for (error, code) in cases {
            let refused = StartRefusal::from(LocalStateError::Cluster(error));
            assert_eq!(refused.code, code, "{:?}", refused.faults);
        }
    }
}
