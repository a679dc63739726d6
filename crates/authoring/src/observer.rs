//! `aetheel observer check`: tests whether an observer can be used.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::open;
use aetheel::cli::exit;
use aetheel::commands::kit::KitError;
use aetheel::terminal::{self, OutputStyle};
use aetheel_wasm::LoadedObserver;

pub(crate) async fn check(component: PathBuf, json: bool) -> u8 {
    let file = component.display().to_string();
    match opened(&component).await {
        Ok(observer) if json => {
            let about = observer.descriptor();
            terminal::json(&json!({
                "component": file,
                "name": about.name,
                "version": about.version,
                "description": about.description,
                "sha256": observer.digest(),
                "passed": true,
            }));
            exit::OK
        }
        Ok(observer) => {
            let (page, about) = (OutputStyle::for_stdout(), observer.descriptor());
            let digest = observer.digest().get(..12).unwrap_or_default();
            let title = format!("observer {} {} ({digest})", about.name, about.version);
            terminal::line(&format!("{}  {}", page.bold(&title), page.dim(&file)));
            terminal::line(&page.good("no problems found"));
            exit::OK
        }
        Err(unable) if json && unable.code == exit::FAILED => {
            terminal::json(&json!({
                "component": file,
                "passed": false,
                "refused": unable.text,
                "hint": unable.hint,
            }));
            unable.code
        }
        Err(unable) => unable.report(),
    }
}

async fn opened(path: &Path) -> Result<LoadedObserver, KitError> {
    let opened = LoadedObserver::open(&open::engine()?, path).await;
    opened.map_err(|error| open::refused(path, &error))
}
