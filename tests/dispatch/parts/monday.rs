use std::sync::Arc;

use aetheel_dispatch::{PartOfTurn, TurnContext, TurnPart};
use aetheel_model::event::EventKind;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;

/// Greets people below the answers of a Monday.
pub struct MondayGreeting {
    /// The time zone in which the Monday begins.
    pub zone: TimeZone,
}

struct Greeting {
    author: Option<String>,
}

impl TurnPart for MondayGreeting {
    fn name(&self) -> &'static str {
        "monday"
    }

    fn join(&self, turn: &Arc<TurnContext>) -> Option<Box<dyn PartOfTurn>> {
        let is_monday = turn.now().to_zoned(self.zone.clone()).weekday() == Weekday::Monday;
        if !is_monday || turn.event.kind != EventKind::Message {
            return None;
        }
        Some(Box::new(Greeting { author: turn.event.author.clone() }))
    }
}

impl PartOfTurn for Greeting {
    fn notices(&mut self, notices: &mut Vec<String>) {
        let name = self.author.as_deref().unwrap_or("everybody");
        notices.push(format!("Have a good week, {name}!"));
    }
}
