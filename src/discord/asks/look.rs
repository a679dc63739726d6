//! What a question looks like in Discord: its text, its buttons and menus, and what stands below when it is over. Pure.

use serde_json::{Value, json};

use super::press::Choice;
use crate::agent::{Decision, Question};
use crate::discord::mention::one_line;
use crate::dispatch::{Excerpt, OpenQuestion, Settlement, Subject};
use crate::split::split;

/// Characters of a message with a question; leaves room for what became of it.
const PIECE: usize = 1_650;
/// Characters shown of a command or plan, and of changes.
const WHOLE: usize = 8_000;
const CHANGES: usize = 1_400;
/// Options that are buttons rather than a menu.
const BUTTONS: usize = 4;
/// Options of one menu.
const MENU: usize = 25;
/// Characters of a button's and of an option's label.
const BUTTON_LABEL: usize = 80;
const OPTION_LABEL: usize = 100;

/// A question's messages; the last one has the buttons. `step` counts the questions of a list from 0.
pub(super) fn pieces(question: &OpenQuestion, step: usize) -> Vec<String> {
    let title = escape(&one_line(&question.title, 300));
    let text = match &question.subject {
        Subject::Permission { tool, about } => {
            let block = about.as_ref().map_or_else(String::new, block);
            format!("🔐 **{title}**\n-# {}\n{block}", escape(&one_line(tool, 100)))
        }
        Subject::Plan(plan) => {
            let (shown, note) = cut(plan, WHOLE);
            format!("📋 **{title}**\n{shown}\n{note}")
        }
        Subject::SignIn(address) => format!("🔑 **{title}**\n{}", block(&Excerpt { language: "", text: one_line(address, 1_000) })),
        Subject::Questions(questions) => {
            let Some(asked) = questions.get(step) else { return vec![format!("❓ **{title}**")] };
            let count = if questions.len() > 1 { format!(" ({} of {})", step + 1, questions.len()) } else { String::new() };
            format!("❓ **{title}**{count}\n{}\n{}", cut(&asked.text, 1_000).0, listed(asked))
        }
    };
    split(text.trim_end(), PIECE)
}

/// What a question is about, where its messages do not show all of it: a name for the file, and the whole.
pub(super) fn in_full(question: &OpenQuestion) -> Option<(&'static str, &str)> {
    let (name, text, most) = match &question.subject {
        Subject::Permission { about: Some(about), .. } if about.language == "diff" => ("changes.diff", &about.text, CHANGES),
        Subject::Permission { about: Some(about), .. } => ("command.txt", &about.text, WHOLE),
        Subject::Plan(plan) => ("plan.md", plan, WHOLE),
        _ => return None,
    };
    text.char_indices().nth(most).map(|_| (name, text.as_str()))
}

/// The options in full, where a button or menu would cut them.
fn listed(asked: &Question) -> String {
    let most = if as_menu(asked) { OPTION_LABEL } else { BUTTON_LABEL };
    if asked.options.len() <= MENU && asked.options.iter().all(|option| option.chars().count() <= most) {
        return String::new();
    }
    (1..).zip(&asked.options).map(|(number, option)| format!("{number}\\. {}\n", escape(&one_line(option, 400)))).collect()
}

fn as_menu(asked: &Question) -> bool {
    asked.many || asked.options.len() > BUTTONS
}

/// A code block that its content cannot end.
fn block(about: &Excerpt) -> String {
    let (shown, note) = cut(&about.text, if about.language == "diff" { CHANGES } else { WHOLE });
    format!("```{}\n{}\n```{note}", about.language, shown.replace("```", "``\u{200b}`"))
}

fn cut(text: &str, most: usize) -> (&str, String) {
    match text.char_indices().nth(most) {
        None => (text, String::new()),
        Some((at, _)) => (&text[..at], format!("\n⚠️ {} more characters are in the file above.", text[at..].chars().count())),
    }
}

/// Words as words: no formatting, no links, no mentions.
pub(in crate::discord) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if "\\*_~`|>#[]()<".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// The buttons and menus below a question.
pub(super) fn rows(question: &OpenQuestion, step: usize) -> Value {
    let button = |choice: Choice, style: u8, label: &str| json!({"type": 2, "style": style, "label": one_line(label, BUTTON_LABEL), "custom_id": choice.custom_id(&question.id)});
    match &question.subject {
        Subject::Permission { .. } | Subject::Plan(_) => {
            let mut row = vec![button(Choice::Allow, 3, "Allow")];
            if let Some(label) = &question.always {
                let label = if label.is_empty() { "Always for this session" } else { label };
                row.push(button(Choice::Always, 1, label));
            }
            row.extend([
                button(Choice::Deny, 2, "Deny"),
                button(Choice::Why, 2, "Deny and say why…"),
                button(Choice::Stop, 4, "Deny and stop"),
            ]);
            json!([{"type": 1, "components": row}])
        }
        Subject::SignIn(address) => {
            let mut row = vec![];
            let web = address.starts_with("https://") || address.starts_with("http://");
            if web && address.len() <= 512 && !address.contains(|c: char| c.is_whitespace() || !c.is_ascii()) {
                row.push(json!({"type": 2, "style": 5, "label": "Sign in", "url": address}));
            }
            row.extend([button(Choice::Allow, 3, "Done"), button(Choice::Deny, 2, "Cancel")]);
            json!([{"type": 1, "components": row}])
        }
        Subject::Questions(questions) => {
            let Some(asked) = questions.get(step) else { return json!([]) };
            let mut rows = vec![];
            let labels = || asked.options.iter().take(MENU).enumerate();
            let label = |at: usize, option: &str| if option.is_empty() { format!("Option {}", at + 1) } else { option.to_owned() };
            if as_menu(asked) {
                let options: Vec<Value> = labels()
                    .map(|(at, option)| json!({"label": one_line(&label(at, option), OPTION_LABEL), "value": at.to_string()}))
                    .collect();
                let most = if asked.many { options.len() } else { 1 };
                rows.push(json!({"type": 1, "components": [{
                    "type": 3, "custom_id": Choice::Menu(step).custom_id(&question.id), "options": options,
                    "min_values": 1, "max_values": most, "placeholder": if asked.many { "Choose one or more" } else { "Choose one" },
                }]}));
            } else if !asked.options.is_empty() {
                let buttons: Vec<Value> = labels().map(|(at, option)| button(Choice::Option(step, at), 1, &label(at, option))).collect();
                rows.push(json!({"type": 1, "components": buttons}));
            }
            let mut row = vec![];
            if asked.free_text || asked.options.len() > MENU {
                row.push(button(Choice::Write(step), 1, "Write an answer…"));
            }
            row.extend([button(Choice::Deny, 2, "Decline"), button(Choice::Stop, 4, "Decline and stop")]);
            rows.push(json!({"type": 1, "components": row}));
            Value::Array(rows)
        }
    }
}

/// The window in which words are written.
pub(super) fn modal(question: &OpenQuestion, choice: Choice) -> Value {
    let (title, label) = match (&question.subject, choice) {
        (Subject::Questions(questions), Choice::Write(step)) => {
            ("Your answer", questions.get(step).map_or_else(String::new, |asked| asked.text.clone()))
        }
        _ => ("Deny", "What should the agent know?".to_owned()),
    };
    let label = one_line(&label, 45);
    let label = if label.is_empty() { "Your answer" } else { &label };
    json!({"custom_id": choice.custom_id(&question.id), "title": title, "components": [{"type": 1, "components": [{
        "type": 4, "custom_id": "text", "style": 2, "label": label, "required": true, "max_length": 2_000,
    }]}]})
}

/// A question's last message once it is over.
pub(super) fn over(last: &str, how: &Settlement) -> String {
    let sign = match how {
        Settlement::Answered { decision: Decision::AllowOnce | Decision::AllowAlways, .. } => "✅",
        Settlement::Answered { decision: Decision::Answers(_), .. } => "💬",
        Settlement::Answered { decision: Decision::DenyAndStop, .. } => "🛑",
        Settlement::Answered { .. } => "🚫",
        Settlement::Expired => "⌛",
        Settlement::Withdrawn | Settlement::TurnEnded => "⏹️",
    };
    with_note(last, &format!("{sign} {}", escape(&one_line(&how.told(), 250))))
}

/// A message of an earlier life of the program.
pub(super) fn stale(content: &str, restarted: bool) -> String {
    let why = if restarted { "No longer open: the gateway was restarted." } else { "No longer open." };
    // It may have been said already, by an edit whose answer was lost.
    if content.contains("No longer open") { content.to_owned() } else { with_note(content, &format!("⏹️ {why}")) }
}

fn with_note(content: &str, note: &str) -> String {
    let room = 2_000 - note.chars().count() - 4;
    let content: String = content.trim_end().chars().take(room).collect();
    format!("{content}\n-# {note}").trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(subject: Subject) -> OpenQuestion {
        OpenQuestion { id: "0123456789abcdef".to_owned(), title: "Run **it**?".to_owned(), subject, always: None }
    }

    fn bash(text: &str) -> OpenQuestion {
        question(Subject::Permission { tool: "Bash".to_owned(), about: Some(Excerpt { language: "sh", text: text.to_owned() }) })
    }

    fn asked(options: usize, many: bool, free_text: bool) -> OpenQuestion {
        let options = (0..options).map(|number| format!("option {number}")).collect();
        question(Subject::Questions(vec![Question { id: "a".to_owned(), text: "Which?".to_owned(), options, many, free_text }]))
    }

    #[test]
    fn a_command_is_shown_whole_in_a_block_it_cannot_end() {
        assert_eq!(
            pieces(&bash("echo ```\n@everyone"), 0),
            ["🔐 **Run \\*\\*it\\*\\*?**\n-# Bash\n```sh\necho ``\u{200b}`\n@everyone\n```"]
        );
        let long = "x".repeat(5_000);
        let shown = pieces(&bash(&long), 0);
        assert_eq!(shown.concat().matches('x').count(), 5_000);
        assert!(shown.iter().all(|piece| piece.chars().count() <= PIECE && piece.matches("```").count() % 2 == 0));
        let cut = pieces(&bash(&"x".repeat(9_000)), 0).concat();
        assert!(cut.contains("⚠️ 1000 more characters are in the file above"), "{cut}");
        let long = bash(&"x".repeat(8_001));
        assert_eq!(in_full(&long).map(|(name, text)| (name, text.len())), Some(("command.txt", 8_001)));
        assert_eq!(in_full(&bash(&"x".repeat(8_000))), None);
    }

    #[test]
    fn few_options_are_buttons_and_many_are_a_menu() {
        let kinds = |question: &OpenQuestion| -> Vec<u64> {
            let rows = rows(question, 0);
            let rows = rows.as_array().expect("rows").iter();
            rows.flat_map(|row| row["components"].as_array().expect("components")).filter_map(|part| part["type"].as_u64()).collect()
        };
        assert_eq!(kinds(&asked(2, false, false)), [2, 2, 2, 2]);
        assert_eq!(kinds(&asked(0, false, true)), [2, 2, 2]);
        assert_eq!(kinds(&asked(5, false, false)), [3, 2, 2]);
        assert_eq!(kinds(&asked(2, true, true)), [3, 2, 2, 2]);
        let menu = &rows(&asked(60, true, false), 0)[0]["components"][0];
        assert_eq!((menu["options"].as_array().expect("options").len(), menu["max_values"].as_u64()), (25, Some(25)));
        assert!(pieces(&asked(60, true, false), 0)[0].contains("60\\. option 59"), "the others can be read and written");
    }

    #[test]
    fn what_became_of_a_question_always_fits_below_it() {
        let decision = Decision::Deny(Some("no *really* no ".repeat(100)));
        let how = Settlement::Answered { by: "ann".to_owned(), decision };
        let text = over(&"x".repeat(1_990), &how);
        assert!(text.chars().count() <= 2_000 && text.contains("Denied by ann: no \\*really\\*"), "{text}");
        assert_eq!(stale(&stale("Run it?", true), false), "Run it?\n-# ⏹️ No longer open: the gateway was restarted.");
    }
}
