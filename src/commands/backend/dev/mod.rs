//! `aetheel backend dev`: builds a backend after every change of its sources, and shows the effect
//! on its cases and on recordings. Tested by `tests/kit/dev.rs`.

mod round;
mod sources;

use std::path::PathBuf;

use self::round::Author;
use self::sources::Sources;
use super::open::KitError;
use crate::cli::exit;
use crate::config::Config;
use crate::terminal::{self, OutputStyle};

/// The arguments of the command.
pub(in crate::commands) struct DevOptions {
    /// The folder of the project.
    pub folder: PathBuf,
    /// Recordings, or folders of them, besides the cases of the project.
    pub recordings: Vec<PathBuf>,
    /// How many of the gateway's newest recordings of this backend are read too.
    pub turns: usize,
    /// The command that builds the component.
    pub build: String,
    /// The file that the build writes, if it is not the only `*.wasm` in the folder.
    pub component: Option<PathBuf>,
    /// The component to compare with, instead of the first build.
    pub against: Option<PathBuf>,
    /// Whether the command ends after the first round.
    pub once: bool,
}

pub(in crate::commands) async fn run(config: Config, options: DevOptions) -> u8 {
    match develop(config, options).await {
        Ok(code) => code,
        Err(unable) => unable.report(),
    }
}

async fn develop(config: Config, options: DevOptions) -> Result<u8, KitError> {
    let once = options.once;
    let mut sources = Sources::watch(&options.folder)?;
    let mut author = Author::new(config, options).await?;
    loop {
        let tried = author.round().await;
        match tried {
            Ok(Some(component)) => {
                let check = author.check(component);
                tokio::select! {
                    biased;
                    // A new change makes the result of the check worthless.
                    () = sources.changed(), if !once => {}
                    () = check => {}
                }
            }
            Ok(None) => {}
            Err(unable) if once => return Err(unable),
            Err(unable) => {
                unable.report();
            }
        }
        if once {
            return Ok(if author.is_good() { exit::OK } else { exit::FAILED });
        }
        let page = OutputStyle::for_stdout();
        terminal::line(&page.dim("waiting for a change; Ctrl-C ends"));
        sources.changed().await;
        let changed = sources.take()?;
        terminal::line("");
        terminal::line(&page.bold(&format!("changed: {}", changed.join(", "))));
    }
}
