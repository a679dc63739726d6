//! The forms of running turns: stop, steer, answer. Each posts a message in Discord that names the
//! user and the action, and returns to the page with a message about the result.

use axum::response::Response;

use super::fields::{Fields, FormRefusal, SubmittedForm};
use aetheel_dispatch::{LaneView, OpenQuestion, Subject};
use aetheel_model::access::LanePermissions;
use aetheel_model::agent::AskDecision;
use aetheel_model::audit::AuditKind;
use aetheel_model::event::{EventKind, EventOrigin, Lane, NewEvent, Sequence};
use aetheel_model::plain::short_line;

const NOT_THERE: FormRefusal = FormRefusal::of("That turn is no longer running.");

/// A turn that a form names, in a lane that the user may see.
struct NamedTurn {
    lane: Lane,
    event: Sequence,
    permissions: LanePermissions,
}

impl NamedTurn {
    /// Returns the turn of a form. A turn that the user may not see is treated as missing.
    async fn of(form: &SubmittedForm) -> Result<Self, FormRefusal> {
        let lane: Lane = form.fields.parse("lane").ok_or(NOT_THERE)?;
        let event = form.fields.parse("turn").ok_or(NOT_THERE)?;
        let permissions = form.user.visible(&lane).await.ok_or(NOT_THERE)?;
        Ok(Self { lane, event, permissions })
    }

    fn check_may_act(&self) -> Result<(), FormRefusal> {
        if self.permissions.acts { Ok(()) } else { Err(FormRefusal::Forbidden) }
    }

    /// Writes an action of the user to the log and to the audit log.
    fn record(&self, form: &SubmittedForm, action: &'static str) {
        let (user, lane) = (&form.user, &self.lane);
        tracing::info!(user = user.id().to_field(), %lane, event = self.event, action, "a user acted on a turn from the dashboard");
        let entry = user.audit(AuditKind::DashboardAction).in_lane(lane);
        entry.with("event", self.event).with("action", action).note();
    }
}

/// Stops a turn if it is still running.
pub(super) async fn stop(form: SubmittedForm) -> Response {
    form.answer("/", stop_turn(&form).await).await
}

async fn stop_turn(form: &SubmittedForm) -> Result<&'static str, FormRefusal> {
    let turn = NamedTurn::of(form).await?;
    turn.check_may_act()?;
    if !form.user.services().turns.stop_turn(&turn.lane, turn.event).await {
        return Err(NOT_THERE);
    }
    turn.record(form, "stop");
    form.user.announce(&turn.lane, "stopped this turn.").await;
    Ok("Stopped.")
}

/// Sends a message to the agent of a turn.
pub(super) async fn steer(form: SubmittedForm) -> Response {
    form.answer("/", steer_turn(&form).await).await
}

async fn steer_turn(form: &SubmittedForm) -> Result<&'static str, FormRefusal> {
    let (user, words) = (&form.user, form.fields.one("words").trim().to_owned());
    if words.is_empty() {
        return Err(FormRefusal::of("Write what the agent should know."));
    }
    let turn = NamedTurn::of(form).await?;
    let Lane::Channel(channel) = turn.lane else { return Err(NOT_THERE) };
    turn.check_may_act()?;
    let runs = |view: &LaneView| {
        let running = view.running.as_ref();
        view.lane == turn.lane && running.is_some_and(|running| running.event == turn.event)
    };
    if !user.services().observer.lanes().iter().any(runs) {
        return Err(NOT_THERE);
    }
    // The prompt is posted before the event is submitted, so that the answer appears below it.
    let posted = user.shared.api.post_prompt(channel, user.name(), &words).await;
    let message = posted.map_err(|_| {
        FormRefusal::of("Discord did not accept it, so it was not sent to the agent.")
    })?;
    let origin = EventOrigin::Message { channel, message };
    let event = NewEvent {
        author: Some(user.name().to_owned()),
        asker: Some(user.id()),
        parent: turn.permissions.parent,
        key: Some(format!("dashboard:{message}")),
        ..NewEvent::new(EventKind::Message, turn.lane.clone(), origin, words)
    };
    turn.record(form, "steer");
    // The result is shown in the turn or in Discord.
    user.services().intake.steer(event).await.map_err(FormRefusal::because)?;
    Ok("Sent to the agent.")
}

/// Answers a question of an agent.
pub(super) async fn answer(form: SubmittedForm) -> Response {
    form.answer("/", answer_question(&form).await).await
}

async fn answer_question(form: &SubmittedForm) -> Result<&'static str, FormRefusal> {
    let (user, fields) = (&form.user, &form.fields);
    let turn = NamedTurn::of(form).await?;
    let lanes = user.services().observer.lanes().into_iter();
    let asked = lanes
        .filter(|view| view.lane == turn.lane)
        .filter_map(|view| view.running)
        .flat_map(|running| running.questions)
        .find(|question| question.id == fields.one("question"))
        .ok_or(FormRefusal::of("This question is no longer open."))?;
    let decision = decision(&asked, fields).ok_or(FormRefusal::of("Choose one of the answers."))?;
    let person = user.person(&turn.permissions);
    let answered = user.services().questions.answer(&asked.id, &person, decision);
    answered.map_err(FormRefusal::because)?;
    // The action is posted even though the question shows its result, because a question that is
    // answered immediately never appears in Discord.
    let chosen = asked.choices().into_iter().find(|(word, ..)| *word == fields.one("word"));
    let how = chosen.map_or_else(String::new, |(word, ..)| format!(": {word}"));
    let did = format!("answered \"{}\"{how}.", short_line(&asked.title, 150));
    user.announce(&turn.lane, &did).await;
    Ok("Answered.")
}

fn decision(asked: &OpenQuestion, fields: &Fields) -> Option<AskDecision> {
    let word = fields.one("word");
    let Subject::Questions(questions) = &asked.subject else {
        let mut choices = asked.choices().into_iter();
        return choices.find(|(choice, ..)| *choice == word).map(|(_, _, decision)| decision);
    };
    if word == "decline" {
        return Some(AskDecision::Declined);
    }
    let answers = questions.iter().enumerate().map(|(at, question)| {
        let mut given: Vec<String> =
            fields.all(&format!("answer{at}")).map(str::to_owned).collect();
        // If the form has an option and a text, only the text counts.
        if !question.many && given.len() > 1 {
            given.drain(..given.len() - 1);
        }
        (question.id.clone(), given)
    });
    Some(AskDecision::Answers(answers.filter(|(_, values)| !values.is_empty()).collect()))
}
