//! Lines on an agent's stderr that never explain its end.

use serde::{Deserialize, Serialize};

/// Minimum length of a part of a line, in characters. A shorter one would remove almost any line.
const MIN_PART: usize = 4;
const MAX_PARTS: usize = 32;

/// Lines that an agent prints on stderr in any case, so that people must not take them for the
/// reason of a failure. Recordings contain them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct StderrNoise {
    /// Parts of such lines.
    pub contains: Vec<String>,
    /// Beginnings of such lines, without white space before them.
    pub starts_with: Vec<String>,
}

impl StderrNoise {
    /// Returns whether no line is noise.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.contains.is_empty() && self.starts_with.is_empty()
    }

    /// Returns whether a line, without white space around it, is noise.
    #[must_use]
    pub fn matches(&self, line: &str) -> bool {
        self.contains.iter().any(|part| line.contains(part.as_str()))
            || self.starts_with.iter().any(|opening| line.starts_with(opening.as_str()))
    }

    pub(super) fn faults(&self) -> Vec<String> {
        let parts = || self.contains.iter().chain(&self.starts_with);
        let short = parts().filter(|part| part.trim().chars().count() < MIN_PART);
        let mut faults: Vec<String> = short
            .map(|part| format!("`stderr-noise` {part:?} must have at least {MIN_PART} characters"))
            .collect();
        if self.contains.len().max(self.starts_with.len()) > MAX_PARTS {
            faults.push(format!("`stderr-noise` has a list of more than {MAX_PARTS} entries"));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use crate::agent::Descriptor;

    fn parsed(noise: &str) -> Result<Descriptor, String> {
        let json = format!(
            r#"{{"name":"x","version":"1","programs":[{{"name":"x"}}],"stderr-noise":{noise}}}"#
        );
        Descriptor::parse(&json).map_err(|error| error.to_string())
    }

    #[test]
    fn the_descriptor_decides_which_lines_are_noise() {
        let noise = parsed(r#"{"contains":["is warm"],"starts-with":["[boot]"]}"#)
            .expect("valid")
            .stderr_noise;
        for (line, expected) in
            [("the cache is warm", true), ("[boot] done", true), ("at [boot]", false)]
        {
            assert_eq!(noise.matches(line), expected, "{line}");
        }
        let none = parsed("{}").expect("valid");
        assert!(none.stderr_noise.is_empty() && !none.stderr_noise.matches(""));
        let json = serde_json::to_string(&none).expect("JSON");
        assert!(!json.contains("stderr-noise"), "an older component's text is unchanged: {json}");
    }

    #[test]
    fn a_part_that_would_remove_almost_any_line_is_refused() {
        for noise in [r#"{"contains":["e"]}"#, r#"{"starts-with":["    "]}"#] {
            let error = parsed(noise).expect_err("refused");
            assert!(error.contains("at least 4 characters"), "{error}");
        }
    }
}
