//! A node's start in a cluster: it joins, and goes on with its journal, which is in the database.
//!
//! What channels need on another machine, should this one be gone, is there too: those state files
//! in [`MOVING`]. A node that others took over begins without them.

mod store;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret as _;
use tokio::runtime::Handle;

use self::store::{SharedStore, journal_refused};
use super::Refused;
use crate::cli::exit;
use crate::cluster::{Cluster, ClusterError, Joined, Mirror, NodeOptions, SharedLines};
use crate::config::{Config, HolderWish};
use crate::discord::bot_of;
use crate::disk::{read_ordinary, replace};
use crate::event::Lane;
use crate::lease::Lease;
use crate::plain::with_causes;
use crate::vigil;
use crate::workspace::{Journal, Lock, Workspace, is_label};

/// Which machine this is, below the state folder: another one may have the same name by mistake.
const IDENTITY: &str = "node.md";
/// The journal of a machine that serves alone, and what becomes of it in a cluster.
const OWN_JOURNAL: &str = "queue.md";
const JOINED_JOURNAL: &str = "queue-before-cluster.md";
/// What letters are that hold an event of a webhook or schedule.
pub const EVENT: &str = "event";
/// The state files whose lines go with their channels.
const MOVING: [&str; 3] = ["sessions.md", "history.md", "discord.md"];
/// Between two looks at the state files, and after which the database is asked again.
const HAND_ON_INTERVAL: Duration = Duration::from_millis(500);
const AGAIN_INTERVAL: Duration = Duration::from_millis(250);
/// Largest state file that is handed on.
const MOST: u64 = 16 << 20;

/// What is wrong with the settings of a node; nothing where there are none.
#[must_use]
pub fn faults(config: &Config) -> Vec<String> {
    let Some(url) = &config.cluster_url else { return Vec::new() };
    let mut faults = Vec::new();
    if let Err(why) = Cluster::check(url.expose_secret()) {
        faults.push(format!("CLUSTER_URL {why}"));
    }
    if config.agent_holder == HolderWish::Off {
        faults.push("CLUSTER_URL needs a holder, which ends the agents of a node that lost its place; AGENT_HOLDER is `off`".to_owned());
    }
    if config.cluster_turn_lease < config.cluster_lease {
        faults.push(
            "CLUSTER_TURN_LEASE_SECONDS is less than CLUSTER_LEASE_SECONDS; set it at least as high"
                .to_owned(),
        );
    }
    for label in config.node_labels.iter().filter(|label| !is_label(label)) {
        faults.push(format!(
            "NODE_LABELS: {label:?} is no label: letters, digits, `.`, `_` and `-`, at most 64"
        ));
    }
    let token = config.discord_bot_token.as_ref();
    if token.is_some_and(|token| bot_of(token.expose_secret()).is_none()) {
        faults.push("CLUSTER_URL: DISCORD_BOT_TOKEN does not say which bot it is of; copy it anew from Discord's developer portal".to_owned());
    }
    faults
}

/// Opens the journal: that of this machine, or, in a cluster, that of this node.
///
/// # Errors
/// [`Refused`]: it cannot be used, or this node cannot take part.
pub(super) async fn open_journal(
    config: &Config,
    workspace: &Workspace,
    waits: impl FnOnce(),
) -> Result<(Journal, Option<Cluster>), Refused> {
    if config.cluster_url.is_none() || config.discord_bot_token.is_none() {
        let journal = workspace.journal().await.map_err(|error| {
            Refused::because(exit::CONFIG, format!("CONFIG_DIR: {}", with_causes(&error)))
        })?;
        return Ok((journal, None));
    }
    waits();
    let cluster = join(config, workspace).await?;
    let lines = bring(&cluster, workspace).await?;
    let text = patiently(async || lines.read().await).await?;
    let store = Box::new(SharedStore { lines, runtime: Handle::current() });
    let first = cluster.first_number();
    let journal =
        workspace.journal_in(text, store, first).await.map_err(|error| journal_refused(&error))?;
    forget_what_went(&cluster, workspace, &journal).await?;
    let files = StateFiles::of(&cluster, workspace.folder());
    vigil::task("state files", files.keep_handing_on());
    Ok((journal, Some(cluster)))
}

/// Joins the cluster of the settings.
async fn join(config: &Config, workspace: &Workspace) -> Result<Cluster, Refused> {
    let missing = |name: &str| Refused::because(exit::CONFIG, format!("`{name}` is not set"));
    let url = config.cluster_url.as_ref().ok_or_else(|| missing("CLUSTER_URL"))?;
    let token = config.discord_bot_token.as_ref().ok_or_else(|| missing("DISCORD_BOT_TOKEN"))?;
    let identity = identity(workspace.folder()).map_err(|error| {
        let why = format!("CONFIG_DIR: cannot keep the node's identity: {error}");
        Refused::because(exit::CONFIG, why)
    })?;
    let options = NodeOptions {
        name: node_name(config),
        identity,
        bot: bot_of(token.expose_secret()).unwrap_or_default(),
        lease: config.cluster_lease,
        turn_lease: config.cluster_turn_lease,
        takeover_grace: config.cluster_lease,
        labels: config.node_labels.clone(),
        files: String::new(),
        components: String::new(),
    };
    Cluster::join(url.expose_secret(), options).await.map_err(refused)
}

/// Brings what a machine that served alone has left to do into its cluster; no gateway may run
/// there. Returns the node's name.
///
/// # Errors
/// [`Refused`]
pub async fn import(config: &Config) -> Result<String, Refused> {
    let (workspace, _lock) = locked(config).await?;
    let cluster = join(config, &workspace).await?;
    bring(&cluster, &workspace).await?;
    StateFiles::of(&cluster, workspace.folder()).hand_on().await;
    Ok(cluster.name().to_owned())
}

/// Takes what is left to do back from the cluster to its last machine, and forgets it there; no
/// gateway may run. Returns how many lines that are.
///
/// # Errors
/// [`Refused`]: other nodes have something yet, or it cannot be written; the cluster has it all.
pub async fn export(config: &Config) -> Result<usize, Refused> {
    let (workspace, _lock) = locked(config).await?;
    let unavailable = |why: String| Refused::because(exit::UNAVAILABLE, why);
    let cluster = join(config, &workspace).await?;
    let lines = bring(&cluster, &workspace).await?;
    let in_the_way = patiently(async || cluster.in_the_way(EVENT).await).await?;
    if !in_the_way.others.is_empty() {
        let others = in_the_way.others.join(", ");
        return Err(unavailable(format!(
            "other nodes have something of the bot yet: {others}; drain them (`aetheel drain NODE`), stop them, and wait until their leases are over"
        )));
    }
    if in_the_way.letters > 0 {
        let letters = in_the_way.letters;
        return Err(unavailable(format!(
            "{letters} events of webhooks or schedules wait in the database; start this node once more, so that it takes them"
        )));
    }
    let text = patiently(async || lines.read().await).await?;
    let path = workspace.folder().join("state").join(OWN_JOURNAL);
    replace(&path, text.as_bytes()).map_err(|error| {
        let why = format!("cannot write {}: {error}; the cluster has it all", path.display());
        Refused::because(exit::CONFIG, why)
    })?;
    cluster.dissolve().await.map_err(refused)?;
    Ok(text.lines().count())
}

/// The folder of a machine where no gateway runs, and none begins to.
async fn locked(config: &Config) -> Result<(Workspace, Lock), Refused> {
    let workspace = Workspace::open(&config.config_dir)
        .await
        .map_err(|error| Refused::because(exit::CONFIG, format!("CONFIG_DIR: {error}")))?;
    let lock = workspace.lock().map_err(|held| Refused::because(exit::LOCKED, held.to_string()))?;
    Ok((workspace, lock))
}

fn refused(error: ClusterError) -> Refused {
    let code = match error {
        ClusterError::Refused(_) => exit::UNAVAILABLE,
        ClusterError::Untrusted(_) => exit::CONFIG,
        ClusterError::Away(_) | ClusterError::Fenced => exit::TEMPORARY,
    };
    Refused::because(code, format!("CLUSTER_URL: {error}"))
}

/// Goes on with what this node had, and with what its machine had when it served alone.
async fn bring(cluster: &Cluster, workspace: &Workspace) -> Result<SharedLines, Refused> {
    let state = workspace.folder().join("state");
    let failed = |error: io::Error| {
        Refused::because(exit::CONFIG, format!("CONFIG_DIR: cannot take over state files: {error}"))
    };
    let mut lines = cluster.lines();
    let own = own_journal(&state).map_err(failed)?;
    let text = patiently(async || lines.read().await).await?;
    if cluster.joined() == Joined::Adopted {
        tracing::warn!(
            node = cluster.name(),
            "another node took over what this one had; it begins with no channels"
        );
        for name in MOVING {
            replace(&state.join(name), b"").map_err(failed)?;
        }
    } else if own.is_some() || cluster.joined() == Joined::First {
        let lanes = lanes_here(workspace).await;
        patiently(async || cluster.claim(&lanes).await).await?;
    }
    if let Some(own) = own {
        // What is in the database is newer: it says what became of these lines.
        lines.replace(&format!("{own}{text}")).await.map_err(refused)?;
        std::fs::rename(state.join(OWN_JOURNAL), state.join(JOINED_JOURNAL)).map_err(failed)?;
    }
    if cluster.joined() != Joined::Again {
        // A node that dies before begins again.
        patiently(async || cluster.settled().await).await?;
    }
    Ok(lines)
}

/// Forgets what is here of lanes that another node has: an earlier life gave them away, and died
/// before it noted that.
async fn forget_what_went(
    cluster: &Cluster,
    workspace: &Workspace,
    journal: &Journal,
) -> Result<(), Refused> {
    let notes = workspace.discord_notes();
    let mut known: BTreeSet<Lane> = workspace.lanes().await.into_iter().collect();
    known.extend(journal.open_events().into_iter().map(|entry| entry.event.lane));
    known.extend(notes.seen().await.into_keys().map(Lane::Channel));
    known.extend(journal.messages().into_iter().map(|(channel, _)| Lane::Channel(channel)));
    let questions = notes.questions().await;
    known.extend(questions.iter().map(|(_, channel, _)| Lane::Channel(*channel)));
    known.retain(|lane| !lane.stays());
    let known: Vec<Lane> = known.into_iter().collect();
    let gone = Arc::new(patiently(async || cluster.elsewhere(&known).await).await?);
    if gone.is_empty() {
        return Ok(());
    }
    tracing::warn!(
        lanes = gone.len(),
        "another node has channels that this one gave away before it ended; it forgets them"
    );
    let failed = |error: &dyn std::error::Error| {
        let why = format!("CONFIG_DIR: cannot forget channels of others: {}", with_causes(error));
        Refused::because(exit::CONFIG, why)
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
    let given = workspace.given(Arc::new(move |lane: &Lane| theirs.contains(lane))).await;
    given.map_err(|error| failed(&error))?;
    if !journal.given(|lane| gone.contains(lane)).await {
        let why = "CLUSTER_URL: the journal cannot be written; this node starts again".to_owned();
        return Err(Refused::because(exit::TEMPORARY, why));
    }
    Ok(())
}

/// The lanes that this machine has something of, as roots. Those of hooks and of the console stay
/// where they are.
async fn lanes_here(workspace: &Workspace) -> Vec<String> {
    let lanes = workspace.bindings().lanes().await;
    let channels = workspace.discord_notes().seen().await.into_keys().map(Lane::Channel);
    let travels = |lane: &Lane| !matches!(lane, Lane::Hook(_) | Lane::Console);
    let all: BTreeSet<String> =
        lanes.into_iter().chain(channels).filter(travels).map(|lane| lane.to_string()).collect();
    all.into_iter().collect()
}

/// Repeats a question until the database is there; its lease bounds the wait.
async fn patiently<T>(mut ask: impl AsyncFnMut() -> Result<T, ClusterError>) -> Result<T, Refused> {
    loop {
        match ask().await {
            Err(ClusterError::Away(why)) => {
                tracing::warn!(why, "the database of the cluster is away; asking again");
                tokio::time::sleep(AGAIN_INTERVAL).await;
            }
            answered => return answered.map_err(refused),
        }
    }
}

/// The state files of a node, for whoever takes over what it has.
pub struct StateFiles {
    mirror: Mirror,
    lease: Lease,
    state: PathBuf,
    /// What the database has of each.
    known: HashMap<String, Vec<u8>>,
}

impl StateFiles {
    /// Those of an operator's folder.
    #[must_use]
    pub fn of(cluster: &Cluster, config: &Path) -> Self {
        let (mirror, lease) = (cluster.mirror(), cluster.lease());
        Self { mirror, lease, state: config.join("state"), known: HashMap::new() }
    }

    /// Hands on what has changed since it was handed on last. Returns whether all of it was.
    pub async fn hand_on(&mut self) -> bool {
        let folder = self.state.clone();
        let files = tokio::task::spawn_blocking(move || moving_files(&folder)).await;
        for (name, body) in files.unwrap_or_default() {
            if self.known.get(&name) == Some(&body) {
                continue;
            }
            if let Err(error) = self.mirror.write(&name, &String::from_utf8_lossy(&body)).await {
                tracing::debug!(%error, file = name, "cannot hand a state file on to other nodes");
                return false;
            }
            self.known.insert(name, body);
        }
        true
    }

    /// Hands them on as they change.
    async fn keep_handing_on(mut self) {
        let mut late = false;
        while !self.lease.is_over() {
            let done = self.hand_on().await;
            if !done && !late {
                tracing::warn!("state files cannot be handed on to other nodes; trying again");
            }
            late = !done;
            tokio::time::sleep(HAND_ON_INTERVAL).await;
        }
        std::future::pending().await
    }
}

fn moving_files(state: &Path) -> Vec<(String, Vec<u8>)> {
    let read = |name: &str| read_ordinary(&state.join(name), MOST).ok();
    MOVING.iter().filter_map(|name| Some(((*name).to_owned(), read(name)?))).collect()
}

/// What a machine that served alone had left to do.
fn own_journal(state: &Path) -> io::Result<Option<String>> {
    match read_ordinary(&state.join(OWN_JOURNAL), 1 << 30) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Which machine this is, among those of its cluster; none: it never took part.
///
/// # Errors
/// The system's error.
pub fn known_identity(config: &Path) -> io::Result<Option<String>> {
    let text = match read_ordinary(&config.join("state").join(IDENTITY), 1 << 10) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        text => text.unwrap_or_default(),
    };
    Ok(String::from_utf8_lossy(&text).split('`').nth(1).map(str::to_owned))
}

/// Which machine this is, made at its first start.
fn identity(config: &Path) -> io::Result<String> {
    if let Some(known) = known_identity(config)? {
        return Ok(known);
    }
    let made = uuid::Uuid::new_v4().to_string();
    let text = format!("# Node\n\nWhich machine this is among those of its cluster: `{made}`.\n");
    replace(&config.join("state").join(IDENTITY), text.as_bytes())?;
    Ok(made)
}

/// The name of this machine among those of its cluster.
#[must_use]
pub fn node_name(config: &Config) -> String {
    let machines = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    config.node_name.clone().unwrap_or_else(machines)
}
