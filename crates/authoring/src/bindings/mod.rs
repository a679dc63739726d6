//! `aetheel backend bindings`: writes the files that a guest in some language needs to use the
//! contract.
//!
//! C, C++, Zig, Go and AssemblyScript get generated bindings. The tools of the other languages read
//! `wit/`, which is written for them; JavaScript and TypeScript also get type declarations. Written
//! files are replaced; other files in the folder stay untouched.

mod assemblyscript;
mod go;
mod typescript;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use wit_bindgen_core::{Files, WorldGenerator};

use super::contract::{self, ContractError};
use aetheel::cli::{BindingsArgs, Language, exit};
use aetheel::terminal::print_stderr;

/// The reason why the files cannot be written.
#[derive(Debug, thiserror::Error)]
enum GeneratorError {
    #[error(transparent)]
    Contract(#[from] ContractError),
    #[error("cannot make bindings: {0}")]
    Generator(String),
    /// The message of the library that computes the memory layout.
    #[error("cannot lay out the contract: {0}")]
    Layout(String),
    #[error("the contract has no `timed-input` or no `action`")]
    MissingTypes,
}

/// Writes the files for a language into a folder, then prints their paths and the next step.
pub(crate) fn run(BindingsArgs { lang, out }: BindingsArgs) -> u8 {
    match write(lang, &out) {
        Ok(written) => {
            let mut text: String =
                written.iter().map(|path| format!("{}\n", path.display())).collect();
            text.push_str(next_step(lang));
            text.push('\n');
            // Write errors are ignored: stdout may be closed.
            let _ = std::io::stdout().write_all(text.as_bytes());
            exit::OK
        }
        Err(error) => {
            print_stderr(&format!("error: {error}"));
            exit::FAILED
        }
    }
}

fn write(lang: Language, out: &Path) -> Result<Vec<PathBuf>, GeneratorError> {
    let generator = match lang {
        Language::C | Language::Cpp | Language::Zig => wit_bindgen_c::Opts::default().build(),
        Language::Go => {
            wit_bindgen_go::Opts { format: wit_bindgen_go::Format::False, ..Default::default() }
                .build()
        }
        Language::Rust | Language::Python => return Ok(contract::write(out)?),
        Language::Javascript | Language::Typescript => {
            let (resolve, world) = contract::resolve()?;
            let mut written = contract::write(out)?;
            // Written last, so that build tools see that it is newer than its sources.
            written.push(contract::write_file(
                &out.join(typescript::FILE),
                typescript::types(&resolve, world).as_bytes(),
            )?);
            return Ok(written);
        }
        Language::Assemblyscript => {
            let (resolve, _) = contract::resolve()?;
            return assemblyscript::files(&resolve)?
                .iter()
                .map(|(name, content)| {
                    Ok(contract::write_file(&out.join(name), content.as_bytes())?)
                })
                .collect();
        }
    };
    let mut files = generate(generator)?;
    if lang == Language::Go {
        files = go::with_imports(&files);
    }
    files
        .iter()
        .map(|(name, content)| Ok(contract::write_file(&out.join(name), content)?))
        .collect()
}

fn generate(mut generator: Box<dyn WorldGenerator>) -> Result<Files, GeneratorError> {
    let (mut resolve, world) = contract::resolve()?;
    let mut files = Files::default();
    generator
        .generate(&mut resolve, world, &mut files)
        .map_err(|error| GeneratorError::Generator(format!("{error:#}")))?;
    Ok(files)
}

/// Returns the next step for a language, after the files are written.
const fn next_step(lang: Language) -> &'static str {
    match lang {
        Language::C => {
            "next: write the four functions `exports_aetheel_backend_backend_*` of agent_backend.h; compile your sources and agent_backend.c for \
             wasm32-wasi as a reactor (`zig cc -target wasm32-wasi -mexec-model=reactor`), link agent_backend_component_type.o, and pass the module \
             to `aetheel backend componentize`"
        }
        Language::Cpp => {
            "next: write the four functions `exports_aetheel_backend_backend_*` of agent_backend.h (they are `extern \"C\"`); compile your sources with \
             `zig c++ -target wasm32-wasi -mexec-model=reactor -fno-exceptions -fno-rtti`, agent_backend.c with `zig cc`, link \
             agent_backend_component_type.o, and pass the module to `aetheel backend componentize`"
        }
        Language::Zig => {
            "next: `zig translate-c -lc -target wasm32-wasi agent_backend.h > c.zig` and `const c = @import(\"c.zig\")` beside it; export the four \
             functions `exports_aetheel_backend_backend_*`, build with agent_backend.c and agent_backend_component_type.o for wasm32-wasi with \
             `-mexec-model=reactor -lc`, and pass the module to `aetheel backend componentize`"
        }
        Language::Go => {
            "next: write package `export_aetheel_backend_backend` (Describe, Handle, Save, Load); build with `GOOS=wasip1 GOARCH=wasm go build \
             -buildmode=c-shared`, and pass the module to `aetheel backend componentize`. The build needs no network"
        }
        Language::Rust => {
            "next: `wit_bindgen::generate!({ path: \"wit\", world: \"agent-backend\" })`, or the SDK, which does it; target wasm32-wasip2"
        }
        Language::Python => {
            "next: `componentize-py -d wit -w agent-backend bindings .` for types, `componentize-py -d wit -w agent-backend componentize app -o X.wasm` \
             for the component"
        }
        Language::Javascript => {
            "next: `componentize-qjs --wit wit -n agent-backend --sync --js backend.js -o X.wasm`; contract.d.ts is for the editor"
        }
        Language::Typescript => {
            "next: export `backend: Backend` (contract.d.ts) from backend.ts, compile with `tsc`, then `componentize-qjs --wit wit -n agent-backend \
             --sync --js backend.js -o X.wasm`"
        }
        Language::Assemblyscript => {
            "next: export `describe`, `handle`, `save` and `load` (see exports.ts) from backend.ts, compile with `asc exports.ts --runtime minimal \
             --use abort=exports/abort --transform ./rename.mjs`, and pass the module to `aetheel backend componentize`"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(lang: Language) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let written = write(lang, folder.path()).unwrap();
        written
            .iter()
            .map(|path| path.strip_prefix(folder.path()).unwrap().display().to_string())
            .collect()
    }

    #[test]
    fn c_cpp_and_zig_get_a_header_a_source_and_the_object_that_contains_the_contract() {
        for lang in [Language::C, Language::Cpp, Language::Zig] {
            assert_eq!(
                names(lang),
                ["agent_backend.c", "agent_backend.h", "agent_backend_component_type.o"]
            );
        }
    }

    #[test]
    fn go_gets_packages_and_a_module_file() {
        let names = names(Language::Go);
        assert!(names.iter().any(|name| name == "go.mod"), "{names:?}");
        assert!(names.iter().any(|name| name.starts_with("aetheel_backend_types/")), "{names:?}");
    }

    #[test]
    fn go_files_import_only_packages_that_are_written_with_them() {
        let folder = tempfile::tempdir().unwrap();
        for path in write(Language::Go, folder.path()).unwrap() {
            let text = std::fs::read_to_string(&path).unwrap();
            for import in text.lines().filter_map(|line| {
                line.trim().split_once('"')?.1.split_once('"').map(|(import, _)| import)
            }) {
                let own = import
                    .strip_prefix("wit_component/")
                    .filter(|own| *own != "export_aetheel_backend_backend");
                assert!(
                    own.is_none_or(|own| folder.path().join(own).is_dir()),
                    "{}: {import}",
                    path.display()
                );
                assert!(
                    !import.contains('.') || !import.contains('/'),
                    "{}: {import} belongs to another module",
                    path.display()
                );
            }
            assert!(!text.contains("require"), "{}", path.display());
        }
    }

    #[test]
    fn languages_whose_tools_read_wit_get_the_contract() {
        assert_eq!(
            names(Language::Python),
            ["wit/README.md", "wit/backend.wit", "wit/descriptor.schema.json", "wit/types.wit"]
        );
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let fault = write(Language::C, &file).unwrap_err().to_string();
        assert!(
            fault.starts_with("cannot write ") && fault.contains("file/agent_backend.c"),
            "{fault}"
        );
    }
}
