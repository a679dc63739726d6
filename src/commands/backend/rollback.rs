//! `aetheel backend rollback`: restores the previous version of a component. Tested by
//! `tests/gateway/components.rs`.

use super::{BackendArgs, locked, serving};
use crate::cli::exit;
use crate::commands::context::{block_on_command, load_backends, with_sound_settings};
use crate::startup::LoadedBackends;
use crate::startup::settings::OperatorSettings;
use crate::terminal::{self, print_stderr};
use aetheel_recording::Backend;
use aetheel_turn::Backends as _;

pub(super) fn run(args: &BackendArgs) -> u8 {
    with_sound_settings(&args.common, |settings| block_on_command(roll_back(settings, &args.name)))
}

async fn roll_back(settings: OperatorSettings, name: &str) -> Result<u8, u8> {
    let (config, redactor, loaded) = load_backends(settings, "error").await?;
    let LoadedBackends { agents, components, .. } = loaded;
    // Selects the file that serves here, if there are several files with this name.
    agents.examine(name).await;
    let component = agents.component_of(name);
    let before = components.component(&component);
    let version = |backend: &dyn Backend| {
        format!("{} ({})", backend.descriptor().version, &backend.generation().digest[..12])
    };
    let was = before.as_ref().map_or("nothing".to_owned(), |before| version(&**before));
    let stands_in = components.serving_info(&component).is_some_and(|chosen| chosen.is_fallback);
    let done = match agents.get(name) {
        _ if stands_in => components.restore_previous(&component, None).await,
        Some(backend) => agents.roll_back(name, backend.generation()).await,
        // The backend does not serve, or the name is that of a component without an agent.
        None => {
            components
                .restore_previous(
                    &component,
                    before.as_ref().map(|before| before.generation().digest.as_str()),
                )
                .await
        }
    };
    let said = match (done, components.component(&component)) {
        (Ok(_), Some(now)) => {
            let file = components
                .serving_info(&component)
                .map(|chosen| chosen.path.display().to_string())
                .unwrap_or_default();
            let profile = if component == name {
                String::new()
            } else {
                format!(" (all profiles of acp.md with `{name}`)")
            };
            let effect = serving::takes_effect(&config);
            let file_now = components.serving_info(&component).map(|chosen| chosen.path.clone());
            let noted = file_now.map_or(Ok(""), |file| {
                locked::note(&config, &file, &now.generation().digest, None, None)
            });
            let noted = noted.unwrap_or_else(|error| {
                print_stderr(&format!("warning: {}", redactor.redact(error.text)));
                ""
            });
            let replaced = if stands_in { "a file that was refused".to_owned() } else { was };
            format!(
                "backend {component}{profile}: version {} is back in {file}, in place of {replaced}\n{noted}{effect}\n",
                version(&*now)
            )
        }
        (Ok(_), None) => String::new(),
        (Err(fault), now) => {
            // There is nothing with this name, so the rollback could not be tried.
            let unknown = now.is_none()
                && agents.get(name).is_none()
                && !config.config_dir.join("state/components").join(&component).is_dir();
            let fault = match agents.names() {
                _ if !unknown => fault.to_string(),
                none if none.is_empty() => format!(
                    "there is no backend `{name}`, and no other in {}",
                    config.backends_dir.display()
                ),
                some => format!("there is no backend `{name}`; there are {}", some.join(", ")),
            };
            print_stderr(&format!("error: {}", redactor.redact(fault)));
            return Err(if unknown { exit::USAGE } else { exit::FAILED });
        }
    };
    terminal::print(&redactor.redact(said));
    Ok(exit::OK)
}
