//! The layout of a question in Discord: its text, its buttons and menus, and the line with its
//! result. Pure.

use serde_json::{Value, json};

use super::agent_text::{literal, quoted, readable_markdown};
use super::subject::{MAX_DIFF_CHARS, MAX_SUBJECT_CHARS, block, cut};
use crate::api::MAX_MESSAGE_CHARS;
use crate::button::{AskChoice, Button, ButtonStyle, row};
use crate::text::markdown::{escape, escape_around_times};
use aetheel_dispatch::{Excerpt, OpenQuestion, Settlement, Subject};
use aetheel_model::agent::{AnswerForm, AskDecision, AskOption, DecisionScope, Question};
use aetheel_model::id::UserId;
use aetheel_model::plain::{self, short_line};
use aetheel_model::split::split;

/// Maximum number of characters of a question's message. Leaves room for the line with the result.
const MAX_PIECE_CHARS: usize = 1_650;
/// Maximum number of characters of a quotation in one message. Leaves room for the title.
const MAX_QUOTED_CHARS: usize = 1_200;
/// Maximum number of characters shown of the text of a question.
const MAX_ASKED_CHARS: usize = 1_500;
const MAX_TITLE_CHARS: usize = 400;
/// Maximum number of options that are shown as buttons. More are shown as a menu.
const MAX_OPTION_BUTTONS: usize = 4;
const MAX_MENU_OPTIONS: usize = 25;
/// Maximum number of characters of the label of a button and of an option.
const BUTTON_LABEL: usize = 80;
const OPTION_LABEL: usize = 100;
/// Maximum length of the example in the field of a modal window, in characters.
const MAX_PLACEHOLDER_CHARS: usize = 100;
const MAX_ROW_BUTTONS: usize = 5;
/// Maximum number of characters of a text in a modal window.
const WINDOW: usize = 4_000;

/// Returns the messages of a question; the last one has the buttons. `step` counts the questions of
/// a list from 0.
pub(crate) fn pieces(question: &OpenQuestion, step: usize) -> Vec<String> {
    let asker = question
        .asker
        .and_then(UserId::as_discord)
        .map_or_else(String::new, |asker| format!(" <@{asker}>"));
    let bold = |title: &str| {
        format!("**{}**{asker}", escape_around_times(&short_line(title, MAX_TITLE_CHARS)))
    };
    let title = bold(&question.title);
    let text = match &question.subject {
        Subject::Permission { .. } => {
            let Some(statement) = question.statement() else { return vec![title] };
            let tool =
                statement.tool.map(|tool| format!("\n-# Tool: {}", escape(&short_line(tool, 100))));
            let about = statement.about.map(|about| format!("\n{}", block(about)));
            let (tool, about) = (tool.unwrap_or_default(), about.unwrap_or_default());
            let note = question.collision_note().map(|note| format!("\n⚠️ {note}"));
            let (heading, note) = (bold(&statement.heading), note.unwrap_or_default());
            format!("🔐 {heading}{tool}{about}{note}")
        }
        Subject::Plan(plan) => {
            let (shown, note) = cut(plan, MAX_SUBJECT_CHARS);
            return with_quotation(
                &format!("📋 {title}"),
                &readable_markdown(shown),
                note.trim_start(),
            );
        }
        Subject::SignIn(address) => format!(
            "🔑 {title}\n{}",
            block(&Excerpt { language: "", text: short_line(address, 1_000) })
        ),
        Subject::Questions(questions) => {
            let Some(asked) = questions.get(step) else { return vec![format!("❓ {title}")] };
            let count = if questions.len() > 1 {
                format!(" ({} of {})", step + 1, questions.len())
            } else {
                String::new()
            };
            let description = asked
                .description
                .as_deref()
                .map(|description| format!("\n{}", short_line(description, 500)))
                .unwrap_or_default();
            let body =
                literal(&format!("{}{description}", plain::cut(&asked.text, MAX_ASKED_CHARS)));
            let secret = if asked.secret { "-# Only the agent will see the answer.\n" } else { "" };
            let below = format!("{secret}{}", option_list(asked));
            return with_quotation(&format!("❓ {title}{count}"), &body, &below);
        }
    };
    split(text.trim_end(), MAX_PIECE_CHARS)
}

/// Returns the messages with a text of the agent as a quotation between the gateway's own lines.
fn with_quotation(heading: &str, body: &str, below: &str) -> Vec<String> {
    let mut pieces: Vec<String> =
        split(body, MAX_QUOTED_CHARS).iter().map(|piece| quoted(piece)).collect();
    match pieces.first_mut() {
        Some(first) => *first = format!("{heading}\n{first}"),
        None => pieces.push(heading.to_owned()),
    }
    if !below.trim().is_empty()
        && let Some(last) = pieces.last_mut()
    {
        last.push('\n');
        last.push_str(below);
    }
    pieces.iter().flat_map(|piece| split(piece.trim_end(), MAX_PIECE_CHARS)).collect()
}

/// Returns the complete subject of a question, with a file name, if the messages do not show all of
/// it.
pub(crate) fn full_text(question: &OpenQuestion) -> Option<(&'static str, &str)> {
    let (name, text, most) = match &question.subject {
        Subject::Permission { about: Some(about), .. } if about.language == "diff" => {
            ("changes.diff", &about.text, MAX_DIFF_CHARS)
        }
        Subject::Permission { about: Some(about), .. } => {
            ("command.txt", &about.text, MAX_SUBJECT_CHARS)
        }
        Subject::Plan(plan) => ("plan.md", plan, MAX_SUBJECT_CHARS),
        _ => return None,
    };
    text.char_indices().nth(most).map(|_| (name, text.as_str()))
}

/// Returns the complete options if a button or menu would cut them.
fn option_list(asked: &Question) -> String {
    let most = if as_menu(asked) { OPTION_LABEL } else { BUTTON_LABEL };
    let plain = asked.options.iter().all(|option| option.description.is_none());
    if plain
        && asked.options.len() <= MAX_MENU_OPTIONS
        && asked.options.iter().all(|option| option.label.chars().count() <= most)
    {
        return String::new();
    }
    let described = |option: &aetheel_model::agent::QuestionChoice| match &option.description {
        Some(description) => format!("{} – {description}", option.label),
        None => option.label.clone(),
    };
    (1..)
        .zip(&asked.options)
        .map(|(number, option)| {
            format!("{number}\\. {}\n", escape(&short_line(&described(option), 400)))
        })
        .collect()
}

fn as_menu(asked: &Question) -> bool {
    asked.many || asked.options.len() > MAX_OPTION_BUTTONS
}

/// Returns the buttons and menus below a question.
pub(crate) fn rows(question: &OpenQuestion, step: usize) -> Value {
    use ButtonStyle::{Blue, Green, Grey, Red};
    let button = |choice: AskChoice, style: ButtonStyle, label: &str| {
        Button::Ask(&question.id, choice).show(label, style)
    };
    match &question.subject {
        Subject::Permission { .. } | Subject::Plan(_) => {
            let mut last = vec![];
            if question.options.is_empty() {
                last.push(button(AskChoice::Allow, Green, question.allow_label()));
                last.extend(question.always().map(|label| button(AskChoice::Always, Blue, &label)));
            }
            // The agent's own options are above the bot's, which always include one to deny.
            let style = |option: &AskOption| match (option.allows, option.scope) {
                (true, DecisionScope::Once) => Green,
                (true, _) => Blue,
                (false, _) => Grey,
            };
            let own: Vec<Value> = (0..)
                .zip(&question.options)
                .map(|(at, option)| {
                    button(
                        AskChoice::AgentOption(at),
                        style(option),
                        &question.option_label(option),
                    )
                })
                .collect();
            let mut rows: Vec<Value> =
                own.chunks(MAX_ROW_BUTTONS).map(|buttons| row(buttons.to_vec())).collect();
            if !question
                .options
                .iter()
                .any(|option| !option.allows && option.scope == DecisionScope::Once)
            {
                last.push(button(AskChoice::Deny, Grey, question.deny_label()));
            }
            last.extend([
                button(AskChoice::DenyWithReason, Grey, "Deny and say why…"),
                button(AskChoice::Stop, Red, "Deny and stop"),
            ]);
            rows.push(row(last));
            if question
                .input
                .as_ref()
                .is_some_and(|input| readable(input).chars().count() <= WINDOW)
            {
                rows.push(row(vec![button(AskChoice::Change, Grey, "Change and allow…")]));
            }
            Value::Array(rows)
        }
        Subject::SignIn(address) => {
            let mut last = vec![];
            let web = address.starts_with("https://") || address.starts_with("http://");
            if web
                && address.len() <= 512
                && !address.contains(|c: char| c.is_whitespace() || !c.is_ascii())
            {
                last.push(json!({"type": 2, "style": 5, "label": "Sign in", "url": address}));
            }
            last.extend([
                button(AskChoice::Allow, Green, "Done"),
                button(AskChoice::Deny, Grey, "Cancel"),
            ]);
            json!([row(last)])
        }
        Subject::Questions(questions) => {
            let Some(asked) = questions.get(step) else { return json!([]) };
            let mut rows = vec![];
            let labels = || asked.options.iter().take(MAX_MENU_OPTIONS).enumerate();
            let label = |at: usize, option: &str| {
                if option.is_empty() { format!("Option {}", at + 1) } else { option.to_owned() }
            };
            if as_menu(asked) {
                let options: Vec<Value> = labels()
                    .map(|(at, option)| {
                        json!({
                            "label": short_line(&label(at, &option.label), OPTION_LABEL), "value": at.to_string(),
                            "default": asked.preset.contains(&option.id),
                        })
                    })
                    .collect();
                let most = if asked.many { options.len() } else { 1 };
                rows.push(row(vec![json!({
                    "type": 3, "custom_id": Button::Ask(&question.id, AskChoice::Menu(step)).to_string(), "options": options,
                    "min_values": 1, "max_values": most, "placeholder": if asked.many { "Choose one or more" } else { "Choose one" },
                })]));
            } else if !asked.options.is_empty() {
                let buttons: Vec<Value> = labels()
                    .map(|(at, option)| {
                        button(AskChoice::Option(step, at), Blue, &label(at, &option.label))
                    })
                    .collect();
                rows.push(row(buttons));
            }
            let mut last = vec![];
            if asked.free_text || asked.options.len() > MAX_MENU_OPTIONS {
                last.push(button(AskChoice::Write(step), Blue, "Write an answer…"));
            }
            if asked.optional {
                last.push(button(AskChoice::Skip(step), Grey, "Skip"));
            }
            last.extend([
                button(AskChoice::Deny, Grey, "Deny"),
                button(AskChoice::Stop, Red, "Deny and stop"),
            ]);
            rows.push(row(last));
            Value::Array(rows)
        }
    }
}

/// Formats JSON over several lines.
fn readable(input: &str) -> String {
    serde_json::from_str::<Value>(input)
        .and_then(|value| serde_json::to_string_pretty(&value))
        .unwrap_or_else(|_| input.to_owned())
}

/// Returns the modal window for a written answer.
pub(super) fn modal(question: &OpenQuestion, choice: AskChoice) -> Value {
    let asked = match (&question.subject, choice) {
        (Subject::Questions(questions), AskChoice::Write(step)) => questions.get(step),
        _ => None,
    };
    let (title, label, value) = match (asked, choice) {
        (Some(asked), _) => ("Your answer", asked.text.clone(), asked.preset.join(", ")),
        (None, AskChoice::Write(_)) => ("Your answer", String::new(), String::new()),
        (None, AskChoice::Change) => (
            "Change and allow",
            "The input of the tool (JSON)".to_owned(),
            question.input.as_deref().map(readable).unwrap_or_default(),
        ),
        _ => ("Deny", "What should the agent know?".to_owned(), String::new()),
    };
    // Secrets, and forms other than text, need only one line.
    let needs_line =
        |asked: &Question| asked.secret || asked.single_line || asked.form != AnswerForm::Text;
    let style = if asked.is_some_and(needs_line) { 1 } else { 2 };
    let label = short_line(&label, 45);
    let label = if label.is_empty() { "Your answer" } else { &label };
    let mut field = json!({
        "type": 4, "custom_id": "text", "style": style, "label": label, "required": true, "max_length": WINDOW, "value": value,
    });
    if let Some(example) = asked.and_then(|asked| asked.placeholder.as_deref()) {
        field["placeholder"] = short_line(example, MAX_PLACEHOLDER_CHARS).into();
    }
    json!({"custom_id": Button::Ask(&question.id, choice).to_string(), "title": title, "components": [row(vec![field])]})
}

/// Returns the last message of a question, with its result.
pub(super) fn settled_text(last: &str, how: &Settlement) -> String {
    let mark = match how {
        Settlement::Answered {
            decision:
                AskDecision::AllowOnce | AskDecision::AllowAlways | AskDecision::AllowChanged(_),
            ..
        } => "✅",
        Settlement::Answered { decision: AskDecision::Chosen(_), .. } => "☑️",
        Settlement::Answered { decision: AskDecision::Answers(_), .. } => "💬",
        Settlement::Answered { decision: AskDecision::DenyAndStop, .. } => "🛑",
        Settlement::Answered { .. } => "🚫",
        Settlement::Expired => "⌛",
        Settlement::Withdrawn | Settlement::TurnEnded => "⏹️",
    };
    with_note(last, &format!("{mark} {}", escape(&short_line(&how.summary(), 250))))
}

/// Returns the message of a question that is no longer open and whose result is not known.
pub(super) fn stale_text(content: &str, restarted: bool) -> String {
    let why =
        if restarted { "No longer open: the gateway was restarted." } else { "No longer open." };
    // An earlier edit may have marked the message, although Discord's answer was lost.
    if content.contains("No longer open") {
        content.to_owned()
    } else {
        with_note(content, &format!("⏹️ {why}"))
    }
}

fn with_note(content: &str, note: &str) -> String {
    let room = MAX_MESSAGE_CHARS - note.chars().count() - 4;
    let content: String = content.trim_end().chars().take(room).collect();
    format!("{content}\n-# {note}").trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(subject: Subject) -> OpenQuestion {
        OpenQuestion {
            id: "0123456789abcdef".to_owned(),
            title: "Run **it**?".to_owned(),
            subject,
            always: None,
            options: vec![],
            input: None,
            asker: None,
            collision: None,
        }
    }

    fn bash(text: &str) -> OpenQuestion {
        question(Subject::Permission {
            tool: "Bash".to_owned(),
            about: Some(Excerpt { language: "sh", text: text.to_owned() }),
        })
    }

    fn asked(options: usize, many: bool, free_text: bool) -> OpenQuestion {
        let options = (0..options)
            .map(|number| aetheel_model::agent::QuestionChoice::plain(format!("option {number}")))
            .collect();
        let (id, text) = ("a".to_owned(), "Which?".to_owned());
        question(Subject::Questions(vec![Question {
            id,
            text,
            options,
            many,
            free_text,
            ..Question::default()
        }]))
    }

    #[test]
    fn a_command_is_shown_whole_in_a_block_it_cannot_end() {
        assert_eq!(
            pieces(&bash("echo ```\n@everyone"), 0),
            ["🔐 **Run \\*\\*it\\*\\*?**\n-# Tool: Bash\n```sh\necho ``\u{200b}`\n@everyone\n```"]
        );
        let long = "x".repeat(5_000);
        let shown = pieces(&bash(&long), 0);
        assert_eq!(shown.concat().matches('x').count(), 5_000);
        assert!(shown.iter().all(|piece| piece.chars().count() <= MAX_PIECE_CHARS
            && piece.matches("```").count() % 2 == 0));
        let cut = pieces(&bash(&"x".repeat(9_000)), 0).concat();
        assert!(cut.contains("⚠️ 1000 more characters are in the file above"), "{cut}");
        let long = bash(&"x".repeat(8_001));
        assert_eq!(
            full_text(&long).map(|(name, text)| (name, text.len())),
            Some(("command.txt", 8_001))
        );
        assert_eq!(full_text(&bash(&"x".repeat(8_000))), None);
    }

    #[test]
    fn a_subject_in_the_title_is_not_repeated_below() {
        let titled = |title: &str| OpenQuestion { title: title.to_owned(), ..bash("ls") };
        assert_eq!(pieces(&titled("Run `ls`?"), 0), ["🔐 **Run \\`ls\\`?**\n-# Tool: Bash"]);
        assert!(pieces(&titled("Run tools?"), 0)[0].contains("```sh\nls\n```"));
        assert!(
            pieces(&titled(&format!("{}`ls`", "x".repeat(400))), 0)[0].contains("```sh\nls\n```"),
            "the title is cut before it"
        );
    }

    #[test]
    fn agent_options_are_buttons_with_their_scope_and_denying_is_always_possible() {
        let option = |id: &str, label: &str, allows, scope| AskOption {
            id: id.to_owned(),
            label: label.to_owned(),
            allows,
            scope,
        };
        let options = vec![
            option("1", "Yes", true, DecisionScope::Once),
            option("2", "Yes, for this command", true, DecisionScope::Project),
            option("3", "No, never", false, DecisionScope::Always),
        ];
        let shown = rows(
            &OpenQuestion { options, input: Some(r#"{"command":"ls"}"#.to_owned()), ..bash("ls") },
            0,
        );
        let buttons = |row: usize| -> Vec<(String, u64)> {
            let row = shown[row]["components"].as_array().expect("buttons").iter();
            row.map(|button| {
                (
                    button["label"].as_str().unwrap_or_default().to_owned(),
                    button["style"].as_u64().unwrap_or_default(),
                )
            })
            .collect()
        };
        let wanted = [
            ("Allow once", 3),
            ("Always allow in this project: Yes, for this command", 1),
            ("Always deny: No, never", 2),
        ];
        assert_eq!(buttons(0), wanted.map(|(label, style)| (label.to_owned(), style)));
        assert_eq!(shown[0]["components"][1]["custom_id"], "ask:0123456789abcdef:a1");
        let ours: Vec<String> = buttons(1).into_iter().map(|(label, _)| label).collect();
        assert_eq!(ours, ["Deny", "Deny and say why…", "Deny and stop"]);
        assert_eq!(buttons(2), [("Change and allow…".to_owned(), 2)]);
    }

    #[test]
    fn a_question_shows_its_description_preset_and_skip_button() {
        let described = aetheel_model::agent::QuestionChoice {
            description: Some("as blood".to_owned()),
            ..aetheel_model::agent::QuestionChoice::plain("Red")
        };
        let asked = Question {
            id: "c".to_owned(),
            text: "Colour?".to_owned(),
            description: Some("For the wall.".to_owned()),
            options: vec![described],
            many: true,
            optional: true,
            preset: vec!["Red".to_owned()],
            secret: true,
            ..Question::default()
        };
        let question = question(Subject::Questions(vec![asked]));
        let text = pieces(&question, 0).concat();
        for part in ["For the wall.", "1\\. Red – as blood", "Only the agent"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let shown = rows(&question, 0);
        assert_eq!(shown[0]["components"][0]["options"][0]["default"], true);
        assert_eq!(shown[1]["components"][0]["label"], "Skip");
        assert_eq!(
            modal(&question, AskChoice::Write(0))["components"][0]["components"][0]["value"],
            "Red"
        );
    }

    #[test]
    fn few_options_are_buttons_and_many_are_a_menu() {
        let kinds = |question: &OpenQuestion| -> Vec<u64> {
            let rows = rows(question, 0);
            let rows = rows.as_array().expect("rows").iter();
            rows.flat_map(|row| row["components"].as_array().expect("components"))
                .filter_map(|part| part["type"].as_u64())
                .collect()
        };
        assert_eq!(kinds(&asked(2, false, false)), [2, 2, 2, 2]);
        assert_eq!(kinds(&asked(0, false, true)), [2, 2, 2]);
        assert_eq!(kinds(&asked(5, false, false)), [3, 2, 2]);
        assert_eq!(kinds(&asked(2, true, true)), [3, 2, 2, 2]);
        let menu = &rows(&asked(60, true, false), 0)[0]["components"][0];
        assert_eq!(
            (menu["options"].as_array().expect("options").len(), menu["max_values"].as_u64()),
            (25, Some(25))
        );
        assert!(
            pieces(&asked(60, true, false), 0)[0].contains("60\\. option 59"),
            "the others are listed and can be typed"
        );
    }

    #[test]
    fn the_result_of_a_question_always_fits_below_it() {
        let decision = AskDecision::Deny(Some("no *really* no ".repeat(100)));
        let how = Settlement::Answered { by: "ann".to_owned(), decision };
        let text = settled_text(&"x".repeat(1_990), &how);
        assert!(
            text.chars().count() <= 2_000 && text.contains("Denied by ann: no \\*really\\*"),
            "{text}"
        );
        assert_eq!(
            stale_text(&stale_text("Run it?", true), false),
            "Run it?\n-# ⏹️ No longer open: the gateway was restarted."
        );
    }
}
