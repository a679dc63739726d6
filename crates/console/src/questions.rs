//! Prints questions of agents at the terminal, and interprets typed lines as answers. The first
//! open question is the one on the screen.

use std::collections::VecDeque;
use std::fmt::Write as _;

use aetheel_dispatch::{Excerpt, OpenQuestion, Settlement, Subject};
use aetheel_model::agent::{AskDecision, Question};
use aetheel_model::plain::counted;

/// Largest number of lines of a command or change that are printed.
const MAX_PRINTED_LINES: usize = 60;

/// The open questions, oldest first.
#[derive(Debug, Default)]
pub(crate) struct OpenQuestions {
    open: VecDeque<PendingQuestion>,
}

#[derive(Debug)]
struct PendingQuestion {
    question: OpenQuestion,
    /// Answers to the first of several questions.
    given: Vec<(String, Vec<String>)>,
}

/// The interpretation of a typed line.
#[derive(Debug, PartialEq)]
pub(crate) enum AnswerLine {
    /// A decision about the question with this id.
    Decision(String, AskDecision),
    /// The text of the next question, which must be answered before the decision.
    More(String),
    /// A message that lists the valid answers, because the line is not one of them.
    Unclear(String),
}

impl OpenQuestions {
    /// Adds a question. Returns the text to print if it is the next to be answered. `above` is the
    /// line of a tool if it is directly above the question.
    pub(crate) fn ask(&mut self, question: &OpenQuestion, above: Option<&str>) -> Option<String> {
        self.open.push_back(PendingQuestion { question: question.clone(), given: Vec::new() });
        (self.open.len() == 1).then(|| printed(question, above))
    }

    /// Removes a question. Returns the text to print: the outcome, and the next question.
    pub(crate) fn settle(&mut self, id: &str, how: &Settlement) -> Option<String> {
        let at = self.open.iter().position(|pending| pending.question.id == id)?;
        let pending = self.open.remove(at)?;
        let mut text = format!("  {}\n", outcome(&pending.question.subject, how));
        if at == 0 {
            text.push_str(&self.printed().unwrap_or_default());
        }
        Some(text)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.open.iter().map(|pending| pending.question.id.clone()).collect()
    }

    /// Interprets a line as an answer to the first question. Returns `None` if there is no open
    /// question.
    pub(crate) fn answer(&mut self, line: &str) -> Option<AnswerLine> {
        let pending = self.open.front_mut()?;
        let id = pending.question.id.clone();
        let line = line.trim();
        let Subject::Questions(questions) = &pending.question.subject else {
            let decision = decision(&pending.question, line);
            return Some(decision.map_or_else(
                || {
                    AnswerLine::Unclear(format!(
                        "please answer with one of: {}",
                        words(&pending.question)
                    ))
                },
                |decision| AnswerLine::Decision(id, decision),
            ));
        };
        let Some(asked) = questions.get(pending.given.len()) else {
            return Some(AnswerLine::Decision(id, AskDecision::Answers(pending.given.clone())));
        };
        if line.parse() == Ok(asked.options.len() + 1) {
            return Some(AnswerLine::Decision(id, AskDecision::Declined));
        }
        match chosen(asked, line) {
            Some(values) => pending.given.push((asked.id.clone(), values)),
            None => return Some(AnswerLine::Unclear(expected_answer(asked))),
        }
        Some(match questions.get(pending.given.len()) {
            Some(next) => AnswerLine::More(describe_question(next)),
            None => {
                AnswerLine::Decision(id, AskDecision::Answers(std::mem::take(&mut pending.given)))
            }
        })
    }

    fn printed(&self) -> Option<String> {
        self.open.front().map(|pending| printed(&pending.question, None))
    }
}

/// Describes the outcome of a question, with the words of a plan or a sign-in if it is one.
fn outcome(subject: &Subject, how: &Settlement) -> String {
    let Settlement::Answered { by, decision } = how else { return how.summary() };
    match (subject, decision) {
        (Subject::Plan(_), AskDecision::AllowOnce) => format!("Plan accepted by {by}"),
        (Subject::Plan(_), AskDecision::Deny(None)) => format!("Plan refused by {by}"),
        (Subject::SignIn(_), AskDecision::AllowOnce) => format!("Signed in by {by}"),
        (Subject::SignIn(_), AskDecision::Deny(None)) => format!("Sign-in cancelled by {by}"),
        _ => how.summary(),
    }
}

fn words(question: &OpenQuestion) -> String {
    question.choices().iter().map(|(word, ..)| *word).collect::<Vec<_>>().join(", ")
}

/// Parses a decision: a word, or the number before it on the screen.
fn decision(question: &OpenQuestion, line: &str) -> Option<AskDecision> {
    let numbered = |number: usize| question.choices().into_iter().nth(number.checked_sub(1)?);
    match line.parse().ok().and_then(numbered) {
        Some((_, _, decision)) => Some(decision),
        None => question.parse_decision(line),
    }
}

/// Parses the chosen options, or an answer in free text. Returns `None` if the line is neither.
fn chosen(asked: &Question, line: &str) -> Option<Vec<String>> {
    let option = |word: &str| {
        let numbered =
            word.parse::<usize>().ok().and_then(|number| asked.options.get(number.checked_sub(1)?));
        let named = || {
            asked.options.iter().find(|option| option.label.to_lowercase() == word.to_lowercase())
        };
        numbered.or_else(named).map(|option| option.id.clone())
    };
    if let Some(one) = option(line) {
        return Some(vec![one]);
    }
    if asked.many {
        let several: Option<Vec<String>> =
            line.split(',').map(|word| option(word.trim())).collect();
        if let Some(several) = several.filter(|several| !several.is_empty()) {
            return Some(several);
        }
    }
    if line.is_empty() && (asked.optional || !asked.preset.is_empty()) {
        return Some(asked.preset.clone());
    }
    (asked.free_text && !line.is_empty()).then(|| vec![line.to_owned()])
}

/// Describes the valid answers to a question.
fn expected_answer(asked: &Question) -> String {
    if asked.many {
        return "please answer with numbers, separated by commas".to_owned();
    }
    format!("please answer with a number from 1 to {}", asked.options.len() + 1)
}

/// Formats a question. The command is left out if the line of the tool above shows it completely.
fn printed(question: &OpenQuestion, above: Option<&str>) -> String {
    let mut said = question.statement();
    if let (Some(said), Subject::Permission { tool, .. }) = (&mut said, &question.subject) {
        let repeats = |about: &&Excerpt| above == Some(format!("{tool} {}", about.text).as_str());
        said.about = said.about.filter(|about| !repeats(about));
    }
    let heading = said.as_ref().map_or(&question.title, |said| &said.heading);
    let mut text = format!("? {heading}\n");
    if let Some(tool) = said.as_ref().and_then(|said| said.tool) {
        let _ = writeln!(text, "  {tool}");
    }
    if let Some(note) = question.collision_note() {
        let _ = writeln!(text, "  ! {note}");
    }
    let about = match &question.subject {
        Subject::Permission { .. } => {
            said.and_then(|said| said.about).map_or("", |about| about.text.as_str())
        }
        Subject::Plan(plan) => plan,
        Subject::SignIn(address) => address,
        Subject::Questions(questions) => {
            return text + &questions.first().map(describe_question).unwrap_or_default();
        }
    };
    for line in about.lines().take(MAX_PRINTED_LINES) {
        let _ = writeln!(text, "  | {line}");
    }
    let more = about.lines().count().saturating_sub(MAX_PRINTED_LINES);
    if more > 0 {
        let _ =
            writeln!(text, "  … {}; the recording contains all of it", counted(more, "more line"));
    }
    for (number, (_, label, _)) in (1..).zip(question.choices()) {
        let _ = writeln!(text, "  {number}) {label}");
    }
    if let Some(input) = &question.input {
        let _ = writeln!(text, "  `change JSON` allows it with another input instead of {input}");
    }
    text
}

/// Formats one question of a list, with its options.
fn describe_question(asked: &Question) -> String {
    let mut text = format!("  {}\n", asked.text);
    if let Some(said) = &asked.description {
        let _ = writeln!(text, "  {said}");
    }
    for (number, option) in (1..).zip(&asked.options) {
        let said =
            option.description.as_deref().map(|said| format!(" – {said}")).unwrap_or_default();
        let _ = writeln!(text, "  {number}) {}{said}", option.label);
    }
    let _ = writeln!(text, "  {}) Deny", asked.options.len() + 1);
    if asked.many {
        text.push_str("  Several may be chosen: 1,2\n");
    }
    match (asked.preset.is_empty(), asked.optional) {
        (false, _) => {
            let _ = writeln!(text, "  Default (press Enter): {}", asked.preset.join(", "));
        }
        (true, true) => text.push_str("  It is optional: press Enter to skip it.\n"),
        (true, false) => {}
    }
    if asked.free_text {
        text.push_str("  Anything else is your answer in your own words.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(subject: Subject, always: Option<&str>) -> OpenQuestion {
        OpenQuestion {
            id: "q".to_owned(),
            title: "May I?".to_owned(),
            subject,
            always: always.map(str::to_owned),
            options: vec![],
            input: None,
            asker: None,
            collision: None,
        }
    }

    fn permission(always: Option<&str>) -> OpenQuestion {
        question(Subject::Permission { tool: "Bash".to_owned(), about: None }, always)
    }

    fn typed(question: &OpenQuestion, line: &str) -> Option<AskDecision> {
        let mut waiting = OpenQuestions::default();
        waiting.ask(question, None);
        match waiting.answer(line) {
            Some(AnswerLine::Decision(_, decision)) => Some(decision),
            _ => None,
        }
    }

    #[test]
    fn a_permission_is_answered_by_number_or_word_with_an_optional_reason() {
        let both = permission(Some("Always make"));
        for (line, decision) in [
            ("1", Some(AskDecision::AllowOnce)),
            (" Allow ", Some(AskDecision::AllowOnce)),
            ("y", Some(AskDecision::AllowOnce)),
            ("always", Some(AskDecision::AllowAlways)),
            ("2", Some(AskDecision::AllowAlways)),
            ("3", Some(AskDecision::Deny(None))),
            ("deny not on a Friday", Some(AskDecision::Deny(Some("not on a Friday".to_owned())))),
            ("no way", Some(AskDecision::Deny(Some("way".to_owned())))),
            ("stop", Some(AskDecision::DenyAndStop)),
            ("allow but be careful", None),
            ("5", None),
            ("what?", None),
        ] {
            assert_eq!(typed(&both, line), decision, "{line}");
        }
        assert_eq!(typed(&permission(None), "always"), None, "it is not offered");
        assert_eq!(typed(&permission(None), "2"), Some(AskDecision::Deny(None)));
        let sign_in = question(Subject::SignIn("https://example.com".to_owned()), None);
        assert_eq!(
            (typed(&sign_in, "done"), typed(&sign_in, "cancel")),
            (Some(AskDecision::AllowOnce), Some(AskDecision::Deny(None)))
        );
    }

    #[test]
    fn a_command_that_the_line_above_shows_completely_is_not_repeated() {
        let about = Excerpt { language: "sh", text: "ls -l".to_owned() };
        let subject = Subject::Permission { tool: "Bash".to_owned(), about: Some(about) };
        let asked = OpenQuestion { title: "Bash: ls -l".to_owned(), ..question(subject, None) };
        let printed =
            |above| OpenQuestions::default().ask(&asked, above).expect("the first question");
        assert!(printed(Some("Bash ls -l")).starts_with("? Allow Bash?\n  1) Allow once\n"));
        for above in [None, Some("Bash ls"), Some("Read ls -l")] {
            let printed = printed(above);
            assert!(printed.starts_with("? Allow Bash?\n  | ls -l\n  1) Allow"), "{printed}");
        }
    }

    #[test]
    fn several_questions_are_answered_one_line_each() {
        let asked = |id: &str, many, free_text| Question {
            id: id.to_owned(),
            text: format!("{id}?"),
            options: vec!["Red".into(), "Green".into()],
            many,
            free_text,
            ..Question::default()
        };
        let mut waiting = OpenQuestions::default();
        let list = question(
            Subject::Questions(vec![
                asked("one", false, false),
                asked("some", true, false),
                asked("any", false, true),
            ]),
            None,
        );
        assert!(
            waiting.ask(&list, None).expect("printed").contains("1) Red\n  2) Green\n  3) Deny")
        );
        assert!(waiting.ask(&permission(None), None).is_none(), "one after the other");
        assert!(matches!(waiting.answer("blue"), Some(AnswerLine::Unclear(_))));
        assert!(
            matches!(waiting.answer("green"), Some(AnswerLine::More(text)) if text.contains("some?"))
        );
        assert!(matches!(waiting.answer("1, 2"), Some(AnswerLine::More(_))));
        let answers = [
            ("one", vec!["Green"]),
            ("some", vec!["Red", "Green"]),
            ("any", vec!["a shade of grey"]),
        ];
        let answers = answers
            .map(|(id, values)| (id.to_owned(), values.into_iter().map(str::to_owned).collect()))
            .to_vec();
        assert_eq!(
            waiting.answer("a shade of grey"),
            Some(AnswerLine::Decision("q".to_owned(), AskDecision::Answers(answers)))
        );
        assert_eq!(
            waiting.answer("3"),
            Some(AnswerLine::Decision("q".to_owned(), AskDecision::Declined))
        );
        assert!(
            waiting.settle("q", &Settlement::Expired).expect("printed").contains("May I?"),
            "the next one is printed"
        );
    }
    #[test]
    fn the_outcome_of_a_plan_and_of_a_sign_in_has_their_words() {
        let how = |decision| Settlement::Answered { by: "you".to_owned(), decision };
        for (subject, decision, wanted) in [
            (Subject::Plan("1. x".to_owned()), AskDecision::AllowOnce, "Plan accepted by you"),
            (Subject::Plan("1. x".to_owned()), AskDecision::Deny(None), "Plan refused by you"),
            (Subject::SignIn("https://x".to_owned()), AskDecision::AllowOnce, "Signed in by you"),
        ] {
            let mut open = OpenQuestions::default();
            open.ask(&question(subject, None), None);
            assert_eq!(open.settle("q", &how(decision)), Some(format!("  {wanted}\n")));
        }
    }
}
