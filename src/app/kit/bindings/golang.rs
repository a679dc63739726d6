//! Go: what the generator makes, and the module that stands below it, so that a build needs no network and none of cargo's files.
//!
//! `golang/pkg` is the module `go.bytecodealliance.org/pkg` as the crate `wit-bindgen-go` brings it, with its licence and without its
//! documentation. The tests compare it with the crate that this program is built with; after an update of that crate copy it again.

/// The module the generated code imports.
const MODULE: &str = "go.bytecodealliance.org/pkg";
const GO_MOD: &str = include_str!("golang/pkg/go.mod");

macro_rules! module {
    ($($path:literal)*) => { [$(($path, include_str!(concat!("golang/", $path)))),*] };
}

/// Its files, as they lie beside the generated `go.mod`.
const PKG: [(&str, &str); 12] = module! {
    "pkg/LICENSE" "pkg/go.mod" "pkg/wit/async/async.go" "pkg/wit/async/empty.s" "pkg/wit/runtime/empty.s" "pkg/wit/runtime/runtime.go"
    "pkg/wit/types/future.go" "pkg/wit/types/option.go" "pkg/wit/types/result.go" "pkg/wit/types/stream.go" "pkg/wit/types/tuple.go"
    "pkg/wit/types/unit.go"
};

/// Returns the files of the module, and the `go.mod` that takes it from there, in place of the one the generator wrote.
pub(super) fn files() -> impl Iterator<Item = (&'static str, String)> {
    PKG.iter().map(|(name, text)| (*name, (*text).to_owned())).chain([("go.mod", go_mod())])
}

/// The release of Go is the module's: an older one would refuse it.
fn go_mod() -> String {
    let go = GO_MOD.lines().find(|line| line.starts_with("go ")).unwrap_or("go 1.27");
    let required = wit_bindgen_go::remote_pkg_version();
    format!("module wit_component\n\n{go}\n\nrequire {required}\n\nreplace {MODULE} => ./pkg\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    /// Where cargo keeps the crate this was built with.
    fn crates_own() -> PathBuf {
        let lock = include_str!("../../../../Cargo.lock");
        let version = lock.split_once("name = \"wit-bindgen-go\"\nversion = \"").unwrap().1.split('"').next().unwrap();
        let home =
            std::env::var_os("CARGO_HOME").map_or_else(|| Path::new(&std::env::var_os("HOME").unwrap()).join(".cargo"), PathBuf::from);
        let registries = std::fs::read_dir(home.join("registry/src")).unwrap();
        let mut crates = registries.map(|registry| registry.unwrap().path().join(format!("wit-bindgen-go-{version}/src/pkg")));
        crates
            .find(|path| path.exists())
            .unwrap_or_else(|| panic!("cargo compiled wit-bindgen-go {version}, and it is not below {}", home.display()))
    }

    fn of_go(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                of_go(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "go" || extension == "s") {
                found.push(path);
            }
        }
    }

    #[test]
    fn the_module_is_the_one_of_the_crate_that_makes_the_bindings() {
        let pkg = crates_own();
        for (name, text) in PKG {
            let theirs = std::fs::read_to_string(pkg.join(name.strip_prefix("pkg/").unwrap())).unwrap();
            assert_eq!(theirs, text, "{name}");
        }
        let mut sources = Vec::new();
        of_go(&pkg, &mut sources);
        assert_eq!(sources.len(), PKG.len() - 2, "all sources are taken: {sources:?}");
    }

    #[test]
    fn the_module_file_takes_what_lies_beside_it() {
        assert_eq!(
            go_mod(),
            "module wit_component\n\ngo 1.27.1\n\nrequire go.bytecodealliance.org/pkg v0.4.0\n\nreplace go.bytecodealliance.org/pkg => ./pkg\n"
        );
    }
}
