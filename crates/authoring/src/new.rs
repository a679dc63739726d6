//! `aetheel backend new`: creates a project for a backend that builds and passes its first test.
//!
//! This module validates the name and writes the files, whose contents are in [`super::templates`].
//! An existing folder is never changed. Tested by `tests/kit/templates.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use super::templates;
use aetheel::cli::{AgentRunKind, Language, NewArgs, exit};
use aetheel::commands::kit::KitError;

pub(crate) fn run(args: NewArgs) -> u8 {
    let NewArgs { name, lang, kind, into } = args;
    let folder = into.unwrap_or_else(|| PathBuf::from(&name));
    match create(&name, lang, kind, &folder) {
        Ok(files) => {
            println!(
                "wrote {files} files to {0}\n\nnext:\n  cd {0}\n  make test\n  aetheel backend install {name}.wasm",
                folder.display()
            );
            exit::OK
        }
        Err(error) => {
            eprintln!("aetheel: {}", error.text);
            error.code
        }
    }
}

fn create(
    name: &str,
    lang: Language,
    kind: AgentRunKind,
    folder: &Path,
) -> Result<usize, KitError> {
    let Some(files) = templates::files(lang, kind).filter(|_| is_valid_name(name)) else {
        return Err(match is_valid_name(name) {
            false => invalid_name(name, "a backend"),
            true => KitError::usage(
                "there are templates for `--kind both` only in rust and python; begin with `--kind live`",
            ),
        });
    };
    write(name, "a backend", &files, folder)
}

fn invalid_name(name: &str, noun: &str) -> KitError {
    KitError::usage(format!(
        "{name:?} is not a valid name for {noun}: use at most 32 lower-case letters, digits and `-`, and do not start with `-`"
    ))
}

/// Writes the files of a project and returns their number.
///
/// # Errors
/// [`KitError`] if the name is not valid, the folder exists, or a file cannot be written.
pub(crate) fn write(
    name: &str,
    noun: &str,
    files: &[(&str, &str)],
    folder: &Path,
) -> Result<usize, KitError> {
    if !is_valid_name(name) {
        return Err(invalid_name(name, noun));
    }
    if folder.symlink_metadata().is_ok() {
        return Err(KitError::usage(format!(
            "{} already exists; choose another folder with --into",
            folder.display()
        )));
    }
    for (path, contents) in files {
        let path = folder.join(path.replace(NAME_PLACEHOLDER, name));
        let written = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, contents.replace(NAME_PLACEHOLDER, name)));
        written.map_err(|error| {
            KitError::failed(format!("{} cannot be written: {error}", path.display()))
        })?;
    }
    Ok(files.len())
}

const NAME_PLACEHOLDER: &str = "{{name}}";

/// Returns whether `wit/descriptor.schema.json` allows this name.
fn is_valid_name(name: &str) -> bool {
    let fits =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    (1..=32).contains(&name.len()) && !name.starts_with('-') && name.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_the_schema_allows_are_valid() {
        for good in ["a", "my-agent", "7z", &"x".repeat(32)] {
            assert!(is_valid_name(good), "{good}");
        }
        for bad in ["", "-a", "A", "a_b", "a/b", "..", "é", &"x".repeat(33)] {
            assert!(!is_valid_name(bad), "{bad}");
        }
    }
}
