//! Provides the names that can be completed after commands. They depend on the conversation.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::completion::NameKind;
use super::editing::NameSource;
use super::help;
use super::outlet::ConsoleState;
use crate::dispatch::{Dispatcher, Setting};
use crate::event::Lane;

/// Time limit for an agent to list its models. It is short, because the person waits after pressing
/// Tab.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_100);

/// Returns a source of names that may be called on a thread outside the runtime.
pub(super) fn names(dispatcher: &Dispatcher, shared: &Arc<ConsoleState>) -> Arc<NameSource> {
    let (runtime, settings, observer, shared) = (
        Handle::current(),
        dispatcher.settings.clone(),
        dispatcher.observer.clone(),
        Arc::downgrade(shared),
    );
    Arc::new(move |named| {
        let lane = Lane::Console;
        let setting = match named {
            None => return help::commands().map(str::to_owned).collect(),
            Some(NameKind::Folded) => {
                return shared.upgrade().map(|shared| shared.folded().names()).unwrap_or_default();
            }
            Some(NameKind::Backend) => {
                return runtime.block_on(settings.backend_names(&lane));
            }
            Some(NameKind::Model) => {
                return runtime
                    .block_on(settings.models(&lane, None, ANSWER_TIMEOUT))
                    .into_iter()
                    .map(|model| model.id)
                    .collect();
            }
            Some(NameKind::Effort) => Setting::Effort,
            Some(NameKind::Safety) => Setting::Safety,
            Some(NameKind::Mode) => Setting::Mode,
        };
        let options = runtime.block_on(observer.lane_status(&lane)).options.into_iter();
        options
            .filter(|option| option.setting == setting)
            .flat_map(|option| option.choices)
            .map(|choice| choice.id)
            .collect()
    })
}
