//! The form of env files: a line `NAME=value` for every setting.
//!
//! Pure. A value may stand between quotes, also over several lines; `#` at the begin of a line or
//! behind a blank begins a remark. Nothing is ever put in for `$NAME`. What is wrong is told with
//! its line and never with the value.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

/// What a file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct EnvFile {
    /// By name, each with the line it stands in.
    pub values: BTreeMap<String, (String, usize)>,
    /// What cannot be read.
    pub faults: Vec<String>,
    /// What may be meant otherwise than it is read.
    pub warnings: Vec<String>,
}

impl EnvFile {
    /// Reads a file's content.
    pub(super) fn parse(content: &[u8]) -> Self {
        let mut file = Self::default();
        let text = match std::str::from_utf8(content) {
            Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
            Err(error) => {
                let line =
                    content[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count()
                        + 1;
                file.faults.push(format!("line {line} is not UTF-8"));
                return file;
            }
        };
        let mut reader = Reader { rest: text.chars().peekable(), line: 1 };
        while reader.rest.peek().is_some() {
            let line = reader.line;
            match reader.assignment() {
                Ok(None) => {}
                Ok(Some(Assignment { name, value, dollar })) => {
                    if dollar {
                        let how = "put the value between single quotes where that is meant";
                        file.warnings.push(format!("line {line}: `$` in {name} stands for itself, nothing is put in for it; {how}"));
                    }
                    if let Some((_, first)) = file.values.insert(name.clone(), (value, line)) {
                        file.warnings.push(format!("line {line}: {name} stands in line {first} already; the last one counts"));
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
    /// Something could have been put in for a `$`.
    dollar: bool,
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.line += usize::from(next == Some('\n'));
        next
    }

    fn blanks(&mut self) {
        while self.rest.next_if(|c| *c != '\n' && c.is_whitespace()).is_some() {}
    }

    /// To the begin of the next line.
    fn skip_line(&mut self) {
        while self.next().is_some_and(|c| c != '\n') {}
    }

    fn assignment(&mut self) -> Result<Option<Assignment>, &'static str> {
        self.blanks();
        if matches!(self.rest.peek(), None | Some('\n' | '#')) {
            self.skip_line();
            return Ok(None);
        }
        let mut name = self.word();
        self.blanks();
        if name == "export" && self.rest.peek() != Some(&'=') {
            name = self.word();
            self.blanks();
        }
        if name.is_empty()
            || name.starts_with(|c: char| c.is_ascii_digit())
            || self.rest.next_if_eq(&'=').is_none()
        {
            return Err("is not `NAME=value`");
        }
        self.blanks();
        let (mut value, mut dollar) = (String::new(), false);
        match self.rest.peek() {
            Some('\'') => self.quoted(&mut value, '\'')?,
            Some('"') => {
                self.quoted(&mut value, '"')?;
                dollar = substitutes(&value);
            }
            _ => {
                while let Some(c) = self.rest.next_if(|c| *c != '\n') {
                    if c == '#' && (value.is_empty() || value.ends_with(char::is_whitespace)) {
                        break;
                    }
                    value.push(c);
                }
                value.truncate(value.trim_end().len());
                dollar = substitutes(&value);
            }
        }
        self.skip_line();
        Ok(Some(Assignment { name, value, dollar }))
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
            word.push(c);
        }
        word
    }

    fn quoted(&mut self, value: &mut String, quote: char) -> Result<(), &'static str> {
        self.next();
        loop {
            match self.next() {
                None => return Err("begins a value in quotes that is never ended"),
                Some(c) if c == quote => break,
                Some('\\') if quote == '"' => value.push(match self.next() {
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some('t') => '\t',
                    Some(c @ ('\\' | '"' | '$' | '`')) => c,
                    _ => {
                        return Err(
                            "has a `\\` before something else than `n`, `r`, `t`, `\\`, `\"` or `$`; write `\\\\`, or use single quotes",
                        );
                    }
                }),
                Some(c) => value.push(c),
            }
        }
        self.blanks();
        match self.rest.peek() {
            None | Some('\n' | '#') => Ok(()),
            Some(_) => Err("goes on behind the closing quote"),
        }
    }
}

/// Whether others would put something in.
fn substitutes(value: &str) -> bool {
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
    fn every_form_of_a_value_is_read() {
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

    #[test]
    fn nothing_is_put_in_for_a_dollar_and_that_is_told() {
        let file = EnvFile::parse(b"A=x$HOME\nB=\"${X}\"\nC='$HOME'\nD=5$\nA=2\n");
        assert_eq!(file.values["B"].0, "${X}");
        let told: Vec<&str> =
            file.warnings.iter().filter_map(|warning| warning.split(':').next()).collect();
        assert_eq!(told, ["line 1", "line 2", "line 5"], "{:?}", file.warnings);
    }
}
