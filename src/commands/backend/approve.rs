//! `aetheel backend approve`: accepts the capabilities of a component. Tested by
//! `tests/gateway/capabilities.rs`.

use clap::Args;

use super::{consent, serving};
use crate::cli::{Common, exit};
use crate::commands::context::{block_on_command, load_backends, with_sound_settings};
use crate::startup::LoadedBackends;
use crate::startup::settings::OperatorSettings;
use crate::terminal::{print, print_stderr};
use aetheel_model::agent::capability::Capabilities;
use aetheel_model::plain::with_causes;
use aetheel_store::workspace::BackendFile;

/// Arguments of `aetheel backend approve`.
#[derive(Args, Debug)]
pub struct ApproveArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    common: Common,
    /// The backend
    #[arg(value_name = "BACKEND")]
    name: String,
    /// Accept them without a question
    #[arg(long, short)]
    yes: bool,
}

impl ApproveArgs {
    pub(super) fn run(self) -> u8 {
        with_sound_settings(&self.common, |settings| block_on_command(approve(settings, &self)))
    }
}

async fn approve(settings: OperatorSettings, args: &ApproveArgs) -> Result<u8, u8> {
    let (config, redactor, loaded) = load_backends(settings, "off").await?;
    let LoadedBackends { agents, components, .. } = loaded;
    let component = agents.component_of(&args.name);
    let waiting = components.waiting();
    let wanted: Vec<_> =
        waiting.iter().filter(|(_, wants)| wants.descriptor.name == component).collect();
    if wanted.is_empty() {
        if components.component(&component).is_some() {
            print_stderr(&format!(
                "Nothing to approve: all permissions of `{component}` are accepted already."
            ));
            return Ok(exit::OK);
        }
        let mut others: Vec<&str> =
            waiting.iter().map(|(_, wants)| wants.descriptor.name.as_str()).collect();
        others.dedup();
        let others = match others.is_empty() {
            true => "no backend waits for approval".to_owned(),
            false => format!("these backends wait for approval: {}", others.join(", ")),
        };
        print_stderr(&format!(
            "error: there is no backend `{component}` in {}; {others}",
            config.backends_dir.display()
        ));
        return Ok(exit::USAGE);
    }
    let mut more = Capabilities::new();
    let mut said = String::new();
    for (path, wants) in &wanted {
        let new = if wants.unknown { " (nothing accepted so far)" } else { "" };
        said.push_str(&format!(
            "backend {component}, version {}{new}: {} wants to\n",
            one_clean_line(&wants.descriptor.version),
            path.display()
        ));
        said.push_str(&consent::list_capabilities(&wants.unaccepted));
        more.extend(wants.unaccepted.iter().cloned());
    }
    print(&redactor.redact(said));
    if let Err(why) =
        consent::ask(&more, &format!("Accept these permissions of `{component}`?"), args.yes)
    {
        print_stderr(&format!("error: {why}"));
        print_stderr("nothing was changed");
        return Ok(exit::FAILED);
    }
    if let Err(error) = BackendFile::new(&config.config_dir).accept(&component, &more).await {
        print_stderr(&format!("error: cannot save the approval: {}", with_causes(&error)));
        return Ok(exit::FAILED);
    }
    print(&format!(
        "accepted in {}\n{}\n",
        config.config_dir.join("backends.md").display(),
        serving::takes_effect(&config)
    ));
    Ok(exit::OK)
}

/// Returns a text of the component on one line, without control and invisible characters.
fn one_clean_line(text: &str) -> String {
    aetheel_model::plain::clean_text(text).replace('\n', " ")
}
