//! Provides the names that can be completed after commands. They depend on the conversation.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::completion::Named;
use super::editing::Names;
use super::outlet::Shared;
use super::session;
use crate::dispatch::{Dispatcher, Setting};
use crate::event::Lane;

/// Time limit for an agent to list its models. It is short, because the person waits after pressing
/// Tab.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_100);

/// Returns a source of names that may be called on a thread outside the runtime.
pub(super) fn names(dispatcher: &Dispatcher, shared: &Arc<Shared>) -> Arc<Names> {
    let (runtime, dispatcher, shared) =
        (Handle::current(), dispatcher.clone(), Arc::downgrade(shared));
    Arc::new(move |named| {
        let lane = Lane::Console;
        let setting = match named {
            None => return session::commands().map(str::to_owned).collect(),
            Some(Named::Folded) => {
                return shared.upgrade().map(|shared| shared.folded().names()).unwrap_or_default();
            }
            Some(Named::Backend) => return runtime.block_on(dispatcher.backend_names(&lane)),
            Some(Named::Model) => {
                return runtime
                    .block_on(dispatcher.models(&lane, ANSWER_TIMEOUT))
                    .into_iter()
                    .map(|model| model.id)
                    .collect();
            }
            Some(Named::Effort) => Setting::Effort,
            Some(Named::Safety) => Setting::Safety,
            Some(Named::Mode) => Setting::Mode,
        };
        let options = runtime.block_on(dispatcher.view(&lane)).options.into_iter();
        options
            .filter(|option| option.setting == setting)
            .flat_map(|option| option.choices)
            .map(|choice| choice.id)
            .collect()
    })
}
