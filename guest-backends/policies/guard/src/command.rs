//! Splits a command of a shell into words, if it is simple enough to be understood.

/// Characters outside of quotes that have no meaning for a shell.
const PLAIN: &str = "_-./:,=@%+";

/// Returns the words of each program that a command starts, or `None` if the command does anything
/// else than to start programs one after the other or in a pipe: redirections, variables, globs,
/// substitutions, background jobs and so on.
pub(crate) fn programs(command: &str) -> Option<Vec<Vec<String>>> {
    let mut programs = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut rest = command.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            ' ' | '\t' => programs.last_mut()?.extend(word.take()),
            '\'' | '"' => {
                let text = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        end if end == character => break,
                        // These have a meaning in double quotes.
                        '$' | '`' | '\\' | '!' if character == '"' => return None,
                        control if control.is_control() => return None,
                        other => text.push(other),
                    }
                }
            }
            '|' | '&' | ';' => {
                let twice = rest.next_if_eq(&character).is_some();
                // A single `&` starts a job in the background, and `;;` is not a command.
                if (character == '&') != twice && character != '|' {
                    return None;
                }
                programs.last_mut()?.extend(word.take());
                programs.push(Vec::new());
            }
            plain if plain.is_alphanumeric() || PLAIN.contains(plain) => {
                word.get_or_insert_default().push(plain);
            }
            _ => return None,
        }
    }
    programs.last_mut()?.extend(word.take());
    programs.iter().all(|words| !words.is_empty()).then_some(programs)
}

/// Returns whether a word may name a file outside of the working directory.
pub(crate) fn leads_outside(word: &str) -> bool {
    // The value of an option such as `--file=/etc/passwd` or `-f/etc/passwd` counts too.
    word.contains("..")
        || word.contains('~')
        || word.starts_with('/')
        || { word.starts_with('-') && word.contains('/') }
        || word.contains("=/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_commands_are_split_into_programs() {
        let of = |command| {
            programs(command).map(|all| all.iter().map(|words| words.join(" ")).collect::<Vec<_>>())
        };
        assert_eq!(of("ls -la src"), Some(vec!["ls -la src".to_owned()]));
        assert_eq!(
            of("cat a | grep 'x y' && wc -l b; pwd"),
            Some(["cat a", "grep x y", "wc -l b", "pwd"].map(str::to_owned).to_vec())
        );
        assert_eq!(of("ls || echo \"none\""), Some(vec!["ls".to_owned(), "echo none".to_owned()]));
    }

    #[test]
    fn everything_else_is_not_understood() {
        for command in [
            "",
            "ls > a",
            "ls >> a",
            "cat < a",
            "ls &",
            "ls & rm a",
            "ls\nrm a",
            "ls\r\nrm a",
            "echo $(rm a)",
            "echo `rm a`",
            "echo \"$(rm a)\"",
            "echo \"`rm a`\"",
            "echo \"\\\"; rm a; \\\"\"",
            "echo $HOME",
            "ls *",
            "ls a?",
            "ls {a,b}",
            "(rm a)",
            "ls ;; rm",
            "ls ;",
            "| ls",
            "ls && ",
            "echo 'a",
            "ls \\\nrm",
            "ls #",
            "!!",
            "ls\u{a0}-l",
            "ls \u{202e}",
        ] {
            assert_eq!(programs(command), None, "{command:?}");
        }
    }

    #[test]
    fn words_that_may_lead_outside_are_recognised() {
        for word in ["/etc", "../a", "a/../../b", "~/a", "--file=/etc/passwd", "-f/etc/passwd"] {
            assert!(leads_outside(word), "{word}");
        }
        for word in ["a", "a/b", "./a", "-l", "--color=never", "x:y"] {
            assert!(!leads_outside(word), "{word}");
        }
    }
}
