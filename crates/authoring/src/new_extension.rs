//! `aetheel policy new` and `aetheel observer new`: create a project in Rust that builds and passes
//! its check. Tested by `tests/kit/templates.rs`.

use std::path::PathBuf;

use super::new;
use aetheel::cli::exit;
use aetheel_model::extension::ExtensionKind;

/// Lists the files of a project.
macro_rules! project {
    ($kind:literal) => {
        &[
            ("Cargo.toml", include_str!(concat!("../../../templates/", $kind, "/Cargo.toml.in"))),
            // The dependency versions that the examples are built with; cargo removes unused ones.
            ("Cargo.lock", include_str!("../../../guest-backends/Cargo.lock")),
            (".cargo/config.toml", include_str!("../../../guest-backends/.cargo/config.toml")),
            (".gitignore", include_str!(concat!("../../../templates/", $kind, "/gitignore"))),
            ("Makefile", include_str!(concat!("../../../templates/", $kind, "/Makefile"))),
            ("README.md", include_str!(concat!("../../../templates/", $kind, "/README.md"))),
            ("src/lib.rs", include_str!(concat!("../../../templates/", $kind, "/lib.rs"))),
            (
                concat!("wit/", $kind, ".wit"),
                include_str!(concat!("../../../wit/", $kind, "/", $kind, ".wit")),
            ),
        ]
    };
}

pub(crate) fn run(kind: ExtensionKind, name: &str, into: Option<PathBuf>) -> u8 {
    let files: &[(&str, &str)] = match kind {
        ExtensionKind::Policy => project!("policy"),
        ExtensionKind::Observer => project!("observer"),
    };
    let folder = into.unwrap_or_else(|| PathBuf::from(name));
    match new::write(name, kind.noun(), files, &folder) {
        Ok(files) => {
            println!(
                "wrote {files} files to {0}\n\nnext:\n  cd {0}\n  make test\n  cp {name}.wasm BACKENDS_DIR/{1}/",
                folder.display(),
                kind.folder()
            );
            exit::OK
        }
        Err(error) => error.report(),
    }
}
