//! Parses and edits env files, which have a line `NAME=value` for each setting.
//!
//! Does no I/O. A quoted value may span several lines. `#` at the start of a line or after a blank
//! starts a comment. `$NAME` is not substituted. Error messages contain line numbers but never
//! values.

use std::collections::BTreeMap;
use std::ops::Range;

const BYTE_ORDER_MARK: char = '\u{feff}';

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct EnvFile {
    /// The values by name, each with its line.
    pub values: BTreeMap<String, (String, usize)>,
    /// Lines that cannot be parsed.
    pub faults: Vec<String>,
    /// Values that may be interpreted differently than the operator expects.
    pub warnings: Vec<String>,
    /// The byte range of each effective value with its quotes, by name. Offsets are relative to the
    /// end of a byte order mark.
    value_ranges: BTreeMap<String, Range<usize>>,
}

impl EnvFile {
    /// Parses the content of a file.
    pub(super) fn parse(content: &[u8]) -> Self {
        let mut file = Self::default();
        let text = match std::str::from_utf8(content) {
            Ok(text) => text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text),
            Err(error) => {
                let line =
                    content[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count()
                        + 1;
                file.faults.push(format!("line {line} is not UTF-8"));
                return file;
            }
        };
        let mut reader = EnvFileReader { text, at: 0, line: 1 };
        while reader.peek().is_some() {
            let line = reader.line;
            match reader.assignment() {
                Ok(None) => {}
                Ok(Some(Assignment { name, value, has_reference: dollar, value_range: place })) => {
                    if dollar {
                        let how = "put the value in single quotes if that is intended";
                        file.warnings.push(format!("line {line}: `$` in {name} is kept, because variables are not substituted; {how}"));
                    }
                    file.value_ranges.insert(name.clone(), place);
                    if let Some((_, first)) = file.values.insert(name.clone(), (value, line)) {
                        file.warnings.push(format!("line {line}: {name} is already set in line {first}; the last value is used"));
                    }
                }
                Err(fault) => {
                    file.faults.push(format!("line {line} {fault}"));
                    reader.skip_line();
                }
            }
        }
        file
    }
}

struct Assignment {
    name: String,
    value: String,
    /// Whether a shell would substitute a variable in the value.
    has_reference: bool,
    value_range: Range<usize>,
}

struct EnvFileReader<'a> {
    text: &'a str,
    /// Byte offset of the next character.
    at: usize,
    line: usize,
}

impl EnvFileReader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        self.next_if(|_| true)
    }

    fn next_if(&mut self, wanted: impl Fn(char) -> bool) -> Option<char> {
        let next = self.peek().filter(|next| wanted(*next))?;
        self.at += next.len_utf8();
        self.line += usize::from(next == '\n');
        Some(next)
    }

    fn blanks(&mut self) {
        while self.next_if(|c| c != '\n' && c.is_whitespace()).is_some() {}
    }

    /// Skips to the start of the next line.
    fn skip_line(&mut self) {
        while self.next().is_some_and(|c| c != '\n') {}
    }

    fn assignment(&mut self) -> Result<Option<Assignment>, &'static str> {
        self.blanks();
        if matches!(self.peek(), None | Some('\n' | '#')) {
            self.skip_line();
            return Ok(None);
        }
        let mut name = self.word();
        self.blanks();
        if name == "export" && self.peek() != Some('=') {
            name = self.word();
            self.blanks();
        }
        if name.is_empty()
            || name.starts_with(|c: char| c.is_ascii_digit())
            || self.next_if(|c| c == '=').is_none()
        {
            return Err("is not `NAME=value`");
        }
        self.blanks();
        let mut value = String::new();
        let begins = self.at;
        let mut place = begins..begins;
        let dollar = match self.peek() {
            Some(quote @ ('\'' | '"')) => {
                place.end = self.quoted(&mut value, quote)?;
                quote == '"' && has_reference(&value)
            }
            _ => {
                while let Some(c) = self.next_if(|c| c != '\n') {
                    if c == '#' && (value.is_empty() || value.ends_with(char::is_whitespace)) {
                        break;
                    }
                    value.push(c);
                }
                value.truncate(value.trim_end().len());
                place.end = begins + value.len();
                has_reference(&value)
            }
        };
        self.skip_line();
        Ok(Some(Assignment { name, value, has_reference: dollar, value_range: place }))
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.next_if(|c| c.is_ascii_alphanumeric() || c == '_') {
            word.push(c);
        }
        word
    }

    /// Parses a quoted value. Returns the byte offset after the closing quote.
    fn quoted(&mut self, value: &mut String, quote: char) -> Result<usize, &'static str> {
        self.next();
        loop {
            match self.next() {
                None => return Err("starts a quoted value that is never closed"),
                Some(c) if c == quote => break,
                Some('\\') if quote == '"' => value.push(match self.next() {
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some('t') => '\t',
                    Some(c @ ('\\' | '"' | '$' | '`')) => c,
                    _ => {
                        return Err(
                            "has a `\\` before a character other than `n`, `r`, `t`, `\\`, `\"` or `$`; write `\\\\`, or use single quotes",
                        );
                    }
                }),
                Some(c) => value.push(c),
            }
        }
        let ends = self.at;
        self.blanks();
        match self.peek() {
            None | Some('\n' | '#') => Ok(ends),
            Some(_) => Err("has text after the closing quote"),
        }
    }
}

/// Sets variables in the text of an env file, in the given order. Each entry of `values` has the
/// name, a comment for a new line, and the value. An existing value is replaced in place, and all
/// other text stays the same. Missing variables are added at the end.
///
/// # Errors
/// Returns the lines that cannot be parsed, because an edit could then have other effects.
pub fn set(text: &str, values: &[(&str, &str, String)]) -> Result<String, Vec<String>> {
    let (mark, text) =
        text.strip_prefix(BYTE_ORDER_MARK).map_or(("", text), |rest| ("\u{feff}", rest));
    let mut text = text.to_owned();
    for (name, remark, value) in values {
        let file = EnvFile::parse(text.as_bytes());
        if !file.faults.is_empty() {
            return Err(file.faults);
        }
        if file.values.get(*name).is_some_and(|(now, _)| now == value) {
            continue;
        }
        match file.value_ranges.get(*name) {
            // Only the value is replaced, because a comment may follow it.
            Some(place) => {
                let remarked = text[place.end..].starts_with('#');
                let blank = if remarked { " " } else { "" };
                text.replace_range(place.clone(), &(quoted(value) + blank));
            }
            None => {
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push('\n');
                }
                text.push_str(&format!("\n# {remark}\n{name}={}\n", quoted(value)));
            }
        }
    }
    Ok(mark.to_owned() + &text)
}

/// Returns the values of an env file by name.
///
/// # Errors
/// Returns the lines that cannot be parsed, without their content.
pub fn values(text: &str) -> Result<BTreeMap<String, String>, Vec<String>> {
    let file = EnvFile::parse(text.as_bytes());
    let values = file.values.into_iter().map(|(name, (value, _))| (name, value));
    if file.faults.is_empty() { Ok(values.collect()) } else { Err(file.faults) }
}

/// Formats a value for an env file, with quotes if it needs them.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./,:@%+=~*".contains(c);
    if value.chars().all(plain) {
        return value.to_owned();
    }
    if !value.contains('\'') {
        return format!("'{value}'");
    }
    let mut quoted = String::from("\"");
    for c in value.chars() {
        if matches!(c, '\\' | '"' | '$' | '`') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted + "\""
}

/// Returns whether a shell would substitute a variable in the value.
fn has_reference(value: &str) -> bool {
    value
        .split('$')
        .skip(1)
        .any(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(String, String)> {
        let file = EnvFile::parse(text.as_bytes());
        assert_eq!(file.faults, Vec::<String>::new(), "{text:?}");
        file.values.into_iter().map(|(name, (value, _))| (name, value)).collect()
    }

    #[test]
    fn every_form_of_a_value_is_parsed() {
        for (line, value) in [
            ("A=1", "1"),
            ("export A = two words  # remark", "two words"),
            ("A=", ""),
            ("A=# remark", ""),
            ("A=a#b", "a#b"),
            ("A='$x \\n \" #' # remark", "$x \\n \" #"),
            ("A=\"a\\\"b\\$\\n\"", "a\"b$\n"),
            ("A='one\ntwo'", "one\ntwo"),
            ("A=a'b'", "a'b'"),
            ("\u{feff}A=1\r\n", "1"),
        ] {
            assert_eq!(values(line), [("A".to_owned(), value.to_owned())], "{line:?}");
        }
        assert_eq!(values("# nothing\n\n   # here\n"), []);
    }

    #[test]
    fn faults_have_lines_and_no_values() {
        let file = EnvFile::parse(b"GOOD=1\n\ncanary-secret\nA='x' canary\n1B=canary\n=canary\nB=\"\\canary\"\nC=2\nD='canary\n");
        let lines: Vec<&str> = file
            .faults
            .iter()
            .map(|fault| fault.split_inclusive(' ').nth(1).unwrap_or_default().trim())
            .collect();
        assert_eq!(lines, ["3", "4", "5", "6", "7", "9"], "{:?}", file.faults);
        assert!(!file.faults.concat().contains("canary"), "{:?}", file.faults);
        assert_eq!(file.values.keys().collect::<Vec<_>>(), ["C", "GOOD"]);
        assert_eq!(EnvFile::parse(b"A=1\nB=\xff\n").faults, ["line 2 is not UTF-8"]);
    }

    fn written(text: &str, name: &str, value: &str) -> String {
        set(text, &[(name, "What it is", value.to_owned())]).unwrap()
    }

    #[test]
    fn a_value_is_replaced_in_place_and_all_other_text_stays() {
        let text = "\u{feff}# mine\nA=1  # one\nSTRANGE='x\ny'\n  export  B = two words\n#C=3\nA=2#no remark";
        assert_eq!(written(text, "A", "3"), text.replace("2#no remark", "3"));
        assert_eq!(written(text, "B", "4"), text.replace("two words", "4"));
        assert_eq!(written(text, "STRANGE", "z"), text.replace("'x\ny'", "z"));
        assert_eq!(
            written(text, "C", "5"),
            format!("{text}\n\n# What it is\nC=5\n"),
            "a comment is not a setting"
        );
        assert_eq!(written(text, "B", "two words"), text, "the value is the same");
        assert_eq!(written("A= # remark\n", "A", "1"), "A= 1 # remark\n");
        assert_eq!(written("", "A", "1"), "\n# What it is\nA=1\n");
        assert!(set("GOOD=1\nnonsense\n", &[("A", "", "1".to_owned())]).is_err());
    }

    #[test]
    fn every_value_survives_a_round_trip() {
        for value in ["", "1,2", "/a b/c", "it's", "\"q\" $HOME `x` \\ '", "#no remark", "é\nline"]
        {
            for text in ["", "A=old\n", "A='old' # remark\nB=1", "A=#x\n"] {
                let read = super::values(&written(text, "A", value)).unwrap();
                assert_eq!(read["A"], value, "{text:?}");
            }
        }
    }

    #[test]
    fn variables_are_not_substituted_and_a_warning_says_so() {
        let file = EnvFile::parse(b"A=x$HOME\nB=\"${X}\"\nC='$HOME'\nD=5$\nA=2\n");
        assert_eq!(file.values["B"].0, "${X}");
        let told: Vec<&str> =
            file.warnings.iter().filter_map(|warning| warning.split(':').next()).collect();
        assert_eq!(told, ["line 1", "line 2", "line 5"], "{:?}", file.warnings);
    }
}
