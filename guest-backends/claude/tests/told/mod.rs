//! What a backend told in a turn, picked from its actions.
#![allow(dead_code)] // each test program uses some of it

use aetheel_backend_sdk::wit::{
    Action, EventKind, SessionReady, ToolStatus, TurnDone, Unrecognised,
};

pub fn done(actions: &[Action]) -> &TurnDone {
    let mut done = actions.iter().filter_map(|action| match action {
        Action::TurnDone(done) => Some(done),
        _ => None,
    });
    let first = done.next().expect("no turn-done");
    assert_eq!(done.next(), None, "a second turn-done");
    first
}

pub fn events(actions: &[Action]) -> impl Iterator<Item = &EventKind> {
    actions.iter().filter_map(|action| match action {
        Action::Event(event) => Some(&event.kind),
        _ => None,
    })
}

/// The text people see while the turn runs, by parts.
pub fn shown(actions: &[Action]) -> Vec<String> {
    let mut parts: Vec<(u32, String)> = Vec::new();
    for event in events(actions) {
        let EventKind::Text(text) = event else { continue };
        if !parts.iter().any(|(part, _)| *part == text.part) {
            parts.push((text.part, String::new()));
        }
        let (_, said) = parts.iter_mut().find(|(part, _)| *part == text.part).unwrap();
        if text.replace {
            said.clear();
        }
        said.push_str(&text.text);
    }
    parts.into_iter().map(|(_, said)| said).filter(|said| !said.is_empty()).collect()
}

pub fn ends(actions: &[Action]) -> Vec<(ToolStatus, &str, Option<u32>)> {
    events(actions)
        .filter_map(|event| match event {
            EventKind::ToolEnd(end) => {
                Some((end.status, end.output.as_deref().unwrap_or_default(), end.exit_code))
            }
            _ => None,
        })
        .collect()
}

pub fn notices(actions: &[Action]) -> Vec<&str> {
    events(actions)
        .filter_map(|event| match event {
            EventKind::Notice(notice) => Some(notice.as_str()),
            _ => None,
        })
        .collect()
}

pub fn ready(actions: &[Action]) -> Vec<&SessionReady> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::SessionReady(ready) => Some(ready),
            _ => None,
        })
        .collect()
}

pub fn unrecognised(actions: &[Action]) -> Vec<&Unrecognised> {
    events(actions)
        .filter_map(|event| match event {
            EventKind::Unrecognised(unknown) => Some(unknown),
            _ => None,
        })
        .collect()
}
