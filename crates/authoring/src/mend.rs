//! `aetheel backend mend`: lets an agent change a backend so that it reads lost replies, or judges a
//! change that somebody made. Tested by `tests/mending`.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::resolve;
use crate::open;
use aetheel::cli::{MendArgs, exit};
use aetheel::commands::context::load_backends;
use aetheel::commands::kit::KitError;
use aetheel::startup::settings::OperatorSettings;
use aetheel::startup::{LoadedBackends, cleanup, confinement, host_of};
use aetheel::terminal::{self, OutputStyle};
use aetheel_mending::agent::MendingAgent;
use aetheel_mending::evidence::{self, EvidencePlaces};
use aetheel_mending::files::{self, LinkPolicy};
use aetheel_mending::workshop::Workshop;
use aetheel_mending::{MendError, MendLimits, MendedBackend, Mending, Refused};
use aetheel_model::plain::{counted, short_line, with_causes};
use aetheel_recording::{Backend, Recorder};
use aetheel_store::workspace::Workspace;
use aetheel_turn::Backends as _;

pub(crate) async fn run(settings: OperatorSettings, args: &MendArgs) -> u8 {
    let (config, variables) = (settings.config.clone(), settings.variables.clone());
    let (_, redactor, loaded) = match load_backends(settings, "error").await {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let workspace = match Workspace::open(&config.config_dir).await {
        Ok(workspace) => workspace,
        Err(error) => {
            return KitError::usage(format!("CONFIG_DIR: {}", with_causes(&error))).report();
        }
    };
    let recorder =
        Recorder::new(config.recordings_dir.clone(), cleanup::limits(&config), redactor.clone());
    let places = EvidencePlaces {
        cases: args.cases.clone(),
        recordings: config.recordings_dir.clone(),
        lost: match args.recordings.is_empty() {
            true => workspace.state.lost.all().await,
            false => Vec::new(),
        },
        named: args.recordings.clone(),
    };
    let done = async {
        let path = resolve::component_path(Path::new(&args.name), &config)?;
        let mending = prepare(&loaded, &config, &variables, places, &path, args).await?;
        match &args.candidate {
            Some(candidate) => judge(&mending, candidate).await,
            None => {
                let sandbox = loaded.custody.sandbox();
                let agent = MendingAgent {
                    backend: agent_backend(&loaded, args.with.as_deref()).await?,
                    host: host_of(&config, &variables, &loaded.agents, sandbox),
                    launcher: Arc::new(loaded.custody.clone()),
                    recorder: recorder.clone(),
                    model: None,
                };
                let mended = mending.run(&agent, |round, refused| {
                    let (ending, said) = (round.ending, &round.said);
                    terminal::line(&format!("round ended ({ending}): {said}"));
                    print_refusal(refused);
                });
                mended.await.map_err(failed)
            }
        }
    };
    let code = match done.await {
        Ok(mended) => finish(&mended, args),
        Err(error) => error.report(),
    };
    // An error means that the program ends anyway.
    let _ = tokio::task::spawn_blocking(move || recorder.flush()).await;
    code
}

async fn prepare(
    loaded: &LoadedBackends,
    config: &aetheel_settings::Config,
    variables: &std::collections::HashMap<String, String>,
    mut places: EvidencePlaces,
    path: &Path,
    args: &MendArgs,
) -> Result<Mending, KitError> {
    let source = args.source.as_ref().or(config.backend_sources.as_ref()).ok_or_else(|| {
        KitError::usage(
            "name the folder with the backend's sources with --source, or set BACKEND_SOURCES",
        )
    })?;
    let engine = open::engine()?;
    let opened = open::component(&engine, path).await?;
    let name = opened.inspection.descriptor.name.clone();
    let imports = opened.inspection.imports;
    let serving: Arc<dyn Backend> = Arc::new(opened.backend);
    places.cases.extend(evidence::usual_cases(path, source, &name));
    places.lost.retain(|turn| loaded.agents.component_of(&turn.backend) == name);
    let evidence = evidence::collect(&*serving, places)
        .await
        .map_err(|error| KitError::usage(error.to_string()))?;
    let page = OutputStyle::for_stdout();
    terminal::line(&page.dim(&format!(
        "{}, {}",
        counted(evidence.lost.len(), "lost turn"),
        counted(evidence.cases.len(), "case")
    )));
    if evidence.lost.is_empty() {
        return Err(failed(MendError::NothingLost));
    }
    if evidence.cases.is_empty() {
        return Err(KitError::usage(
            "there are no cases and no readable recordings of this backend, so that nothing protects what it reads now; name some with --cases",
        ));
    }
    let hidden = confinement::fence(config, loaded.custody.sandbox())
        .map(|policy| policy.hidden)
        .unwrap_or_default();
    let workshop = Workshop::open(loaded.custody.clone(), hidden, variables, (source, &name), &[]);
    let workshop = workshop.await.map_err(|error| KitError::usage(error.to_string()))?;
    let program = std::env::current_exe()
        .map_err(|error| KitError::usage(format!("the path of this program: {error}")))?;
    Ok(Mending { serving, imports, workshop, engine, evidence, limits: limits(args), program })
}

/// Returns the backend whose agent makes the change.
async fn agent_backend(
    loaded: &LoadedBackends,
    with: Option<&str>,
) -> Result<Arc<dyn Backend>, KitError> {
    let name = match (with, &loaded.default) {
        (Some(name), _) => name,
        (None, Ok(name)) => name.as_str(),
        (None, Err(_)) => {
            return Err(KitError::usage("there is no default backend; name one with --with"));
        }
    };
    loaded.agents.examine(name).await;
    loaded.agents.get(name).ok_or_else(|| {
        let others = loaded.agents.names().join(", ");
        KitError::usage(format!("there is no backend `{name}`; there are: {others}"))
    })
}

async fn judge(mending: &Mending, candidate: &Path) -> Result<MendedBackend, KitError> {
    let files = files::read(candidate, LinkPolicy::AsIn(&mending.workshop.source))
        .map_err(|error| KitError::usage(error.to_string()))?;
    match mending.judge(&files).await.map_err(failed)? {
        Ok(mended) => Ok(mended),
        Err(refused) => {
            print_refusal(&refused);
            Err(KitError::failed("the change was refused"))
        }
    }
}

fn failed(error: MendError) -> KitError {
    match error {
        MendError::Refused { .. } | MendError::Limit { .. } => KitError::failed(error.to_string()),
        _ => KitError::usage(error.to_string()),
    }
}

fn print_refusal(Refused(reasons): &Refused) {
    let page = OutputStyle::for_stdout();
    terminal::line(&page.bad("refused:"));
    reasons.iter().for_each(|reason| terminal::line(&format!("  {reason}")));
}

/// Writes the component and the change, and prints the next step.
fn finish(mended: &MendedBackend, args: &MendArgs) -> u8 {
    let page = OutputStyle::for_stdout();
    let name = &args.name;
    let component = args.output.clone().unwrap_or_else(|| format!("{name}.mended.wasm").into());
    let change = component.with_extension("diff");
    for (path, bytes) in
        [(&component, &mended.component[..]), (&change, mended.patch.diff.as_bytes())]
    {
        if let Err(error) = fs::write(path, bytes) {
            return KitError::usage(format!("{}: {error}", path.display())).report();
        }
    }
    let judged = &mended.judgement;
    for reply in &judged.replies {
        let text = short_line(&reply.text, 100);
        terminal::line(&format!("  {} {}  {text}", page.good("read"), reply.turn));
    }
    terminal::line(&page.good(&format!(
        "mended: {} as before, {} without a silent loss",
        counted(judged.cases, "case"),
        counted(judged.mutants, "changed recording")
    )));
    if let Some(cost) = mended.cost_usd() {
        terminal::line(&format!(
            "cost: {cost:.2} USD in {}",
            counted(mended.rounds.len(), "round")
        ));
    }
    let (shown, change) = (component.display(), change.display());
    terminal::line(&format!(
        "read the change in {change}, then install it: `aetheel backend install {shown}`; the lost replies can be delivered after that"
    ));
    exit::OK
}

/// Returns limits from the arguments of the command line.
fn limits(args: &MendArgs) -> MendLimits {
    let MendArgs { rounds, minutes, max_cost: cost_usd, mutants, .. } = *args;
    let time = Duration::from_secs(u64::from(minutes) * 60);
    MendLimits { rounds, time, cost_usd, mutants }
}
