//! The answer to `/schedules`: the turns that agents asked for, in pages, with a button that removes
//! each. Pure.
//!
//! A button contains everything about its choice, so that it works after a restart.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Response, page};
use crate::button::{Button, ButtonStyle, row};
use aetheel_model::event::AgentCause;
use aetheel_model::plain::{counted, short_line};
use aetheel_store::workspace::AgentSchedule;

/// Number of turns on a page: a row of buttons in Discord has five places.
const PAGE: usize = 5;
/// Maximum length of a prompt and of a name in the list, in characters.
const MAX_PROMPT_CHARS: usize = 100;
const MAX_NAME_CHARS: usize = 40;

/// Returns a page of the list, counted from 0. A page after the last one is the last one.
pub(super) fn list(turns: &[AgentSchedule], page: usize) -> Response {
    if turns.is_empty() {
        let text = "No agent asked for a later turn in this channel.";
        // An empty list of components removes the buttons of the message.
        return Response { components: json!([]), ..Response::private(text) };
    }
    let pages = turns.len().div_ceil(PAGE);
    let page = page.min(pages - 1);
    let shown = turns.iter().skip(page * PAGE).take(PAGE);
    let mut lines: Vec<String> = shown.clone().map(line).collect();
    if pages > 1 {
        let turns = counted(turns.len(), "turn");
        lines.push(format!("-# {turns}, page {} of {pages}", page + 1));
    }
    let remove = |turn: &AgentSchedule| {
        Button::RemoveLaterTurn(page, &turn.id)
            .show(&format!("Remove {}", turn.id), ButtonStyle::Red)
    };
    let mut rows = vec![row(shown.map(remove).collect())];
    let earlier = page.checked_sub(1).map(|page| (page, "Earlier"));
    let later = Some(page + 1).filter(|page| *page < pages).map(|page| (page, "Later"));
    let steps: Vec<Value> = earlier
        .into_iter()
        .chain(later)
        .map(|(page, label)| Button::LaterTurns(page).show(label, ButtonStyle::Grey))
        .collect();
    if !steps.is_empty() {
        rows.push(row(steps));
    }
    Response { components: Value::Array(rows), ..Response::private(lines.join("\n")) }
}

fn line(turn: &AgentSchedule) -> String {
    let next = turn.next.map_or(0, Timestamp::as_second);
    let short = |text: &str, most| page::escaped(&short_line(text, most));
    let kind = match (&turn.cron, turn.cause) {
        (Some(_), _) => "repeats, next".to_owned(),
        (None, AgentCause::Sleep) => "continues its work,".to_owned(),
        (None, _) => "reminder,".to_owned(),
    };
    let by = turn.asker.map(|asker| format!(", for <@{asker}>")).unwrap_or_default();
    let allowed = turn.allowed_by.as_ref();
    let allowed = allowed.map(|name| format!(", allowed by {}", short(name, MAX_NAME_CHARS)));
    let (allowed, text) = (allowed.unwrap_or_default(), short(&turn.text, MAX_PROMPT_CHARS));
    format!("`{}` {kind} <t:{next}:f>{by}{allowed}: {text}", turn.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::event::Lane;
    use aetheel_model::id::{ChannelId, UserId};
    use aetheel_store::workspace::CronTimes;

    fn turns(count: usize) -> Vec<AgentSchedule> {
        let name = "@everyone <@&5> **x** ".repeat(20);
        let turn = |number: usize| AgentSchedule {
            id: format!("{number:010x}"),
            lane: Lane::Channel(ChannelId::discord(1)),
            cause: AgentCause::Schedule,
            next: Some(Timestamp::UNIX_EPOCH),
            until: Timestamp::UNIX_EPOCH,
            naps: 0,
            asker: Some(UserId::discord(u64::MAX)),
            name: Some(name.clone()),
            allowed_by: Some(name.clone()),
            parent: None,
            cron: Some(CronTimes { expression: "0 9 * * *".repeat(50), zone: "x".repeat(500) }),
            text: "<script> @here `".repeat(500),
        };
        (0..count).map(turn).collect()
    }

    fn labels(response: &Response) -> Vec<Vec<String>> {
        let rows = response.components.as_array().into_iter().flatten();
        let label = |button: &Value| button["label"].as_str().expect("a label").to_owned();
        rows.map(|row| row["components"].as_array().expect("buttons").iter().map(label).collect())
            .collect()
    }

    #[test]
    fn each_turn_has_a_button_and_all_pages_keep_to_the_limits_of_discord() {
        let all = turns(12);
        for (at, count, steps) in
            [(0, 5, vec!["Later"]), (1, 5, vec!["Earlier", "Later"]), (2, 2, vec!["Earlier"])]
        {
            let shown = list(&all, at);
            let rows = labels(&shown);
            assert_eq!(rows[0].len(), count);
            assert_eq!(rows[1], steps);
            assert!(rows[0][0].ends_with(&all[at * PAGE].id), "{rows:?}");
            assert!(shown.text.ends_with(&format!("page {} of 3", at + 1)), "{}", shown.text);
            assert!(shown.text.chars().count() < 1_900);
            assert!(!shown.text.contains(" <@&") && !shown.text.contains("**x"), "{}", shown.text);
            let rows = shown.components.as_array().expect("rows").iter();
            for button in rows.flat_map(|row| row["components"].as_array().expect("buttons")) {
                assert!(button["custom_id"].as_str().expect("an id").len() <= 100);
            }
        }
        assert_eq!(list(&all, 9), list(&all, 2), "a page that no longer exists is the last one");
        assert_eq!(labels(&list(&turns(5), 0)).len(), 1);
        assert_eq!(list(&[], 0).components, json!([]));
    }
}
