//! The text of an entry: a list item whose values are code spans and words.

use std::str::FromStr;

use aetheel_model::event::{Lane, LaneError};
use aetheel_model::id::{ChannelId, UserId};
use jiff::Timestamp;

/// The last character of an item, which shows that the item is complete.
pub(super) const STOP: char = '.';

/// The reason why an item of a state file is left out.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// The item is of another kind and stays unchanged.
    #[error("it is of another kind")]
    OtherKind,
    /// The number of backticks is odd.
    #[error("a backtick is missing")]
    BacktickMissing,
    /// A code span contains an invalid escape.
    #[error("`{0}` has a `%` that is not `%` and two hexadecimal digits")]
    InvalidEscape(String),
    /// The item does not have the parts of its kind. The text says which are expected.
    #[error("{0}")]
    Parts(&'static str),
    /// A part with this name is missing.
    #[error("it has no `{0}`")]
    PartMissing(&'static str),
    /// A word or value is not of the expected kind.
    #[error("{text:?} is not {expected}")]
    InvalidValue {
        /// The word or value.
        text: String,
        /// The expected kind.
        expected: &'static str,
    },
    /// The content of a code span is not of the expected kind.
    #[error("`{text}` is not {expected}")]
    InvalidCode {
        /// The content.
        text: String,
        /// The expected kind.
        expected: &'static str,
    },
    /// The name of a setting has no value after it.
    #[error("{0:?} has no value in backticks after it")]
    ValueMissing(String),
    /// A value has no name of a setting before it.
    #[error("`{0}` has no name before it")]
    NameMissing(String),
    /// Neither of two values is certain to be a time.
    #[error("{first:?} or {last:?} is not a time such as `2026-03-01T09:00:00Z`")]
    InvalidPeriod {
        /// The first value.
        first: String,
        /// The second value.
        last: String,
    },
    /// A value is not a time.
    #[error("its time cannot be read: {0}")]
    InvalidTime(#[source] jiff::Error),
    /// A value is not a lane.
    #[error(transparent)]
    InvalidLane(#[from] LaneError),
    /// A value is not the id of a session.
    #[error(transparent)]
    InvalidSession(Box<dyn std::error::Error + Send + Sync>),
}

impl EntryError {
    pub(in crate::workspace) fn value(text: &str, expected: &'static str) -> Self {
        Self::InvalidValue { text: text.to_owned(), expected }
    }

    pub(in crate::workspace) fn code(text: &str, expected: &'static str) -> Self {
        Self::InvalidCode { text: text.to_owned(), expected }
    }
}

/// A piece of a list item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A word outside code spans, without punctuation.
    Word(String),
    /// The decoded content of a code span.
    Code(String),
}

impl Token {
    /// Returns the word, or the content of the code span.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Word(text) | Self::Code(text) => text,
        }
    }

    pub(in crate::workspace) fn read<T: EntryValue>(&self) -> Result<T, EntryError> {
        T::read(self)
    }

    /// Parses a text, which an error quotes. `expected` describes valid ones.
    pub(in crate::workspace) fn parse_quoted<T: FromStr>(
        &self,
        expected: &'static str,
    ) -> Result<T, EntryError> {
        self.text().parse().map_err(|_| EntryError::value(self.text(), expected))
    }

    /// Parses a text, which an error quotes as it is in the file. `expected` describes valid ones.
    pub(in crate::workspace) fn parse<T: FromStr>(
        &self,
        expected: &'static str,
    ) -> Result<T, EntryError> {
        match self {
            Self::Word(_) => self.parse_quoted(expected),
            Self::Code(text) => text.parse().map_err(|_| EntryError::code(text, expected)),
        }
    }
}

/// A value of an entry, written as one word or code span.
pub(in crate::workspace) trait EntryValue {
    fn to_text(&self) -> String;
    fn read(token: &Token) -> Result<Self, EntryError>
    where
        Self: Sized;
}

/// Stands for a value that is not set.
const UNSET: &str = "-";

impl<T: EntryValue> EntryValue for Option<T> {
    fn to_text(&self) -> String {
        self.as_ref().map_or_else(|| UNSET.to_owned(), T::to_text)
    }

    fn read(token: &Token) -> Result<Self, EntryError> {
        if token.text() == UNSET { Ok(None) } else { T::read(token).map(Some) }
    }
}

/// Implements [`EntryValue`] for types whose text `Display` writes.
macro_rules! entry_values {
    ($($type:ty: $read:expr;)+) => {$(
        impl EntryValue for $type {
            fn to_text(&self) -> String {
                self.to_string()
            }

            fn read(token: &Token) -> Result<Self, EntryError> {
                $read(token)
            }
        }
    )+};
}

entry_values! {
    String: |token: &Token| Ok(token.text().to_owned());
    u32: |token: &Token| token.parse("a number");
    u64: |token: &Token| token.parse("a number");
    usize: |token: &Token| token.parse("a number");
    UserId: |token: &Token| token.parse("the id of a user");
    ChannelId: |token: &Token| token.parse("the id of a channel");
    Lane: |token: &Token| Ok(token.text().parse()?);
    Timestamp: |token: &Token| token.text().parse().map_err(EntryError::InvalidTime);
}

/// Reads the SHA-256 at the end of a line.
pub(in crate::workspace) fn read_sha256(token: &Token) -> Result<String, EntryError> {
    let digest = token.text();
    if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(EntryError::Parts("it does not end with a SHA-256 (64 hexadecimal digits)"));
    }
    Ok(digest.to_ascii_lowercase())
}

/// The form of a line: its words and punctuation, with `{}` for a code span and `#` for a word that
/// is a value. Punctuation is written and not read.
#[derive(Clone, Copy, Debug)]
pub(in crate::workspace) struct LineForm {
    text: &'static str,
    /// The parts that a line without this form lacks.
    fault: &'static str,
    words: FormWords,
    /// Whether further parts, which newer versions write, are ignored.
    ignores_more: bool,
}

/// How the words of a line must agree with its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormWords {
    Equal,
    /// A person may have replaced them by others.
    Any,
    /// Only the code spans are read.
    Ignored,
}

impl LineForm {
    pub(in crate::workspace) const fn new(text: &'static str, fault: &'static str) -> Self {
        Self { text, fault, words: FormWords::Equal, ignores_more: false }
    }

    /// Accepts other words in the place of the words.
    pub(in crate::workspace) const fn with_any_words(self) -> Self {
        Self { words: FormWords::Any, ..self }
    }

    /// Ignores all words of a line.
    pub(in crate::workspace) const fn without_words(self) -> Self {
        Self { words: FormWords::Ignored, ..self }
    }

    /// Ignores further parts at the end of a line.
    pub(in crate::workspace) const fn with_more(self) -> Self {
        Self { ignores_more: true, ..self }
    }

    pub(in crate::workspace) fn write(&self, values: &[&dyn EntryValue]) -> String {
        let (mut line, mut values) = (String::new(), values.iter());
        let mut next = || values.next().map(|value| value.to_text()).unwrap_or_default();
        for piece in self.text.split_inclusive(['}', '#']) {
            if let Some(before) = piece.strip_suffix("{}") {
                line.push_str(before);
                line.push_str(&code(&next()));
            } else if let Some(before) = piece.strip_suffix('#') {
                line.push_str(before);
                line.push_str(&next());
            } else {
                line.push_str(piece);
            }
        }
        line
    }

    pub(in crate::workspace) fn values<'a, const COUNT: usize>(
        &self,
        tokens: &'a [Token],
    ) -> Result<[&'a Token; COUNT], EntryError> {
        if self.words == FormWords::Ignored {
            let codes = tokens.iter().filter(|token| matches!(token, Token::Code(_)));
            return codes.collect::<Vec<_>>().try_into().map_err(|_| self.fault());
        }
        let (values, rest) = self.begin(tokens)?;
        if rest.is_empty() || self.ignores_more { Ok(values) } else { Err(self.fault()) }
    }

    /// Returns the values at the beginning of a line, and the other tokens.
    pub(in crate::workspace) fn begin<'a, const COUNT: usize>(
        &self,
        tokens: &'a [Token],
    ) -> Result<([&'a Token; COUNT], &'a [Token]), EntryError> {
        let (mut values, mut rest) = (Vec::with_capacity(COUNT), tokens);
        for part in words(self.text) {
            let (token, after) = rest.split_first().ok_or_else(|| self.fault())?;
            rest = after;
            match (part, token) {
                ("{}", Token::Code(_)) | ("#", Token::Word(_)) => values.push(token),
                ("{}" | "#", _) => return Err(self.fault()),
                (_, Token::Word(_)) if self.words == FormWords::Any => {}
                (word, Token::Word(found)) if word == found => {}
                _ => return Err(self.fault()),
            }
        }
        Ok((values.try_into().map_err(|_| self.fault())?, rest))
    }

    /// Returns the error of a line that does not have this form.
    pub(in crate::workspace) fn fault(&self) -> EntryError {
        EntryError::Parts(self.fault)
    }
}

/// Implements the text of an entry whose fields are the values of a line, in this order.
macro_rules! entry_fields {
    ($form:expr; $($field:ident),+) => {
        fn write(&self) -> String {
            $form.write(&[$(&self.$field),+])
        }

        fn parse(tokens: &[Token]) -> Result<Self, EntryError> {
            let [$($field),+] = $form.values(tokens)?;
            Ok(Self { $($field: $field.read()?),+ })
        }
    };
}
pub(in crate::workspace) use entry_fields;

/// Splits a list item that begins with a code span into tokens. Returns `None` for other lines.
pub(in crate::workspace) fn parse_tokens(line: &str) -> Option<Result<Vec<Token>, EntryError>> {
    let item = line.trim_start().strip_prefix(['-', '*'])?.trim();
    let item = item.strip_suffix(STOP).unwrap_or(item);
    if !item.starts_with('`') {
        return None;
    }
    let pieces: Vec<&str> = item.split('`').collect();
    if pieces.len().is_multiple_of(2) {
        return Some(Err(EntryError::BacktickMissing));
    }
    let mut tokens = Vec::new();
    for (n, piece) in pieces.into_iter().enumerate() {
        if n % 2 == 1 {
            match decode(piece) {
                Some(text) => tokens.push(Token::Code(text)),
                None => {
                    return Some(Err(EntryError::InvalidEscape(piece.to_owned())));
                }
            }
        } else {
            tokens.extend(words(piece).map(|word| Token::Word(word.to_owned())));
        }
    }
    Some(Ok(tokens))
}

/// Returns the words of a text without punctuation.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| c.is_whitespace() || ",;:()".contains(c));
    words.filter(|word| !word.is_empty())
}

/// Returns a code span that contains the value. Backticks, `%` and control characters become `%`
/// and two digits, so that the value cannot end the span.
pub(in crate::workspace) fn code(value: &str) -> String {
    let mut span = String::with_capacity(value.len() + 2);
    span.push('`');
    if value.bytes().all(|b| b.is_ascii_graphic() && b != b'`' && b != b'%') {
        span.push_str(value);
        span.push('`');
        return span;
    }
    for c in value.chars() {
        if c == '`' || c == '%' || c.is_control() {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                span.push_str(&format!("%{byte:02X}"));
            }
        } else {
            span.push(c);
        }
    }
    span.push('`');
    span
}

fn decode(span: &str) -> Option<String> {
    let mut pieces = span.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        bytes.push(
            u8::from_str_radix(
                piece.get(..2).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?,
                16,
            )
            .ok()?,
        );
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}
