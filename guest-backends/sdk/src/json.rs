//! Picking fields from JSON that may have drifted: wrong types and missing fields are `None`, never an error.
//!
//! Agents print duplicate keys, fractions where whole numbers were, and new fields all the time, so output is parsed to
//! [`serde_json::Value`] first (the last duplicate wins) and only then asked for what is needed.

pub use serde_json::{Map, Value, json};

/// Fields of a JSON value by name.
pub trait Pick {
    /// Returns the text of a field.
    fn text(&self, key: &str) -> Option<&str>;
    /// Returns a field that is true.
    fn is_true(&self, key: &str) -> bool;
    /// Returns a number as a count: fractions are rounded, negative numbers are 0, large ones `u32::MAX`.
    fn count(&self, key: &str) -> Option<u32>;
    /// Returns a number.
    fn number(&self, key: &str) -> Option<f64>;
    /// Returns the elements of a list; none where there is no list.
    fn list(&self, key: &str) -> &[Value];
}

impl Pick for Value {
    fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    fn is_true(&self, key: &str) -> bool {
        self.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates, which is what is wanted
    fn count(&self, key: &str) -> Option<u32> {
        let number = self.get(key)?;
        match number.as_u64() {
            Some(whole) => Some(u32::try_from(whole).unwrap_or(u32::MAX)),
            None => number.as_f64().map(|fraction| fraction.round() as u32),
        }
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.get(key)?.as_f64()
    }

    fn list(&self, key: &str) -> &[Value] {
        self.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_survived() {
        let value: Value = serde_json::from_str(r#"{"n":551.86,"m":-3,"big":1e12,"s":7,"id":"a","id":"b","l":{}}"#).expect("JSON");
        assert_eq!(value.count("n"), Some(552));
        assert_eq!(value.count("m"), Some(0));
        assert_eq!(value.count("big"), Some(u32::MAX));
        assert_eq!(value.text("s"), None);
        assert_eq!(value.text("id"), Some("b"));
        assert!(value.list("l").is_empty());
        assert!(!value.is_true("gone"));
    }
}
