//! `aetheel backend componentize`: makes a component from a core module that a compiler produced.
//!
//! Calls to WASI preview 1, which language runtimes make, are implemented inside the component by
//! `wasi.wat`, so the component imports nothing. The output file is replaced atomically.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use wit_component::{ComponentEncoder, DecodedWasm, StringEncoding};
use wit_parser::{Resolve, WorldItem, WorldKey};

use super::contract::{self, ContractError, EXPORT};
use aetheel::cli::{ComponentizeArgs, exit};
use aetheel::terminal::print_stderr;
use aetheel_store::disk::{WORLD_READABLE_MODE, replace_for};

const WASI: &str = include_str!("wasi.wat");

/// The reason why no component was written.
#[derive(Debug, thiserror::Error)]
enum ComponentizeError {
    #[error("cannot read {}: {error}", module.display())]
    Read {
        module: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error("{path} is already a component (hint: `aetheel backend check {path}`)", path = .0.display())]
    AlreadyComponent(PathBuf),
    #[error("{} is not a WebAssembly module (hint: compile for wasm32-wasi, as a reactor)", .0.display())]
    NotAModule(PathBuf),
    #[error("{}: {error}", module.display())]
    Build {
        module: PathBuf,
        #[source]
        error: BuildError,
    },
    #[error("cannot write {}: {error}", output.display())]
    Write {
        output: PathBuf,
        #[source]
        error: io::Error,
    },
}

impl ComponentizeError {
    /// Returns whether the input file cannot be read, or is not a core module.
    fn is_invalid_input(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::AlreadyComponent(_) | Self::NotAModule(_))
    }
}

/// The reason why a module cannot become a backend component. A text in a variant is the message of
/// the library.
#[derive(Debug, thiserror::Error)]
enum BuildError {
    #[error("the module is invalid: {0}")]
    Module(String),
    #[error(transparent)]
    Contract(#[from] ContractError),
    #[error("cannot embed the contract: {0}")]
    Embed(String),
    /// The module was built for a contract with these exports.
    #[error(
        "it was built for another contract, which exports {}; this program requires {EXPORT} (hint: generate its bindings again with \
         `aetheel backend bindings`)",
        if .0.is_empty() { "nothing".to_owned() } else { .0.join(", ") }
    )]
    OtherContract(Vec<String>),
    #[error("the built-in WASI module is invalid: {0}")]
    Wasi(#[source] wat::Error),
    #[error("{}", with_hint(.0))]
    Encode(String),
    #[error("the component is invalid: {0}")]
    Component(String),
    #[error("the encoder did not produce a component")]
    NotAComponent,
}

#[derive(Debug)]
struct BuiltComponent {
    component: Vec<u8>,
    exports: Vec<String>,
    imports: Vec<String>,
}

/// Makes a component from a core module, then prints its size, exports and imports.
pub(crate) fn run(ComponentizeArgs { module, output }: ComponentizeArgs) -> u8 {
    match convert(&module, &output) {
        Ok(BuiltComponent { component, exports, imports }) => {
            let imports =
                if imports.is_empty() { "nothing".to_owned() } else { imports.join(", ") };
            #[allow(clippy::cast_precision_loss, reason = "files are small")]
            let size = component.len() as f64 / 1024.0;
            let line = format!(
                "{}: {size:.1} KiB, exports {}, imports {imports}\n",
                output.display(),
                exports.join(", ")
            );
            // Write errors are ignored: stdout may be closed.
            let _ = std::io::stdout().write_all(line.as_bytes());
            exit::OK
        }
        Err(error) => {
            print_stderr(&format!("error: {error}"));
            if error.is_invalid_input() { exit::USAGE } else { exit::FAILED }
        }
    }
}

fn convert(module: &Path, output: &Path) -> Result<BuiltComponent, ComponentizeError> {
    let bytes = fs::read(module)
        .map_err(|error| ComponentizeError::Read { module: module.to_owned(), error })?;
    // https://webassembly.github.io/spec/core/binary/modules.html: magic number, then version and
    // layer.
    match bytes.get(..8) {
        Some(b"\0asm\x01\0\0\0") => {}
        Some([b'\0', b'a', b's', b'm', ..]) => {
            return Err(ComponentizeError::AlreadyComponent(module.to_owned()));
        }
        _ => return Err(ComponentizeError::NotAModule(module.to_owned())),
    }
    let made = component(&bytes)
        .map_err(|error| ComponentizeError::Build { module: module.to_owned(), error })?;
    write_component(output, &made.component)
        .map_err(|error| ComponentizeError::Write { output: output.to_owned(), error })?;
    Ok(made)
}

fn write_component(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    replace_for(path, content, WORLD_READABLE_MODE).map(drop)
}

fn component(module: &[u8]) -> Result<BuiltComponent, BuildError> {
    let mut module = module.to_vec();
    let (stripped, metadata) = wit_component::metadata::decode(&module)
        .map_err(|error| BuildError::Module(format!("{error:#}")))?;
    if stripped.is_none() {
        let (resolve, world) = contract::resolve()?;
        wit_component::embed_component_metadata(
            &mut module,
            &resolve,
            world,
            StringEncoding::UTF8,
            false,
        )
        .map_err(|error| BuildError::Embed(format!("{error:#}")))?;
    } else {
        let exports = interface_names(
            &metadata.resolve,
            metadata.resolve.worlds[metadata.world].exports.keys(),
        );
        if !exports.iter().any(|name| name == EXPORT) {
            return Err(BuildError::OtherContract(exports));
        }
    }
    let wasi = wat::parse_str(WASI).map_err(BuildError::Wasi)?;
    let component = encode(&module, &wasi)?;
    let decoded = wit_component::decode(&component)
        .map_err(|error| BuildError::Component(format!("{error:#}")))?;
    let DecodedWasm::Component(resolve, world) = decoded else {
        return Err(BuildError::NotAComponent);
    };
    let world = &resolve.worlds[world];
    // An interface that contains only types needs no import.
    let asks = |item: &WorldItem| !matches!(item, WorldItem::Interface { id, .. } if resolve.interfaces[*id].functions.is_empty());
    let imports = world.imports.iter().filter(|(_, item)| asks(item)).map(|(key, _)| key);
    Ok(BuiltComponent {
        exports: interface_names(&resolve, world.exports.keys()),
        imports: interface_names(&resolve, imports),
        component,
    })
}

fn encode(module: &[u8], wasi: &[u8]) -> Result<Vec<u8>, BuildError> {
    let mut encoder = ComponentEncoder::default();
    let encoded = encoder
        .module(module)
        .and_then(|encoder| encoder.adapter("wasi_snapshot_preview1", wasi))
        .and_then(|encoder| encoder.validate(true).encode());
    encoded.map_err(|error| BuildError::Encode(format!("{error:#}")))
}

/// Adds a hint to common errors of backend authors.
fn with_hint(fault: &str) -> String {
    let hint = if fault.contains("failed to find export of interface") {
        format!(
            "export the core functions `{EXPORT}#describe`, `#handle`, `#save` and `#load`; in C these are the \
             `exports_aetheel_backend_backend_*` of the bindings, which call them, so link agent_backend.c too"
        )
    } else if fault.contains("named `memory`") {
        "export the memory, which linkers do by default".to_owned()
    } else if fault.contains("cabi_realloc") {
        "export `cabi_realloc(old, old-size, align, new-size)`: the host uses it to allocate memory in the guest".to_owned()
    } else if fault.contains("module requires an import interface") {
        "a backend may import only WASI preview 1, which the component implements itself; remove the import".to_owned()
    } else if fault.contains("_start") {
        "build a reactor, not a program: without `main`, with `-mexec-model=reactor`".to_owned()
    } else {
        return format!("cannot make a component: {fault}");
    };
    format!("cannot make a component: {fault} (hint: {hint})")
}

fn interface_names<'a>(resolve: &Resolve, keys: impl Iterator<Item = &'a WorldKey>) -> Vec<String> {
    keys.map(|key| resolve.name_world_key(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a minimal backend module, with additional text and without one of its exports.
    fn module(extra: &str, without: &str) -> Vec<u8> {
        let exports = [
            ("describe", "(result i32)"),
            ("handle", "(param i32 i32) (result i32)"),
            ("save", "(result i32)"),
        ];
        let mut functions: String = exports
            .iter()
            .chain(&[("load", "(param i32 i32 i32 i32) (result i32)")])
            .filter(|(name, _)| *name != without)
            .map(|(name, kind)| format!("(func (export \"{EXPORT}#{name}\") {kind} unreachable)\n"))
            .collect();
        if without != "memory" {
            functions.push_str("(memory (export \"memory\") 1)\n");
        }
        if without != "cabi_realloc" {
            functions.push_str("(func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) unreachable)\n");
        }
        wat::parse_str(format!("(module {extra} {functions})")).unwrap()
    }

    #[test]
    fn the_contract_is_embedded_and_wasi_calls_are_implemented_inside_the_component() {
        let clock = r#"(import "wasi_snapshot_preview1" "clock_time_get" (func (param i32 i64 i32) (result i32)))"#;
        let made = component(&module(clock, "")).unwrap();
        assert_eq!((made.exports, made.imports), (vec![EXPORT.to_owned()], Vec::new()));
        assert_eq!(
            component(&module(clock, "")).unwrap().component,
            made.component,
            "the output is reproducible"
        );
    }

    #[test]
    fn all_functions_of_wasi_preview_1_are_exported() {
        // https://github.com/WebAssembly/WASI/blob/wasi-0.1/preview1/docs.md
        let functions = [
            "args_get",
            "args_sizes_get",
            "environ_get",
            "environ_sizes_get",
            "clock_res_get",
            "clock_time_get",
            "fd_advise",
            "fd_allocate",
            "fd_close",
            "fd_datasync",
            "fd_fdstat_get",
            "fd_fdstat_set_flags",
            "fd_fdstat_set_rights",
            "fd_filestat_get",
            "fd_filestat_set_size",
            "fd_filestat_set_times",
            "fd_pread",
            "fd_prestat_dir_name",
            "fd_prestat_get",
            "fd_pwrite",
            "fd_read",
            "fd_readdir",
            "fd_renumber",
            "fd_seek",
            "fd_sync",
            "fd_tell",
            "fd_write",
            "path_create_directory",
            "path_filestat_get",
            "path_filestat_set_times",
            "path_link",
            "path_open",
            "path_readlink",
            "path_remove_directory",
            "path_rename",
            "path_symlink",
            "path_unlink_file",
            "poll_oneoff",
            "proc_exit",
            "proc_raise",
            "random_get",
            "sched_yield",
            "sock_accept",
            "sock_recv",
            "sock_send",
            "sock_shutdown",
        ];
        assert_eq!(functions.len(), 46);
        for function in functions {
            assert!(WASI.contains(&format!("(export \"{function}\")")), "{function}");
        }
    }

    #[test]
    fn errors_name_the_missing_export_with_a_hint() {
        let fault = component(&module("", "handle")).unwrap_err().to_string();
        assert!(
            fault.contains("`handle`") && fault.contains("hint: export the core functions"),
            "{fault}"
        );
        let fault = component(&module("", "cabi_realloc")).unwrap_err().to_string();
        assert!(fault.contains("hint: export `cabi_realloc("), "{fault}");
        let fault = component(&module(r#"(import "env" "fetch" (func))"#, "")).unwrap_err();
        let fault = fault.to_string();
        assert!(fault.contains("`env`") && fault.contains("remove the import"), "{fault}");
    }

    #[test]
    fn invalid_input_is_refused_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (input, output) = (folder.path().join("in.wasm"), folder.path().join("out.wasm"));
        for (content, says) in [
            (&b"\0asm\x0d\0\x01\0"[..], "is already a component"),
            (b"ELF", "is not a WebAssembly module"),
        ] {
            std::fs::write(&input, content).unwrap();
            let error = convert(&input, &output).unwrap_err();
            assert!(error.is_invalid_input() && error.to_string().contains(says), "{error}");
        }
        let error = convert(&folder.path().join("none"), &output).unwrap_err();
        assert!(error.to_string().starts_with("cannot read "), "{error}");
        std::fs::write(&input, &module("", "describe")[..]).unwrap();
        assert!(matches!(convert(&input, &output), Err(ComponentizeError::Build { .. })));
        assert!(!output.exists());
        std::fs::write(&input, &module("", "")[..]).unwrap();
        let made = convert(&input, &output).unwrap();
        assert_eq!(std::fs::read(&output).unwrap(), made.component);
    }
}
