//! Provides the names that can be completed. They depend on the conversation.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::completion::CompletionKind;
use crate::help;
use crate::outlet::ConsoleState;
use aetheel_dispatch::{Dispatcher, Setting};
use aetheel_model::event::Lane;

/// Time limit for an agent to list its models. It is short, because the person waits after pressing
/// Tab.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_100);

/// Returns the names of a kind. A call may take a second.
pub(crate) type NameSource = Box<dyn Fn(CompletionKind) -> Vec<String> + Send>;

/// Returns a source of names that may be called on a thread outside the runtime.
pub(crate) fn names(dispatcher: &Dispatcher, shared: &Arc<ConsoleState>) -> NameSource {
    let (runtime, shared) = (Handle::current(), Arc::clone(shared));
    let (settings, observer) = (dispatcher.settings.clone(), dispatcher.observer.clone());
    Box::new(move |kind| {
        let lane = Lane::Console;
        let setting = match kind {
            CompletionKind::Path => return Vec::new(),
            CompletionKind::Command => return help::commands().map(str::to_owned).collect(),
            CompletionKind::Folded => return shared.folded().names(),
            CompletionKind::Backend => return runtime.block_on(settings.backend_names(&lane)),
            CompletionKind::Value(Setting::Model) => {
                let models = runtime.block_on(settings.models(&lane, None, ANSWER_TIMEOUT));
                return models.into_iter().map(|model| model.id).collect();
            }
            CompletionKind::Value(setting) => setting,
        };
        let mut options = runtime.block_on(observer.lane_status(&lane)).options.into_iter();
        let option = options.find(|option| option.setting == setting);
        option.into_iter().flat_map(|option| option.choices).map(|choice| choice.id).collect()
    })
}
