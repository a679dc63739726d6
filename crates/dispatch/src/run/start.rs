//! The input that starts a turn.

use std::path::PathBuf;

use crate::channel::ChannelContext;
use crate::deps::Choices;
use crate::run::continuation::Continuation;
use aetheel_model::agent::descriptor::Feature;
use aetheel_model::agent::{PromptPart, SessionId, StartTurn, TurnSettings, allowed_tools_for};
use aetheel_model::event::Event;
use aetheel_model::prompt;
use aetheel_recording::Backend;
use aetheel_store::workspace::LaneSettings;

/// Returns the input that starts the turn of an event, from files that are read now. It has no host
/// tools. The flag is `true` if the turn may only plan and change nothing.
pub(crate) async fn start_input(
    channels: &ChannelContext,
    choices: &Choices,
    event: &Event,
    backend: &dyn Backend,
    lane: &LaneSettings,
    directory: PathBuf,
    session: Option<SessionId>,
) -> (StartTurn, bool) {
    let descriptor = backend.descriptor();
    let mut in_force = channels.in_force(&event.lane, lane, descriptor).await;
    let chosen = event.choice.as_ref().and_then(|choice| choice.model.clone());
    if let Some(model) = chosen.filter(|_| descriptor.has(Feature::Model)) {
        in_force.model = Some(model);
    }
    let rights = event.by_agent.as_ref().and_then(|request| request.rights.as_ref());
    if let Some(rights) = rights {
        in_force.limit_to(rights, descriptor.has(Feature::Plan));
    }
    let system_prompt = channels.system_prompt(&event.lane, lane).await;
    let supported = |feature| descriptor.has(feature);
    let allowed_tools = if supported(Feature::AllowedTools) {
        allowed_tools_for(&choices.allowed_tools, descriptor)
    } else {
        Vec::new()
    };
    let expansion = prompt::Expansion::new(&descriptor.expands, &directory);
    let quotation = event.quoted.as_ref().map(|quoted| prompt::quotation(quoted, &expansion));
    let mark = event.by_agent.as_deref().map(prompt::agent_mark);
    let (text, author) = (prompt_words(event), event.author.as_deref());
    let words = match (&mark, Continuation::of(event)) {
        (Some(_), _) => prompt::agent_words(text, &expansion),
        (None, Some(of)) => prompt::continuation(text, author, of.cause(), &expansion),
        (None, None) => prompt::neutralise(text, &expansion, author),
    };
    let start = StartTurn {
        session: 1,
        turn: 1,
        cwd: directory.to_string_lossy().into_owned(),
        native_id: session.filter(|_| supported(Feature::Resume)).map(|id| id.as_str().to_owned()),
        fork: false,
        fresh_id: uuid::Uuid::new_v4().to_string(),
        one_shot: true,
        settings: TurnSettings {
            model: in_force.model,
            safety: in_force.safety,
            mode: in_force.mode,
            effort: in_force.effort,
            system_prompt: Some(system_prompt).filter(|_| supported(Feature::SystemPrompt)),
            allowed_tools,
            max_turns: supported(Feature::MaxTurns).then_some(choices.max_turns),
            options: backend.options().to_owned(),
        },
        parts: quotation.into_iter().chain(mark).chain([words]).map(PromptPart::Text).collect(),
        agent_version: None,
        tools: Vec::new(),
    };
    (start, in_force.planning)
}

/// Returns the person's text, or a placeholder if the prompt only has files or a quoted message.
fn prompt_words(event: &Event) -> &str {
    match &event.prompt {
        prompt if !prompt.trim().is_empty() => prompt,
        _ if event.quoted.is_some() => "(no words of my own)",
        _ if !event.attached.is_empty() => "(no words, only files)",
        prompt => prompt,
    }
}
