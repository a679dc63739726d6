//! Code fences, as a line scanner sees them.

/// An open code fence, by its opening line.
///
/// Backticks or tildes, three or more, after any number of blanks and tabs (models indent fences
/// inside lists). `CommonMark` 0.31 §4.5 otherwise: no backtick in the info string of a backtick
/// fence; closed by at least as many of the same character with nothing behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence<'a> {
    indent: &'a str,
    marker: &'a str,
    info: &'a str,
}

impl<'a> Fence<'a> {
    /// Reads a line, without its terminator, as the opening of a fence.
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

    /// Whether a line closes this fence.
    #[must_use]
    pub fn closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.marker.len() && line.trim_start_matches(&self.marker[..1]).is_empty()
    }

    /// Returns the text behind the marker, usually a language.
    #[must_use]
    pub fn info(&self) -> &'a str {
        self.info
    }

    /// The line that opens it again, without terminator.
    #[must_use]
    pub fn opening(&self) -> String {
        format!("{}{}{}", self.indent, self.marker, self.info)
    }

    /// A line that closes it, without terminator.
    #[must_use]
    pub fn closing(&self) -> String {
        format!("{}{}", self.indent, self.marker)
    }

    /// The same fence without its info string.
    #[must_use]
    pub fn without_info(self) -> Self {
        Self { info: "", ..self }
    }

    /// Characters it costs to open the fence at the start of a piece, terminator included.
    #[must_use]
    pub fn opening_cost(&self) -> usize {
        self.closing_cost() + self.info.chars().count()
    }

    /// Characters it costs to close the fence at the end of a piece, terminator included. Indent
    /// and marker are ASCII.
    #[must_use]
    pub fn closing_cost(&self) -> usize {
        self.indent.len() + self.marker.len() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_known_by_its_marker_and_closed_by_no_shorter_one() {
        let fence = Fence::opened_by("  ````rust ignore ").expect("a fence");
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
        assert!(Fence::opened_by("~~~ a`b").is_some());
        for no in ["``", "```inline``` code", "x ```", "", "`~`~"] {
            assert_eq!(Fence::opened_by(no), None, "{no}");
        }
    }
}
