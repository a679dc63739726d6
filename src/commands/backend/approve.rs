//! `aetheel backend approve`: the operator accepts what a component may do. Pinned by
//! `tests/gateway/capabilities.rs`.

use std::io::Write as _;

use super::{assent, serving};
use crate::agent::capability::Capabilities;
use crate::cli::exit;
use crate::plain::with_causes;
use crate::startup::LoadedBackends;
use crate::startup::settings::Settings;
use crate::terminal::say;
use crate::workspace::BackendFile;

pub(in crate::commands) async fn run(settings: Settings, name: String, yes: bool) -> u8 {
    let (config, redactor, LoadedBackends { agents, components, .. }) =
        match serving::load(settings, "off").await {
            Ok(loaded) => loaded,
            Err(code) => return code,
        };
    let component = agents.component_of(&name);
    let waiting = components.waiting();
    let wanted: Vec<_> =
        waiting.iter().filter(|(_, wants)| wants.descriptor.name == component).collect();
    if wanted.is_empty() {
        if components.component(&component).is_some() {
            say(&format!("Nothing to approve: everything `{component}` does is approved already."));
            return exit::OK;
        }
        let mut others: Vec<&str> =
            waiting.iter().map(|(_, wants)| wants.descriptor.name.as_str()).collect();
        others.dedup();
        let others = match others.is_empty() {
            true => "no component waits for approval".to_owned(),
            false => format!("these components wait for approval: {}", others.join(", ")),
        };
        say(&format!(
            "error: there is no backend `{component}` in {}; {others}",
            config.backends_dir.display()
        ));
        return exit::USAGE;
    }
    let mut more = Capabilities::new();
    let mut said = String::new();
    for (path, wants) in &wanted {
        let new = if wants.unknown { ", of which nothing was accepted so far" } else { "" };
        said.push_str(&format!(
            "backend {component}, version {}{new}: {} wants to\n",
            shown(&wants.descriptor.version),
            path.display()
        ));
        said.push_str(&assent::list(&wants.more));
        more.extend(wants.more.iter().cloned());
    }
    print(&redactor.clean(said));
    if let Err(why) =
        assent::given(&more, &format!("Accept this of `{component}` from now on?"), yes)
    {
        say(&format!("error: {why}"));
        say("nothing was changed");
        return exit::FAILED;
    }
    if let Err(error) = BackendFile::new(&config.config_dir).accept(&component, &more).await {
        say(&format!("error: it cannot be accepted: {}", with_causes(&error)));
        return exit::FAILED;
    }
    print(&format!(
        "accepted in {}\n{}\n",
        config.config_dir.join("backends.md").display(),
        serving::takes_effect(&config)
    ));
    exit::OK
}

/// Words of a component's own, without anything that hides or moves.
fn shown(text: &str) -> String {
    crate::plain::clean_text(text).replace('\n', " ")
}

fn print(text: &str) {
    // A closed stdout has nobody to tell; the exit code still does.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
