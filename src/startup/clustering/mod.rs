//! The start of a node: it joins its cluster and continues with its journal from the database.
//!
//! The state files in [`LANE_FILES`] are copied to the database too, so that another machine can
//! take over the lanes of this one. A node whose lanes were taken over starts with empty files.

mod store;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret as _;
use tokio::runtime::Handle;

use self::store::{SharedStore, journal_refused};
use super::StartRefusal;
use crate::cli::exit;
use aetheel_cluster::{Cluster, ClusterError, JoinKind, JournalLines, Mirror, NodeOptions};
use aetheel_discord::bot_id_of;
use aetheel_model::event::Lane;
use aetheel_model::finding::Finding;
use aetheel_model::plain::with_causes;
use aetheel_runtime::lease::Lease;
use aetheel_runtime::ordinary::read_ordinary;
use aetheel_runtime::supervisor;
use aetheel_settings::{Config, HolderMode};
use aetheel_store::disk::replace;
use aetheel_store::workspace::{FileError, Journal, Lock, Workspace, is_label};

/// State file with the machine's identity, because two machines may have the same name by mistake.
const IDENTITY: &str = "node.md";
/// The journal of a machine without a cluster.
const LOCAL_JOURNAL: &str = "queue.md";
/// Name of that journal after its lines were imported into a cluster.
const JOINED_JOURNAL: &str = "queue-before-cluster.md";
/// Hint for problems without a hint of their own.
const MANUAL: &str = "docs/configuration.md describes every setting";
/// Kind of a message between nodes that contains an event of a webhook or schedule.
pub const EVENT_MESSAGE: &str = "event";
/// The state files whose lines move with their lanes.
const LANE_FILES: [&str; 4] = ["sessions.md", "history.md", DISCORD_FILE, "agent-schedules.md"];
/// The state file of the Discord adapter.
pub const DISCORD_FILE: &str = "discord.md";
/// Time between two checks for changed state files.
const MIRROR_INTERVAL: Duration = Duration::from_millis(500);
/// Delay before a failed call of the database is repeated.
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// Largest size of a state file that is copied to the database, in bytes.
const MAX_STATE_FILE_BYTES: u64 = 16 << 20;

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

/// Opens the journal: the file of this machine, or the journal of this node in the database of its
/// cluster. Calls `waits` before it waits for the database.
///
/// # Errors
/// Returns [`StartRefusal`] if the journal cannot be used or this node cannot join the cluster.
pub(super) async fn open_journal(
    config: &Config,
    workspace: &Workspace,
    waits: impl FnOnce(),
) -> Result<(Journal, Option<Cluster>), StartRefusal> {
    if config.cluster_url.is_none() || config.discord_bot_token.is_none() {
        let journal = workspace.journal().await.map_err(|error| StartRefusal::of_file(&error))?;
        return Ok((journal, None));
    }
    waits();
    let cluster = join(config, workspace).await?;
    let lines = import_local_state(&cluster, workspace).await?;
    let text = retry_while_away(async || lines.read().await).await?;
    let store = Box::new(SharedStore { lines, runtime: Handle::current() });
    let first = cluster.first_number();
    let journal =
        workspace.journal_in(text, store, first).await.map_err(|error| journal_refused(&error))?;
    forget_moved_lanes(&cluster, workspace, &journal).await?;
    let files = StateFiles::of(&cluster, workspace.folder());
    supervisor::spawn("state files", files.mirror_until_lease_ends());
    Ok((journal, Some(cluster)))
}

/// Joins the cluster of `CLUSTER_URL`.
async fn join(config: &Config, workspace: &Workspace) -> Result<Cluster, StartRefusal> {
    let missing = |name: &str| StartRefusal::because(exit::CONFIG, format!("`{name}` is not set"));
    let url = config.cluster_url.as_ref().ok_or_else(|| missing("CLUSTER_URL"))?;
    let token = config.discord_bot_token.as_ref().ok_or_else(|| missing("DISCORD_BOT_TOKEN"))?;
    let identity = read_or_create_identity(workspace.folder()).map_err(|error| {
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
    Cluster::join(url.expose_secret(), options).await.map_err(refused)
}

/// Imports the journal and the state files of this machine into its cluster. No gateway may run on
/// this machine. Returns the node's name.
///
/// # Errors
/// Returns [`StartRefusal`] if a gateway runs, or if files or the database cannot be used.
pub async fn import(config: &Config) -> Result<String, StartRefusal> {
    let (workspace, _lock) = locked(config).await?;
    let cluster = join(config, &workspace).await?;
    import_local_state(&cluster, &workspace).await?;
    StateFiles::of(&cluster, workspace.folder()).mirror_changes().await;
    Ok(cluster.name().to_owned())
}

/// Exports the journal from the cluster to this machine, the last one, and deletes it from the
/// cluster. No gateway may run on this machine. Returns the number of lines.
///
/// # Errors
/// Returns [`StartRefusal`] if other nodes still have data, or if the journal cannot be written.
/// The cluster then keeps everything.
pub async fn export(config: &Config) -> Result<usize, StartRefusal> {
    let (workspace, _lock) = locked(config).await?;
    let unavailable = |why: String| StartRefusal::because(exit::UNAVAILABLE, why);
    let cluster = join(config, &workspace).await?;
    let lines = import_local_state(&cluster, &workspace).await?;
    let in_the_way =
        retry_while_away(async || cluster.dissolution_blockers(EVENT_MESSAGE).await).await?;
    if !in_the_way.others.is_empty() {
        let others = in_the_way.others.join(", ");
        return Err(unavailable(format!(
            "other nodes still have data of the bot: {others}; drain them (`aetheel drain NODE`), stop them, and wait until their leases have ended"
        )));
    }
    if in_the_way.messages > 0 {
        return Err(unavailable(format!(
            "events of webhooks or schedules that wait in the database: {}; start this node once more, so that it receives them",
            in_the_way.messages
        )));
    }
    let text = retry_while_away(async || lines.read().await).await?;
    let path = workspace.folder().join("state").join(LOCAL_JOURNAL);
    replace(&path, text.as_bytes()).map_err(|error| {
        let (path, why) = (path.display(), with_causes(&error));
        StartRefusal::of_io(
            &format!("cannot write {path}: {why}; the cluster keeps everything"),
            &error,
        )
    })?;
    cluster.dissolve().await.map_err(refused)?;
    Ok(text.lines().count())
}

/// Opens the configuration folder and locks it, so that no gateway can start.
async fn locked(config: &Config) -> Result<(Workspace, Lock), StartRefusal> {
    let workspace =
        Workspace::open(&config.config_dir).await.map_err(|error| StartRefusal::of_file(&error))?;
    let lock =
        workspace.lock().map_err(|held| StartRefusal::because(exit::LOCKED, held.to_string()))?;
    Ok((workspace, lock))
}

fn refused(error: ClusterError) -> StartRefusal {
    let code = match error {
        ClusterError::Refused(_) => exit::UNAVAILABLE,
        ClusterError::Untrusted(_) => exit::CONFIG,
        ClusterError::Away(_) | ClusterError::Fenced => exit::TEMPORARY,
    };
    StartRefusal::because(code, format!("CLUSTER_URL: {error}"))
}

/// Continues with this node's journal from the database, and imports the journal that its machine
/// had without a cluster. The lines of a replaced node's state files stay:
/// [`forget_moved_lanes`] removes those of lanes that another node has.
async fn import_local_state(
    cluster: &Cluster,
    workspace: &Workspace,
) -> Result<JournalLines, StartRefusal> {
    let state = workspace.folder().join("state");
    let failed = |error: io::Error| {
        StartRefusal::of_io(
            &format!("cannot take over state files: {}", with_causes(&error)),
            &error,
        )
    };
    let mut lines = cluster.journal();
    let own = read_local_journal(&state).map_err(failed)?;
    let text = retry_while_away(async || lines.read().await).await?;
    if cluster.join_kind() == JoinKind::Replaced {
        tracing::warn!(
            node = cluster.name(),
            "another node took over the channels of this one, which starts without channels"
        );
    } else if own.is_some() || cluster.join_kind() == JoinKind::First {
        let lanes = local_lanes(workspace).await;
        retry_while_away(async || cluster.claim(&lanes).await).await?;
    }
    if let Some(own) = own {
        // The lines in the database are newer and contain the results of these events.
        lines.replace(&format!("{own}{text}")).await.map_err(refused)?;
        std::fs::rename(state.join(LOCAL_JOURNAL), state.join(JOINED_JOURNAL)).map_err(failed)?;
    }
    if cluster.join_kind() != JoinKind::Returning {
        // A node that ends before this point does everything above again.
        retry_while_away(async || cluster.confirm_local_state().await).await?;
    }
    Ok(lines)
}

/// Removes the local data of lanes that another node has. The previous process moved them and ended
/// before it could remove the data, or the other node took over from it.
async fn forget_moved_lanes(
    cluster: &Cluster,
    workspace: &Workspace,
    journal: &Journal,
) -> Result<(), StartRefusal> {
    let notes = &workspace.state.discord;
    let mut known: BTreeSet<Lane> = workspace.state.lanes().await.into_iter().collect();
    known.extend(journal.open_events().into_iter().map(|entry| entry.event.lane));
    known.extend(journal.newer_lanes());
    known.extend(notes.seen().await.into_keys().map(Lane::Channel));
    known.extend(journal.messages().into_iter().map(|(channel, _)| Lane::Channel(channel)));
    let questions = notes.questions().await;
    known.extend(questions.iter().map(|(_, channel, _)| Lane::Channel(*channel)));
    known.retain(|lane| !lane.is_local());
    let known: Vec<Lane> = known.into_iter().collect();
    let mut gone = retry_while_away(async || cluster.lanes_of_other_nodes(&known).await).await?;
    // Other nodes may give these back, with turns whose agents still run here.
    let waiting = retry_while_away(async || cluster.lanes_waiting_for_this_machine().await).await?;
    gone.retain(|lane| !waiting.iter().any(|row| row.has(lane)));
    let gone = Arc::new(gone);
    if gone.is_empty() {
        return Ok(());
    }
    tracing::warn!(
        lanes = gone.len(),
        "another node has channels of which this one has data; removing the data here"
    );
    let failed = |error: &FileError| {
        let why = format!("cannot remove moved channels: {}", with_causes(error));
        StartRefusal::of_io(&why, error.cause())
    };
    for lane in gone.iter() {
        if let Lane::Channel(channel) = lane {
            notes.forget(*channel);
        }
    }
    for (question, channel, _) in &questions {
        if gone.contains(&Lane::Channel(*channel)) {
            notes.close_question(question);
        }
    }
    notes.save().await.map_err(|error| failed(&error))?;
    let theirs = Arc::clone(&gone);
    let given =
        workspace.state.forget_lanes(Arc::new(move |lane: &Lane| theirs.contains(lane))).await;
    given.map_err(|error| failed(&error))?;
    if !journal.forget_lanes(|lane| gone.contains(lane)).await {
        let why = "CLUSTER_URL: the journal cannot be written; this node starts again".to_owned();
        return Err(StartRefusal::because(exit::TEMPORARY, why));
    }
    Ok(())
}

/// Returns the lanes that this machine has data of, as roots. Leaves out the lanes of hooks and of
/// the console, which never move.
async fn local_lanes(workspace: &Workspace) -> Vec<String> {
    let lanes = workspace.state.bindings.lanes().await;
    let channels = workspace.state.discord.seen().await.into_keys().map(Lane::Channel);
    let travels = |lane: &Lane| !matches!(lane, Lane::Hook(_) | Lane::Console);
    let all: BTreeSet<String> =
        lanes.into_iter().chain(channels).filter(travels).map(|lane| lane.to_string()).collect();
    all.into_iter().collect()
}

/// Repeats a call while the database cannot be reached. The end of the node's lease ends the wait.
async fn retry_while_away<T>(
    mut ask: impl AsyncFnMut() -> Result<T, ClusterError>,
) -> Result<T, StartRefusal> {
    loop {
        match ask().await {
            Err(ClusterError::Away(why)) => {
                tracing::warn!(why, "cannot reach the database of the cluster; trying again");
                tokio::time::sleep(RETRY_DELAY).await;
            }
            answered => return answered.map_err(refused),
        }
    }
}

/// Copies the state files of a node to the database, for the node that takes over its lanes.
pub struct StateFiles {
    mirror: Mirror,
    lease: Lease,
    state: PathBuf,
}

impl StateFiles {
    /// Creates the copier for the state files below the folder `config`.
    #[must_use]
    pub fn of(cluster: &Cluster, config: &Path) -> Self {
        let (mirror, lease) = (cluster.mirror(), cluster.lease());
        Self { mirror, lease, state: config.join("state") }
    }

    /// Copies the files that changed since the last copy. Returns whether all were copied.
    pub async fn mirror_changes(&self) -> bool {
        let folder = self.state.clone();
        let read = async || {
            let files = tokio::task::spawn_blocking(move || read_lane_files(&folder)).await;
            files.unwrap_or_default()
        };
        let copied = self.mirror.write_changed(read()).await;
        if let Err(error) = &copied {
            tracing::debug!(%error, "cannot copy the state files to the database");
        }
        copied.is_ok()
    }

    /// Copies the files whenever they change, until the node's lease has ended for good. Never
    /// returns.
    async fn mirror_until_lease_ends(self) {
        let mut late = false;
        while !self.lease.is_ended() {
            let done = self.mirror_changes().await;
            if !done && !late {
                tracing::warn!("cannot copy state files to the database; trying again");
            }
            late = !done;
            tokio::time::sleep(MIRROR_INTERVAL).await;
        }
        std::future::pending().await
    }
}

fn read_lane_files(state: &Path) -> Vec<(String, Vec<u8>)> {
    let read = |name: &str| read_ordinary(&state.join(name), MAX_STATE_FILE_BYTES).ok();
    LANE_FILES.iter().filter_map(|name| Some(((*name).to_owned(), read(name)?))).collect()
}

/// Reads the journal of a machine without a cluster. Returns `None` if there is no such file.
fn read_local_journal(state: &Path) -> io::Result<Option<String>> {
    match read_ordinary(&state.join(LOCAL_JOURNAL), 1 << 30) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the identity of this machine in its cluster, or `None` if it never joined one.
///
/// # Errors
/// Returns the error of the system if the file cannot be read.
pub fn read_identity(config: &Path) -> io::Result<Option<String>> {
    let text = match read_ordinary(&config.join("state").join(IDENTITY), 1 << 10) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        text => text.unwrap_or_default(),
    };
    Ok(String::from_utf8_lossy(&text).split('`').nth(1).map(str::to_owned))
}

/// Returns the identity of this machine, and creates it at the first start.
fn read_or_create_identity(config: &Path) -> io::Result<String> {
    if let Some(known) = read_identity(config)? {
        return Ok(known);
    }
    let made = uuid::Uuid::new_v4().to_string();
    let text = format!("# Node\n\nWhich machine this is among those of its cluster: `{made}`.\n");
    replace(&config.join("state").join(IDENTITY), text.as_bytes())?;
    Ok(made)
}

/// Returns the name of this machine in its cluster: `NODE_NAME`, or else its host name.
#[must_use]
pub fn node_name(config: &Config) -> String {
    let machines = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    config.node_name.clone().unwrap_or_else(machines)
}
