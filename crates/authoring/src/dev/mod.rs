//! `aetheel backend dev`: builds a backend after every change of its sources, and shows the effect
//! on its cases and on recordings. Tested by `tests/kit/dev.rs`.

mod live;
mod round;
mod sources;

use self::live::{EndSignals, LiveChannel};
use self::round::Author;
use self::sources::Sources;
use aetheel::cli::{DevArgs, exit};
use aetheel::commands::kit::KitError;
use aetheel::terminal::{self, OutputStyle};
use aetheel_settings::Config;

pub(crate) async fn run(config: Config, args: &DevArgs) -> u8 {
    let live = args.live.map(|channel| LiveChannel::new(&config, channel));
    let ended = match live {
        None => develop(config, args, None).await,
        Some(live) => until_signal(develop(config, args, Some(live))).await,
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
    args: &DevArgs,
    mut live: Option<LiveChannel>,
) -> Result<u8, KitError> {
    let once = args.once;
    let mut sources = Sources::watch(&args.folder)?;
    let mut author = Author::new(config.clone(), args).await?;
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
