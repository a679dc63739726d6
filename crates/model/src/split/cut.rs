//! Finds the place at which a long text is cut, so that each piece is readable by itself.

use crate::markdown::CodeFence;

/// A place at which the text is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct PieceEnd<'a> {
    /// The end of the text before the cut.
    pub end: usize,
    /// The beginning of the next piece's text; only white space is between.
    pub next: usize,
    /// The fence that contains the cut.
    pub fence: Option<CodeFence<'a>>,
}

/// Kinds of places to cut at, the best first.
#[derive(Clone, Copy)]
enum BoundaryKind {
    Paragraph,
    Line,
    CodeLine,
    Sentence,
    Word,
}

/// The last place of each kind in a piece: byte offset, number of characters before it, and the
/// fence that contains it.
#[derive(Default)]
struct Boundaries<'a>([Option<(usize, usize, Option<CodeFence<'a>>)>; 5]);

impl<'a> Boundaries<'a> {
    fn note(
        &mut self,
        place: BoundaryKind,
        at: usize,
        characters: usize,
        fence: Option<CodeFence<'a>>,
    ) {
        self.0[place as usize] = Some((at, characters, fence));
    }

    /// Returns the place of the best kind that leaves at least so many characters.
    fn best(&self, least: usize) -> Option<(usize, Option<CodeFence<'a>>)> {
        self.0.iter().flatten().find(|place| place.1 >= least).map(|place| (place.0, place.2))
    }

    /// Returns the last place of any kind.
    fn last(&self) -> Option<(usize, Option<CodeFence<'a>>)> {
        self.0.iter().flatten().max_by_key(|place| place.0).map(|place| (place.0, place.2))
    }
}

pub(super) struct PieceCutter<'a> {
    text: &'a str,
    limit: usize,
}

impl<'a> PieceCutter<'a> {
    pub(super) fn new(text: &'a str, limit: usize) -> Self {
        Self { text, limit }
    }

    /// Returns where text begins again after a cut outside a fence. Keeps the indent of its first
    /// line.
    pub(super) fn skip_blank(&self, at: usize) -> usize {
        let rest = &self.text[at..];
        let blank = rest.len() - rest.trim_start().len();
        match rest[..blank].rfind('\n') {
            Some(newline) => at + newline + 1,
            None if self.begins_line(at) => at,
            None => at + blank,
        }
    }

    /// Finds the end of the piece that begins at `start`, within the fence `open`.
    pub(super) fn cut(&self, start: usize, open: Option<CodeFence<'a>>) -> PieceEnd<'a> {
        let budget = self.limit - open.map_or(0, |fence| fence.opening_cost());
        let half = budget / 2;
        let mut places = Boundaries::default();
        let (mut at, mut used, mut fence) = (start, 0, open);
        let mut opened_here = None;
        let mut after_opening = false;
        let mut after_break = false;
        // The last heading, if only headings and blank lines follow it.
        let mut heading = None;
        loop {
            if at == self.text.len() {
                return PieceEnd { end: at, next: at, fence };
            }
            let (line, whole) = self.line(at);
            let marks = whole && self.begins_line(at);
            let closes = marks && fence.is_some_and(|fence| fence.closed_by(line));
            let opens = if marks && fence.is_none() { self.opening(line) } else { None };
            if used > 0 {
                match fence {
                    Some(_) if after_opening || closes => {}
                    Some(_) => places.note(BoundaryKind::CodeLine, at, used, fence),
                    None if heading.is_none()
                        && (after_break || opens.is_some() || breaks_before(line)) =>
                    {
                        places.note(BoundaryKind::Paragraph, at, used, None)
                    }
                    None => places.note(BoundaryKind::Line, at, used, None),
                }
            }
            let next_fence = if closes { None } else { opens.or(fence) };
            let length = line.chars().count();
            if !whole || used + length + next_fence.map_or(0, |fence| fence.closing_cost()) > budget
            {
                if fence.is_none() && opens.is_none() {
                    self.note_words(&mut places, line, at, used, budget);
                }
                break;
            }
            if opens.is_some() {
                opened_here = Some((at, heading.unwrap_or(at)));
            }
            heading = if fence.is_none() && line.starts_with('#') {
                heading.or(Some(at))
            } else {
                heading.filter(|_| line.trim().is_empty())
            };
            (after_opening, after_break) = (opens.is_some(), closes || line.trim().is_empty());
            used += length + 1;
            at = (at + line.len() + 1).min(self.text.len());
            fence = next_fence;
        }
        // A block that fits into one piece is not cut, even if this piece becomes short.
        let spared = opened_here.filter(|_| fence.is_some()).and_then(|(opening, heading)| {
            [heading, opening]
                .into_iter()
                .find(|from| *from > start && self.block_fits(*from, opening))
        });
        let paragraph = places.0[BoundaryKind::Paragraph as usize]
            .filter(|place| place.1 >= half)
            .map(|place| (place.0, None));
        let chosen = paragraph
            .or_else(|| spared.map(|opening| (opening, None)))
            .or_else(|| places.best(half))
            .or_else(|| places.last());
        match chosen {
            Some((at, Some(fence))) => PieceEnd { end: at - 1, next: at, fence: Some(fence) },
            Some((at, None)) => PieceEnd {
                end: start + self.text[start..at].trim_end().len(),
                next: self.skip_blank(at),
                fence: None,
            },
            None => {
                let room = budget - fence.map_or(0, |fence| fence.closing_cost());
                let at = self.within_word(start, room);
                let next = if fence.is_some() { at } else { self.skip_blank(at) };
                PieceEnd { end: at, next, fence }
            }
        }
    }

    /// Returns the line at `at`, and whether it is complete. Examines only as much as fits into a
    /// piece.
    fn line(&self, at: usize) -> (&'a str, bool) {
        let rest = &self.text[at..];
        for (n, (offset, c)) in rest.char_indices().enumerate() {
            if c == '\n' {
                return (&rest[..offset], true);
            }
            if n > self.limit {
                return (&rest[..offset], false);
            }
        }
        (rest, true)
    }

    fn begins_line(&self, at: usize) -> bool {
        at == 0 || self.text.as_bytes()[at - 1] == b'\n'
    }

    /// Returns the fence that a line opens. Its info string is not repeated if it would fill the
    /// piece.
    fn opening(&self, line: &'a str) -> Option<CodeFence<'a>> {
        let fence = CodeFence::opened_by(line)?;
        let fence = if fence.opening_cost() + fence.closing_cost() > self.limit / 4 {
            fence.without_info()
        } else {
            fence
        };
        let longest = (line.chars().count() + 1).max(fence.opening_cost()) + fence.closing_cost();
        (longest <= self.limit / 2).then_some(fence)
    }

    /// Notes the ends of words and sentences in a line of prose that does not fit.
    fn note_words(
        &self,
        places: &mut Boundaries<'a>,
        line: &'a str,
        at: usize,
        used: usize,
        budget: usize,
    ) {
        let mut before = None;
        let mut words = used > 0;
        for (n, (offset, c)) in line.char_indices().enumerate() {
            if used + n > budget {
                break;
            }
            // After a cut, a marker would begin a line and open a fence.
            let possible = words && !opens_fence(line[offset..].trim_start());
            let breakable = possible && c.is_whitespace();
            let place = match before {
                Some('。' | '！' | '？') if possible => Some(BoundaryKind::Sentence),
                Some('.' | '!' | '?' | ':' | ';' | '…') if breakable => {
                    Some(BoundaryKind::Sentence)
                }
                Some(before) if breakable && !before.is_whitespace() => Some(BoundaryKind::Word),
                _ => None,
            };
            if let Some(place) = place {
                places.note(place, at + offset, used + n, None);
            }
            words |= !c.is_whitespace();
            before = Some(c);
        }
    }

    /// Returns whether the code block that is opened at `opening`, together with the text from
    /// `from` on, fits into one piece.
    fn block_fits(&self, from: usize, opening: usize) -> bool {
        let (line, _) = self.line(opening);
        let Some(fence) = self.opening(line) else { return false };
        let (mut at, mut used) = (
            opening + line.len() + 1,
            self.text[from..opening].chars().count() + line.chars().count() + 1,
        );
        while used <= self.limit && at < self.text.len() {
            let (line, whole) = self.line(at);
            used += line.chars().count();
            if !whole || fence.closed_by(line) {
                return whole && used <= self.limit;
            }
            used += 1;
            at += line.len() + 1;
        }
        at >= self.text.len() && used + fence.closing_cost() <= self.limit
    }

    /// Returns the last place within `room` characters that does not split combined characters or
    /// put a fence marker at the start of a line. If there is no such place nearby, returns the
    /// very last place.
    fn within_word(&self, start: usize, room: usize) -> usize {
        let rest = &self.text[start..];
        let hard = rest.char_indices().nth(room.max(1)).map_or(rest.len(), |(offset, _)| offset);
        let mut at = hard;
        for _ in 0..32.min(room / 2) {
            if !is_joined(&rest[..at], &rest[at..]) {
                return start + at;
            }
            at -= rest[..at].chars().next_back().map_or(0, char::len_utf8);
        }
        start + hard
    }
}

/// Returns whether a line begins something new: a blank line, a heading or a rule.
fn breaks_before(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#') || line.starts_with("---")
}

fn opens_fence(text: &str) -> bool {
    text.starts_with("```") || text.starts_with("~~~")
}

/// Returns whether a cut here would split one visible character. Covers combining marks, emoji
/// sequences, flags and CRLF; the full rules of UAX #29 are not worth their tables.
fn is_joined(before: &str, after: &str) -> bool {
    let (Some(last), Some(next)) = (before.chars().next_back(), after.chars().next()) else {
        return false;
    };
    let extends = matches!(next,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}' | '\u{64b}'..='\u{65f}' | '\u{900}'..='\u{903}'
        | '\u{93a}'..='\u{94f}' | '\u{e31}' | '\u{e34}'..='\u{e3a}' | '\u{e47}'..='\u{e4e}' | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}' | '\u{200d}' | '\u{20d0}'..='\u{20ff}' | '\u{3099}' | '\u{309a}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{fe20}'..='\u{fe2f}' | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0020}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}');
    let is_flag = |c: char| ('\u{1f1e6}'..='\u{1f1ff}').contains(&c);
    let half_flag =
        is_flag(next) && before.chars().rev().take(64).take_while(|c| is_flag(*c)).count() % 2 == 1;
    extends
        || half_flag
        || last == '\u{200d}'
        || (last == '\r' && next == '\n')
        || matches!(next, '`' | '~')
}
