//! `aetheel backend dev`: builds a backend after every change of its sources, and shows the effect
//! on its cases and on recordings. Tested by `tests/kit/dev.rs`.

mod live;
mod round;
mod sources;

use std::path::PathBuf;

use self::live::{EndSignals, LiveChannel};
use self::round::Author;
use self::sources::Sources;
use aetheel::cli::exit;
use aetheel::commands::kit::KitError;
use aetheel::terminal::{self, OutputStyle};
use aetheel_model::id::ChannelId;
use aetheel_settings::Config;

/// The arguments of the command.
pub(crate) struct DevOptions {
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
    /// The channel that the running gateway serves with each build.
    pub live: Option<ChannelId>,
    /// Whether the command ends after the first round.
    pub once: bool,
}

pub(crate) async fn run(config: Config, options: DevOptions) -> u8 {
    let live = options.live.map(|channel| LiveChannel::new(&config, channel));
    let ended = match live {
        None => develop(config, options, None).await,
        Some(live) => until_signal(develop(config, options, Some(live))).await,
    };
    ended.unwrap_or_else(|unable| unable.report())
}

/// Drops the future at a signal that ends the command, so that it withdraws the last build.
async fn until_signal(
    developing: impl Future<Output = Result<u8, KitError>>,
) -> Result<u8, KitError> {
    let mut signals = EndSignals::listen()?;
    tokio::select! {
        ended = developing => ended,
        () = signals.next() => {
            terminal::line("");
            terminal::line("the last build was withdrawn");
            Ok(exit::OK)
        }
    }
}

async fn develop(
    config: Config,
    options: DevOptions,
    mut live: Option<LiveChannel>,
) -> Result<u8, KitError> {
    let once = options.once;
    let mut sources = Sources::watch(&options.folder)?;
    let mut author = Author::new(config.clone(), options).await?;
    loop {
        let tried = author.round().await;
        match tried {
            Ok(Some(component)) => {
                if let Some(live) = &mut live {
                    let (backend, path) = component.file();
                    if let Err(unable) = live.serve(&config, backend, path).await {
                        unable.report();
                    }
                }
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
