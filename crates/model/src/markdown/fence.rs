//! Code fences, as a line scanner recognises them.

/// An open code fence, described by its opening line.
///
/// The line consists of three or more backticks or tildes after any number of blanks and tabs,
/// because models indent fences inside lists. Otherwise `CommonMark` 0.31 §4.5 applies: the info
/// string of a backtick fence contains no backtick, and a fence is closed by at least as many of
/// the same character with nothing after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeFence<'a> {
    indent: &'a str,
    marker: &'a str,
    info: &'a str,
}

impl<'a> CodeFence<'a> {
    /// Parses a line, without its terminator, as the opening of a fence.
    #[must_use]
    pub fn opened_by(line: &'a str) -> Option<Self> {
        let unindented = line.trim_start_matches([' ', '\t']);
        let indent = &line[..line.len() - unindented.len()];
        let mark = unindented.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let rest = unindented.trim_start_matches(mark);
        let marker = &unindented[..unindented.len() - rest.len()];
        let info = rest.trim();
        (marker.len() >= 3 && !(mark == '`' && info.contains('`'))).then_some(Self {
            indent,
            marker,
            info,
        })
    }

    /// Returns whether a line closes this fence.
    #[must_use]
    pub fn closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.marker.len() && line.trim_start_matches(&self.marker[..1]).is_empty()
    }

    /// Returns whether a line inside this fence opens another one, and would have closed this one
    /// without its info string.
    pub(super) fn would_be_closed_without_info(&self, inner: &Self) -> bool {
        !inner.info.is_empty() && self.closed_by(inner.marker)
    }

    /// Returns the text after the marker, usually a language.
    #[must_use]
    pub fn info(&self) -> &'a str {
        self.info
    }

    /// Returns the line that opens the fence again, without terminator.
    #[must_use]
    pub fn opening(&self) -> String {
        format!("{}{}{}", self.indent, self.marker, self.info)
    }

    /// Returns a line that closes the fence, without terminator.
    #[must_use]
    pub fn closing(&self) -> String {
        format!("{}{}", self.indent, self.marker)
    }

    /// Returns the same fence without its info string.
    #[must_use]
    pub fn without_info(self) -> Self {
        Self { info: "", ..self }
    }

    /// Returns the number of characters that opening the fence costs at the start of a piece,
    /// including the terminator.
    #[must_use]
    pub fn opening_cost(&self) -> usize {
        self.closing_cost() + self.info.chars().count()
    }

    /// Returns the number of characters that closing the fence costs at the end of a piece,
    /// including the terminator. Indent and marker are ASCII.
    #[must_use]
    pub fn closing_cost(&self) -> usize {
        self.indent.len() + self.marker.len() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_recognised_by_its_marker_and_not_closed_by_a_shorter_one() {
        let fence = CodeFence::opened_by("  ````rust ignore ").expect("a fence");
        assert_eq!(
            (fence.info(), fence.opening().as_str(), fence.closing().as_str()),
            ("rust ignore", "  ````rust ignore", "  ````")
        );
        assert!(fence.closed_by("`````") && fence.closed_by("   ````  "));
        assert!(
            !fence.closed_by("```")
                && !fence.closed_by("~~~~")
                && !fence.closed_by("````x")
                && !fence.closed_by("")
        );
        assert!(CodeFence::opened_by("~~~ a`b").is_some());
        for no in ["``", "```inline``` code", "x ```", "", "`~`~"] {
            assert_eq!(CodeFence::opened_by(no), None, "{no}");
        }
    }
}
