//! Saves and loads the state of an idle link. Another version of the backend continues with the
//! same server and stream.

use aetheel_backend_sdk::json::{self, Value};
use serde_json::json;

use super::OpenCode;
use super::server::Stream;
use super::session::{Model, Session};

/// The version of the format. States in other formats are rejected.
const FORM: u32 = 1;

impl OpenCode {
    /// Returns the saved state, or `None` if another instance could not continue, for example
    /// because a request is open.
    pub(super) fn to_save(&self, proc: u32) -> Option<String> {
        let stream = self.stream.as_ref().filter(|stream| stream.open)?.key;
        if !self.link.is_quiet()
            || !self.listings.is_empty()
            || self.sessions.values().any(|session| session.stray || session.compaction.is_some())
        {
            return None;
        }
        let sessions: Vec<_> = self.sessions.values().filter_map(Session::to_save).collect();
        let state = json!({
            "form": FORM, "last": self.link.last, "proc": proc, "stream": stream, "sessions": sessions, "defaults": self.defaults.iter().collect::<Vec<_>>(),
        });
        Some(state.to_string())
    }

    /// Returns the loaded link and the server's process.
    pub(super) fn saved(state: &str) -> Result<(Self, u32), String> {
        let state =
            json::parse(state).map_err(|error| format!("the state is not JSON: {error}"))?;
        if state.count("form") != Some(FORM) {
            return Err(
                "the state has an unknown format; the sessions are resumed instead".to_owned()
            );
        }
        let key = |of: &Value, key: &str| {
            of.count(key).ok_or_else(|| format!("the state has no `{key}`"))
        };
        let mut live = Self {
            stream: Some(Stream { key: key(&state, "stream")?, open: true, delivered: true }),
            ..Self::default()
        };
        live.link.last = key(&state, "last")?;
        let text = |of: &Value, key: &str| of.text(key).map(str::to_owned);
        for saved in state.list("sessions") {
            let (Some(cwd), Some(native)) = (text(saved, "cwd"), text(saved, "native")) else {
                return Err("the state has a session without an id or a directory".to_owned());
            };
            let mut session = Session::saved(
                key(saved, "key")?,
                cwd,
                native,
                text(saved, "rules"),
                saved.is_true("chosen"),
                text(saved, "served-in"),
            );
            session.title = text(saved, "title");
            session.model = model(&saved["model"]);
            session.allowed.extend(saved.list("allowed").iter().filter_map(allowed));
            live.sessions.insert(session.key, session);
        }
        for default in state.list("defaults") {
            if let Some([directory, of]) = default.as_array()
                && let (Some(directory), Some(model)) = (directory.as_str(), model(of))
            {
                live.defaults.insert(directory.to_owned(), model);
            }
        }
        Ok((live, key(&state, "proc")?))
    }
}

fn model(of: &Value) -> Option<Model> {
    let [provider, model] = of.as_array()? else { return None };
    Some((provider.as_str()?.to_owned(), model.as_str()?.to_owned()))
}

fn allowed(of: &Value) -> Option<(String, Vec<String>)> {
    let [permission, patterns] = of.as_array()? else { return None };
    let patterns =
        patterns.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    Some((permission.as_str()?.to_owned(), patterns))
}

#[cfg(test)]
mod tests {
    use aetheel_backend_sdk::Backend as _;

    use super::*;
    use crate::Live;

    #[test]
    fn a_saved_state_is_loaded_without_changes() {
        let state = r#"{"allowed":[["bash",["touch *"]]],"chosen":true,"cwd":"/srv/proj","key":1,"model":["a","b/c"],"native":"ses_1","rules":"[]","served-in":"/srv/proj","title":"T"}"#;
        let state = format!(
            r#"{{"defaults":[["/srv/proj",["a","d"]]],"form":1,"last":41,"proc":9,"sessions":[{state}],"stream":11}}"#
        );
        let mut live = Live::default();
        live.load(&state, "0.1.0").expect("the form is the same");
        let saved = live.save().expect("the link is idle");
        assert_eq!(json::parse(&saved).expect("JSON"), json::parse(&state).expect("JSON"));
        assert!(live.load(&state.replace("\"form\":1", "\"form\":2"), "0.9.0").is_err());
    }
}
