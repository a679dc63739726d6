//! Tests of agents' questions: the people who may answer, the single decision that reaches the
//! agent, and that no question stays open.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aetheel_dispatch::{AnswerRefusal, OpenQuestion, Person, Settlement, Subject};
use aetheel_model::agent::{
    Action, AgentEventKind, AllowedTools, AnswerForm, Ask, AskDecision, AskKind, AskOption, Chunk,
    DecisionScope, Exit, HostCommand, Input, Question, QuestionChoice, ToolStart, Write,
};
use aetheel_model::event::{EventKind as Asked, EventOrigin, Lane, NewEvent};
use aetheel_model::id::{ChannelId, RoleId, UserId, UserOrRoleId};
use aetheel_turn::ProcessCommand;

use super::turns::only_recording;
use crate::support::scripted::{
    Agent, Desk, DeskOptions, ScriptedLauncher, Understanding, event, message, plain,
};

pub(super) const ANN: u64 = 4;
const BOB: u64 = 5;
const CREW: u64 = 50;

pub(super) fn user(id: u64) -> Person {
    Person::User {
        id: UserId::discord(id),
        roles: vec![],
        owner: false,
        name: format!("user {id}"),
    }
}

/// Returns the question that the guest asks at the line `ask WHAT`.
fn ask(what: &str) -> Ask {
    let kind = match what {
        "plan" => AskKind::PlanApproval("1. look\n2. leap".to_owned()),
        "questions" => AskKind::Questions(vec![
            Question {
                id: "a".into(),
                text: "Which?".into(),
                options: vec!["sk-canary-1".into(), "tea".into()],
                ..Question::default()
            },
            Question { id: "b".into(), text: "Why?".into(), ..Question::default() },
        ]),
        "typed" => AskKind::Questions(vec![
            Question {
                id: "n".into(),
                text: "How many?".into(),
                form: AnswerForm::Whole,
                ..Question::default()
            },
            Question {
                id: "ok".into(),
                text: "Sure?".into(),
                form: AnswerForm::YesNo,
                ..Question::default()
            },
            Question { id: "pin".into(), text: "PIN?".into(), secret: true, ..Question::default() },
            Question {
                id: "c".into(),
                text: "Colour?".into(),
                optional: true,
                options: vec![choice("r", "Red")],
                ..Question::default()
            },
        ]),
        "sign-in" => AskKind::SignIn("https://example.com/device".to_owned()),
        command => AskKind::Permission(ToolStart {
            id: "t".into(),
            parent: None,
            kind: "bash".into(),
            native_name: "Bash".into(),
            title: "run".into(),
            target: Some(command.to_owned()),
            input: "{}".into(),
        }),
    };
    let always_label = (what == "make").then(|| "Always make".into());
    let title = format!("May I {what}?");
    let option = |id: &str, allows, scope| AskOption {
        id: id.to_owned(),
        label: format!("Own {id}"),
        allows,
        scope,
    };
    let own = vec![
        option("never", false, DecisionScope::Always),
        option("ever", true, DecisionScope::Project),
        option("yes", true, DecisionScope::Once),
    ];
    let options = if what == "options" { own } else { vec![] };
    Ask {
        ask: 9,
        session: 1,
        turn: 1,
        title,
        kind,
        always_label,
        options,
        diffs: vec![],
        changeable: what == "change",
        parent: None,
        deadline_ms: None,
    }
}

fn choice(id: &str, label: &str) -> QuestionChoice {
    QuestionChoice { id: id.to_owned(), ..QuestionChoice::plain(label) }
}

/// Like `plain`, but asks at `ask WHAT` and `ask-again WHAT`, and writes every decision to the
/// agent as a line.
fn asking() -> Understanding {
    let usual = plain();
    Arc::new(move |state, input| match input {
        Input::Line(line) if line.text.starts_with("ask ") => {
            Ok(vec![Action::Ask(ask(&line.text[4..]))])
        }
        Input::Line(line) if line.text == "withdraw" => Ok(vec![Action::AskWithdrawn(9)]),
        Input::Command(HostCommand::Answer(answer)) => {
            let told = serde_json::to_string(&answer.decision).unwrap();
            Ok(vec![
                event(AgentEventKind::Notice(told.clone().into())),
                Action::Write(Write { proc: 1, body: vec![Chunk::Text(format!("{told}\n"))] }),
            ])
        }
        _ => usual(state, input),
    })
}

pub(super) fn desk_options() -> DeskOptions {
    DeskOptions {
        understanding: asking(),
        approvers: vec![UserOrRoleId::discord(CREW)],
        secret: Some("sk-canary-1".to_owned()),
        ..DeskOptions::default()
    }
}

/// Agents that ask the question that the prompt names, and end the turn when they get an answer.
pub(super) fn asking_agents() -> Arc<ScriptedLauncher> {
    ScriptedLauncher::new(|mut agent: Agent| async move {
        let what = agent.prompt.split(": ").last().unwrap().to_owned();
        agent.say(&["text before ", &format!("ask {what}")]).await;
        while let Some(command) = agent.commands.recv().await {
            match command {
                ProcessCommand::Write(bytes) => {
                    let told = String::from_utf8(bytes).unwrap();
                    agent.say(&[&format!("text {}", told.trim()), "done"]).await;
                    return agent.exit(Exit::Code(0), "").await;
                }
                ProcessCommand::Stop { .. } => return agent.exit(Exit::Code(130), "").await,
                ProcessCommand::CloseStdin | ProcessCommand::Recorded(_) => {}
            }
        }
    })
}

/// Starts a turn of Ann that waits for an answer.
async fn asked(what: &str) -> (Desk, OpenQuestion) {
    let desk = Desk::new(asking_agents(), desk_options()).await;
    desk.dispatcher
        .intake
        .submit(NewEvent { asker: Some(UserId::discord(ANN)), ..message(7, what) })
        .unwrap();
    let question = desk.collected.questions(1).await.remove(0);
    (desk, question)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_decision_reaches_the_agent_and_is_shown_with_who_made_it() {
    let pairs = |values: &[(&str, &str)]| {
        AskDecision::Answers(
            values
                .iter()
                .map(|(id, value)| ((*id).to_owned(), vec![(*value).to_owned()]))
                .collect(),
        )
    };
    let words = "because";
    for (what, given, got) in [
        ("ls", AskDecision::AllowOnce, AskDecision::AllowOnce),
        ("make", AskDecision::AllowAlways, AskDecision::AllowAlways),
        ("ls", AskDecision::Deny(None), AskDecision::Deny(None)),
        ("ls", AskDecision::Deny(Some(" ".into())), AskDecision::Deny(None)),
        ("plan", AskDecision::Deny(Some(words.into())), AskDecision::Deny(Some(words.into()))),
        ("ls", AskDecision::DenyAndStop, AskDecision::DenyAndStop),
        ("sign-in", AskDecision::AllowOnce, AskDecision::AllowOnce),
        // People choose a label, and the agent gets its own value.
        (
            "questions",
            pairs(&[("b", "/why not"), ("a", "***")]),
            pairs(&[("a", "sk-canary-1"), ("b", "\\/why not")]),
        ),
    ] {
        let (desk, question) = asked(what).await;
        assert!(question.title.contains(what), "{question:?}");
        desk.dispatcher
            .questions
            .answer(&question.id, &user(ANN), given)
            .unwrap_or_else(|refusal| panic!("{what}: {refusal}"));
        let notice = desk.collected.answers(1).await[0].1.notices[0].clone();
        let told = serde_json::to_string(&got).unwrap().replace("sk-canary-1", "***");
        assert_eq!(notice, told, "{what}");
        let settled = desk.collected.settled(1).await;
        assert!(
            matches!(&settled[..], [(id, Settlement::Answered { by, .. })] if *id == question.id && by == "user 4"),
            "{settled:?}"
        );
        assert!(!format!("{settled:?}").contains("canary"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agents_own_options_are_shown_with_their_duration_and_sent_by_id() {
    let (desk, question) = asked("options").await;
    let words: Vec<_> =
        question.choices().into_iter().map(|(word, label, _)| (word, label)).collect();
    let wanted = [
        ("allow", "Allow once: Own yes"),
        ("always", "Always allow in this project: Own ever"),
        ("never", "Always deny: Own never"),
    ];
    assert_eq!(words[..3], wanted.map(|(word, label)| (word, label.to_owned())));
    let unknown = desk.dispatcher.questions.answer(
        &question.id,
        &user(ANN),
        AskDecision::Chosen("other".to_owned()),
    );
    assert!(matches!(unknown, Err(AnswerRefusal::Misfit(_))), "{unknown:?}");
    assert_eq!(
        desk.dispatcher.questions.answer_from_text(
            &Lane::Channel(ChannelId::discord(7)),
            &user(ANN),
            "never"
        ),
        Some(Ok(()))
    );
    let notice = desk.collected.answers(1).await[0].1.notices[0].clone();
    assert_eq!(notice, r#"{"chosen":"never"}"#);
    let settled = desk.collected.settled(1).await;
    assert_eq!(settled[0].1.summary(), "user 4 chose: Always deny: Own never");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_input_is_accepted_only_if_allowed_and_only_as_an_object() {
    let (desk, question) = asked("change").await;
    let change = |input: &str| {
        desk.dispatcher.questions.answer(
            &question.id,
            &user(ANN),
            AskDecision::AllowChanged(input.to_owned()),
        )
    };
    assert!(matches!(change("rm -rf /"), Err(AnswerRefusal::Misfit(_))));
    assert_eq!(
        question.parse_decision(r#"change {"command":"pwd"}"#),
        Some(AskDecision::AllowChanged(r#"{"command":"pwd"}"#.to_owned()))
    );
    assert_eq!(change(r#"{"command":"pwd"}"#), Ok(()));
    let (desk, question) = asked("ls").await;
    let refused = desk.dispatcher.questions.answer(
        &question.id,
        &user(ANN),
        AskDecision::AllowChanged("{}".to_owned()),
    );
    assert!(matches!(refused, Err(AnswerRefusal::Misfit(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_match_the_kind_of_question_and_secret_ones_are_neither_shown_nor_recorded() {
    let (desk, question) = asked("typed").await;
    let Subject::Questions(shown) = &question.subject else { panic!("{question:?}") };
    assert_eq!(
        shown[1].options.iter().map(|option| option.id.as_str()).collect::<Vec<_>>(),
        ["yes", "no"]
    );
    let answer = |values: &[(&str, &str)]| {
        let pairs = values
            .iter()
            .map(|(id, value)| ((*id).to_owned(), vec![(*value).to_owned()]))
            .collect();
        desk.dispatcher.questions.answer(&question.id, &user(ANN), AskDecision::Answers(pairs))
    };
    for (values, misfit) in [
        (
            &[("n", "many"), ("ok", "yes"), ("pin", "74123")][..],
            "The answer must be a whole number.",
        ),
        (&[("n", "3"), ("ok", "perhaps"), ("pin", "74123")], "Please choose one of the options."),
        (&[("n", "3"), ("ok", "yes")], "Every question needs an answer."),
    ] {
        assert_eq!(answer(values), Err(AnswerRefusal::Misfit(misfit)), "{values:?}");
    }
    assert_eq!(
        answer(&[("n", "3"), ("ok", "yes"), ("pin", "74123")]),
        Ok(()),
        "the last one may be left unanswered"
    );
    let settled = desk.collected.settled(1).await;
    assert_eq!(settled[0].1.summary(), "Answered by user 4: 3 · yes · (a secret)");
    desk.collected.answers(1).await;
    desk.dispatcher.turns.idle().await;
    let recording = only_recording(&desk).await;
    assert!(recording.contains("***") && !recording.contains("74123"), "{recording}");
}

#[tokio::test(flavor = "multi_thread")]
async fn declining_differs_from_an_empty_answer() {
    let (desk, question) = asked("questions").await;
    desk.dispatcher.questions.answer(&question.id, &user(ANN), AskDecision::Declined).unwrap();
    assert_eq!(desk.collected.answers(1).await[0].1.notices[0], r#""declined""#);
    let (desk, question) = asked("ls").await;
    let refused = desk.dispatcher.questions.answer(&question.id, &user(ANN), AskDecision::Declined);
    assert!(matches!(refused, Err(AnswerRefusal::Misfit(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typed_word_answers_the_latest_question_of_its_lane() {
    let (desk, question) = asked("ls").await;
    let said = |lane: u64, words: &str, person| {
        desk.dispatcher.questions.answer_from_text(
            &Lane::Channel(ChannelId::discord(lane)),
            &person,
            words,
        )
    };
    assert_eq!(question.asker, Some(UserId::discord(ANN)));
    assert_eq!(said(8, "allow", user(ANN)), None, "no question is open there");
    assert_eq!(said(7, "what?", user(ANN)), None);
    assert_eq!(said(7, "allow", user(BOB)), Some(Err(AnswerRefusal::NotYours)));
    assert_eq!(said(7, "deny too early", user(ANN)), Some(Ok(())));
    let notice = desk.collected.answers(1).await[0].1.notices[0].clone();
    assert!(notice.contains("too early"), "{notice}");
    assert_eq!(said(7, "allow", user(ANN)), None, "it is over");
}

#[tokio::test(flavor = "multi_thread")]
async fn asker_owner_and_approvers_may_answer_and_nobody_else() {
    let owner =
        Person::User { id: UserId::discord(BOB), roles: vec![], owner: true, name: "bob".into() };
    let crew = Person::User {
        id: UserId::discord(BOB),
        roles: [1, CREW].map(RoleId::discord).into(),
        owner: false,
        name: "bob".into(),
    };
    for (person, may) in [
        (user(ANN), true),
        (owner, true),
        (crew, true),
        (user(CREW), true),
        (user(BOB), false),
        (Person::Terminal, false),
    ] {
        let (desk, question) = asked("ls").await;
        let expected = if may { Ok(()) } else { Err(AnswerRefusal::NotYours) };
        assert_eq!(
            desk.dispatcher.questions.may_answer(&question.id, &person),
            expected,
            "{person:?}"
        );
        assert_eq!(
            desk.dispatcher.questions.answer(&question.id, &person, AskDecision::AllowOnce),
            expected,
            "{person:?}"
        );
        if !may {
            // The question is still open, and the refused answer was not shown to anybody.
            desk.dispatcher
                .questions
                .answer(&question.id, &user(ANN), AskDecision::Deny(None))
                .unwrap();
        }
        desk.collected.answers(1).await;
        assert_eq!(desk.collected.settled(1).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_without_an_asker_are_for_owners_and_the_terminal_answers_its_own() {
    let desk = Desk::new(asking_agents(), desk_options()).await;
    let submit = |lane, prompt: &str| {
        desk.dispatcher
            .intake
            .submit(NewEvent::new(
                Asked::Heartbeat,
                lane,
                EventOrigin::Internal { channel: None },
                prompt,
            ))
            .unwrap();
    };
    submit(Lane::Heartbeat("tidy".to_owned()), "ls");
    let question = desk.collected.questions(1).await.remove(0);
    for person in [user(ANN), Person::Terminal] {
        assert_eq!(
            desk.dispatcher.questions.answer(&question.id, &person, AskDecision::AllowOnce),
            Err(AnswerRefusal::NotYours)
        );
    }
    desk.dispatcher.questions.answer(&question.id, &user(CREW), AskDecision::AllowOnce).unwrap();
    submit(Lane::Console, "ls");
    let question = desk.collected.questions(2).await.remove(1);
    desk.dispatcher
        .questions
        .answer(&question.id, &Person::Terminal, AskDecision::AllowOnce)
        .unwrap();
    desk.collected.answers(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_of_many_simultaneous_decisions_wins() {
    let (desk, question) = asked("ls").await;
    let tries: Vec<_> = (0..16)
        .map(|number| {
            let (dispatcher, id) = (desk.dispatcher.clone(), question.id.clone());
            let decision =
                if number % 2 == 0 { AskDecision::AllowOnce } else { AskDecision::Deny(None) };
            tokio::task::spawn_blocking(move || {
                dispatcher.questions.answer(&id, &user(ANN), decision.clone()).map(|()| decision)
            })
        })
        .collect();
    let mut won = Vec::new();
    for one in tries {
        match one.await.unwrap() {
            Ok(decision) => won.push(decision),
            Err(refusal) => assert_eq!(refusal, AnswerRefusal::Gone),
        }
    }
    assert_eq!(won.len(), 1);
    let answers = desk.collected.answers(1).await;
    assert_eq!(answers[0].1.notices, [serde_json::to_string(&won[0]).unwrap()]);
    assert_eq!(
        desk.dispatcher.questions.answer("0123456789abcdef", &user(ANN), AskDecision::AllowOnce),
        Err(AnswerRefusal::Gone)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_decision_leaves_the_question_open() {
    let answers = |values: &[(&str, &[&str])]| {
        let owned = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        AskDecision::Answers(
            values.iter().map(|(id, given)| ((*id).to_owned(), owned(given))).collect(),
        )
    };
    let long = "x".repeat(20 << 10);
    for (what, misfits) in [
        ("ls", vec![AskDecision::AllowAlways, answers(&[]), AskDecision::Deny(Some(long.clone()))]),
        ("plan", vec![AskDecision::AllowAlways]),
        ("sign-in", vec![AskDecision::AllowAlways]),
        (
            "questions",
            vec![
                AskDecision::AllowOnce,
                answers(&[("a", &["tea"])]),
                answers(&[("a", &["coffee"]), ("b", &["so"])]),
                answers(&[("a", &["tea", "***"]), ("b", &["so"])]),
                answers(&[("a", &["tea"]), ("b", &[" "])]),
                answers(&[("a", &["tea"]), ("b", &[])]),
            ],
        ),
    ] {
        let (desk, question) = asked(what).await;
        for misfit in misfits {
            let refusal = desk
                .dispatcher
                .questions
                .answer(&question.id, &user(ANN), misfit.clone())
                .unwrap_err();
            assert!(matches!(refusal, AnswerRefusal::Misfit(_)), "{what}: {misfit:?}");
        }
        desk.dispatcher
            .questions
            .answer(&question.id, &user(ANN), AskDecision::Deny(None))
            .unwrap();
        desk.collected.answers(1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_ends_a_waiting_turn_and_its_question() {
    let (desk, question) = asked("ls").await;
    assert!(desk.dispatcher.turns.stop(&Lane::Channel(ChannelId::discord(7))));
    let answer = desk.collected.answers(1).await.remove(0).1;
    assert!(answer.failure.unwrap() == "Stopped.");
    assert_eq!(desk.collected.settled(1).await, [(question.id.clone(), Settlement::TurnEnded)]);
    assert_eq!(
        desk.dispatcher.questions.answer(&question.id, &user(ANN), AskDecision::AllowOnce),
        Err(AnswerRefusal::Gone)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_ends_with_its_turn_and_when_it_is_withdrawn() {
    for (last, how) in [("done", Settlement::TurnEnded), ("withdraw", Settlement::Withdrawn)] {
        let (say, said) = tokio::sync::watch::channel(false);
        let launcher = ScriptedLauncher::new(move |agent: Agent| {
            let mut said = said.clone();
            async move {
                agent.say(&["ask ls"]).await;
                said.wait_for(|now| *now).await.unwrap();
                agent.say(&[last, "text so", "done"]).await;
                agent.exit(Exit::Code(0), "").await;
            }
        });
        let desk = Desk::new(launcher, desk_options()).await;
        desk.dispatcher
            .intake
            .submit(NewEvent { asker: Some(UserId::discord(ANN)), ..message(7, "go") })
            .unwrap();
        let question = desk.collected.questions(1).await.remove(0);
        say.send(true).unwrap();
        assert_eq!(desk.collected.settled(1).await, [(question.id.clone(), how)]);
        assert_eq!(
            desk.dispatcher.questions.answer(&question.id, &user(ANN), AskDecision::AllowOnce),
            Err(AnswerRefusal::Gone)
        );
        assert_eq!(desk.collected.answers(1).await[0].1.failure, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_nobody_can_see_is_dismissed() {
    let desk = Desk::new(asking_agents(), desk_options()).await;
    desk.collected.blind.store(true, Ordering::SeqCst);
    desk.dispatcher
        .intake
        .submit(NewEvent { asker: Some(UserId::discord(ANN)), ..message(7, "ls") })
        .unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(30), desk.collected.answers(1))
        .await
        .unwrap()
        .remove(0)
        .1;
    assert_eq!(answer.notices, ["\"dismissed\""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_shown_after_the_text_before_it_and_without_secrets() {
    let (desk, question) = asked("curl -H sk-canary-1").await;
    let Subject::Permission { about: Some(about), .. } = &question.subject else {
        panic!("{question:?}")
    };
    assert_eq!(
        (about.text.as_str(), question.title.as_str()),
        ("curl -H ***", "May I curl -H ***?")
    );
    assert!(
        matches!(&desk.collected.shown.lock().unwrap()[..], [AgentEventKind::Text(text)] if text.text == "before ")
    );
    desk.dispatcher.questions.answer(&question.id, &user(ANN), AskDecision::DenyAndStop).unwrap();
    desk.collected.answers(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_the_operator_did_not_list_is_refused_without_a_question() {
    let only =
        |names: &[&str]| AllowedTools::Only(names.iter().map(|name| (*name).to_owned()).collect());
    let desk = Desk::new(
        asking_agents(),
        DeskOptions { allowed_tools: only(&["Read", "Grep"]), ..desk_options() },
    )
    .await;
    desk.dispatcher
        .intake
        .submit(NewEvent { asker: Some(UserId::discord(ANN)), ..message(7, "ls") })
        .unwrap();
    let notice = desk.collected.answers(1).await[0].1.notices[0].clone();
    assert!(
        notice.contains("deny") && notice.contains("The operator does not allow this tool here."),
        "{notice}"
    );
    assert!(desk.collected.settled(0).await.is_empty());
    let desk = Desk::new(
        asking_agents(),
        DeskOptions { allowed_tools: only(&["Bash(ls:*)"]), ..desk_options() },
    )
    .await;
    desk.dispatcher
        .intake
        .submit(NewEvent { asker: Some(UserId::discord(ANN)), ..message(7, "ls") })
        .unwrap();
    let question = desk.collected.questions(1).await.remove(0);
    desk.dispatcher.questions.answer(&question.id, &user(ANN), AskDecision::AllowOnce).unwrap();
    desk.collected.answers(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_allowed_tools_an_agent_that_cannot_be_limited_is_not_started() {
    let launcher = asking_agents();
    let desk = Desk::new(
        launcher.clone(),
        DeskOptions { allowed_tools: AllowedTools::Only(vec![]), ..desk_options() },
    )
    .await;
    desk.dispatcher.intake.submit(message(7, "ls")).unwrap();
    let failure = desk.collected.answers(1).await[0].1.failure.clone().unwrap();
    assert!(
        failure.starts_with(
            "No tools are allowed here, and this agent's own tools cannot be disabled. (tools, "
        ),
        "{failure}"
    );
    assert_eq!(launcher.prompts(), Vec::<String>::new(), "the agent was started");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_of_an_agent_cannot_move_the_cursor_or_hide_or_reorder_text() {
    let launcher = ScriptedLauncher::new(|agent: Agent| async move {
        agent.say(&["text a\u{1b}]52;c;Y29weQ==\u{7}b\u{1b}[2Jc\u{202e}d\u{0}e", "done"]).await;
        agent.exit(Exit::Code(0), "").await;
    });
    let desk = Desk::new(launcher, DeskOptions::default()).await;
    desk.dispatcher.intake.submit(message(7, "speak")).unwrap();
    assert_eq!(desk.collected.answers(1).await[0].1.text.trim(), "abcde");
}
