//! `aetheel backend rollout`, `promote` and `withdraw`: show, end or drop the rollout of a new
//! version of a backend. `tests/backend/rollout.rs` tests what they change.

use std::path::Path;

use clap::Args;

use super::{BackendArgs, install, serving};
use crate::cli::{Common, exit};
use crate::commands::context::{
    block_on_command, load_backends, with_settings, with_sound_settings,
};
use crate::commands::kit::KitError;
use crate::startup::LoadedBackends;
use crate::startup::settings::OperatorSettings;
use crate::terminal::{self, print_stderr};
use aetheel_model::plain::{counted, with_causes};
use aetheel_recording::{Backend, RolloutPair};
use aetheel_settings::Config;
use aetheel_store::workspace::{
    EndedRollout, FileError, LiveFolder, NotedDifference, RolloutNote, RolloutState, StateFile,
};
use aetheel_turn::Backends as _;

#[derive(Clone, Copy, Debug)]
pub(super) enum RolloutAction {
    Show,
    Promote,
    Withdraw,
}

pub(super) fn run(args: &BackendArgs, action: RolloutAction) -> u8 {
    with_sound_settings(&args.common, |settings| {
        block_on_command(act_on_rollout(settings, &args.name, action))
    })
}

async fn act_on_rollout(
    settings: OperatorSettings,
    name: &str,
    action: RolloutAction,
) -> Result<u8, u8> {
    let (config, redactor, loaded) = load_backends(settings, "error").await?;
    let LoadedBackends { agents, components, .. } = &loaded;
    // Selects the file that serves here, if there are several files with this name.
    agents.examine(name).await;
    let component = agents.component_of(name);
    let pair = components.rollout(&component);
    if matches!(action, RolloutAction::Promote)
        && pair.is_none()
        && let Some(promoted) = promote_live(&loaded, &config, &component).await
    {
        terminal::print(&redactor.redact(promoted.map_err(|error| error.report())?));
        return Ok(exit::OK);
    }
    let Some(pair) = pair else {
        let others = match components.partial().on_rollout() {
            none if none.is_empty() => "no backend has one".to_owned(),
            some => format!("these backends have one: {}", some.join(", ")),
        };
        print_stderr(&format!("error: no new version of `{component}` is on rollout; {others}"));
        print_stderr(&format!("hint: `aetheel backend history {component}` shows earlier ones"));
        return Ok(exit::USAGE);
    };
    let digest = &pair.successor.generation().digest;
    let done = match action {
        RolloutAction::Show => Ok(describe(&config, &component, &pair)),
        RolloutAction::Promote => {
            components.promote(&component, digest).await.map(|_| {
                let effect = serving::takes_effect(&config);
                format!("backend {component}: version {} was promoted\n{effect}\n", version(&*pair.successor))
            })
        }
        RolloutAction::Withdraw => {
            components.withdraw(&component, digest).await.map(|moved| {
                format!(
                    "backend {component}: version {} was withdrawn; its file is now {}\nversion {} serves\n",
                    version(&*pair.successor),
                    moved.display(),
                    version(&*pair.serving)
                )
            })
        }
    };
    let said = done.map_err(|error| {
        print_stderr(&format!("error: {}", redactor.redact(error.to_string())));
        exit::FAILED
    })?;
    terminal::print(&redactor.redact(said));
    Ok(exit::OK)
}

/// Arguments of `aetheel backend history`.
#[derive(Args, Debug)]
pub struct HistoryArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    common: Common,
    /// The backend; without it, all backends are shown
    #[arg(value_name = "BACKEND")]
    name: Option<String>,
}

impl HistoryArgs {
    pub(super) fn run(self) -> u8 {
        with_settings(&self.common, None, |settings| {
            history(&settings.config, self.name.as_deref())
        })
    }
}

/// Prints the rollouts that have ended, the newest first.
fn history(config: &Config, name: Option<&str>) -> u8 {
    let ended = match StateFile::<EndedRollout>::read_folder(&config.config_dir) {
        Ok(ended) => ended,
        Err(error) => return KitError::failed(with_causes(&error)).report(),
    };
    let mut is_any = false;
    for EndedRollout { at, end, note } in ended.iter().rev() {
        if name.is_some_and(|name| name != note.backend) {
            continue;
        }
        is_any = true;
        let day = at.strftime("%Y-%m-%d %H:%M UTC");
        let digest = note.digest.get(..12).unwrap_or(&note.digest);
        let (backend, counts) = (&note.backend, progress(note));
        terminal::line(&format!("{day}  {backend} ({digest}) {}: {counts}", end.word()));
        if !note.differences.is_empty() {
            terminal::line(differences(note).trim_end());
        }
    }
    if !is_any {
        terminal::line("no rollout has ended here");
    }
    exit::OK
}

/// Installs the version that `aetheel backend dev --live` hands to the gateway. Returns `None` if
/// no version is in development.
async fn promote_live(
    loaded: &LoadedBackends,
    config: &Config,
    component: &str,
) -> Option<Result<String, KitError>> {
    let folder = LiveFolder::new(&config.config_dir);
    let versions = tokio::task::spawn_blocking(move || folder.versions()).await.ok()?;
    let mut versions = versions.into_iter().filter(|version| version.backend == component);
    let version = versions.next()?;
    if versions.next().is_some() {
        return Some(Err(KitError::usage(format!(
            "several versions of `{component}` are in development; end all but one `aetheel backend dev --live`"
        ))));
    }
    Some(install::install_live(loaded, config, &version.path).await)
}

fn version(backend: &dyn Backend) -> String {
    format!("{} ({})", backend.descriptor().version, &backend.generation().digest[..12])
}

/// Returns the saved note about the rollout of this component, or an empty one.
fn saved_note(config_dir: &Path, component: &str, digest: &str) -> Result<RolloutNote, FileError> {
    let notes = StateFile::<RolloutNote>::read_folder(config_dir)?;
    let note = notes.into_iter().find(|note| note.backend == component && note.digest == digest);
    Ok(note.unwrap_or_else(|| RolloutNote::new(component, digest)))
}

/// Describes the state of a rollout in a few words.
fn progress(note: &RolloutNote) -> String {
    let turns = |number: u64| counted(usize::try_from(number).unwrap_or(usize::MAX), "turn");
    let counts = format!(
        "{} compared, {} skipped, {} different, {} served",
        turns(note.compared),
        note.skipped,
        note.different,
        note.served
    );
    match note.state {
        RolloutState::Running => counts,
        RolloutState::Stopped => format!("stopped by a harmful difference; {counts}"),
    }
}

/// Lists the differences of a rollout, each on a line.
fn differences(note: &RolloutNote) -> String {
    let line = |difference: &NotedDifference| {
        let word = if difference.harmful { "harmful" } else { "harmless" };
        let NotedDifference { recording, line, text, .. } = difference;
        format!("  recording {recording} line {line}, {word}: {text}\n")
    };
    note.differences.iter().map(line).collect()
}

fn describe(config: &Config, component: &str, pair: &RolloutPair) -> String {
    let digest = &pair.successor.generation().digest;
    let mut text = format!(
        "backend {component}: version {} is on rollout, version {} serves\n",
        version(&*pair.successor),
        version(&*pair.serving)
    );
    let note = match saved_note(&config.config_dir, component, digest) {
        Ok(note) => note,
        Err(error) => {
            return text + &format!("its results are not known: {}\n", with_causes(&error));
        }
    };
    text.push_str(&format!("{}\n", progress(&note)));
    text.push_str(&differences(&note));
    if let Some(first) = note.differences.first() {
        text.push_str(&format!(
            "compare both versions: `aetheel backend replay {component} {} --diff FILE`, or in the dashboard with `?with={digest}` after the address of a turn's machine\n",
            first.recording
        ));
    }
    text
}
