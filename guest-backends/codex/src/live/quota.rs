//! The allowances of the account (`account/rateLimits/updated`, Codex 0.169.0).

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::renewal;
use aetheel_backend_sdk::wit::Quota;

/// Returns the allowances in a notification. The list is empty for an account without any, such as
/// one with a key.
///
/// An allowance is used up if all of it is used, or if Codex names the kind of limit that refuses
/// requests (`rateLimitReachedType`) and this allowance is the most used one.
pub(super) fn of(limits: &Value) -> Vec<Quota> {
    let mut all: Vec<Quota> =
        ["primary", "secondary"].into_iter().filter_map(|id| window(id, &limits[id])).collect();
    let is_reached = limits.text("rateLimitReachedType").is_some();
    if is_reached && all.iter().all(|quota| !quota.exhausted) {
        let used = |quota: &Quota| quota.used_percent.unwrap_or_default();
        if let Some(most) = all.iter_mut().max_by(|one, other| used(one).total_cmp(&used(other))) {
            most.exhausted = true;
        }
    }
    all
}

fn window(id: &str, window: &Value) -> Option<Quota> {
    let used = window.number("usedPercent")?;
    let label = match window.count("windowDurationMins") {
        Some(minutes) if minutes > 0 && minutes % 1_440 == 0 => {
            format!("Codex, {} days", minutes / 1_440)
        }
        Some(minutes) if minutes > 0 && minutes % 60 == 0 => {
            format!("Codex, {} hours", minutes / 60)
        }
        Some(minutes) if minutes > 0 => format!("Codex, {minutes} minutes"),
        _ => format!("Codex, {id}"),
    };
    Some(Quota {
        id: id.to_owned(),
        label,
        used_percent: Some(used.clamp(0.0, 100.0)),
        resets: window.number("resetsAt").and_then(renewal::timestamp),
        exhausted: used >= 100.0,
    })
}

#[cfg(test)]
mod tests {
    use aetheel_backend_sdk::json;

    use super::*;

    fn of_text(text: &str) -> Vec<(String, Option<String>, bool)> {
        let all = of(&json::parse(text).expect("JSON"));
        all.into_iter().map(|quota| (quota.label, quota.resets, quota.exhausted)).collect()
    }

    #[test]
    fn each_window_is_an_allowance_and_the_reached_one_is_used_up() {
        let window = |used: u32, minutes: u32| {
            format!(
                r#"{{"usedPercent":{used},"windowDurationMins":{minutes},"resetsAt":1764165900}}"#
            )
        };
        let both = |primary: u32, reached: &str| {
            let (five, week) = (window(primary, 300), window(40, 10_080));
            format!(r#"{{"primary":{five},"secondary":{week},"rateLimitReachedType":{reached}}}"#)
        };
        let resets = Some("2025-11-26T14:05:00Z".to_owned());
        let wanted = |exhausted| {
            vec![
                ("Codex, 5 hours".to_owned(), resets.clone(), exhausted),
                ("Codex, 7 days".to_owned(), resets.clone(), false),
            ]
        };
        assert_eq!(of_text(&both(100, "null")), wanted(true));
        assert_eq!(of_text(&both(99, "null")), wanted(false));
        assert_eq!(of_text(&both(99, r#""rate_limit_reached""#)), wanted(true));
        assert_eq!(of_text(r#"{"primary":null,"secondary":null,"rateLimitReachedType":null}"#), []);
        assert_eq!(of_text(r#"{"primary":{"usedPercent":"many"}}"#), []);
    }
}
