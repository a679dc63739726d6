//! The C++ project, compiled with Zig's clang, with the helpers of `languages/cpp`.

use super::TemplateFile;

/// Lists the files of a project: those of both kinds, and the backend itself.
macro_rules! project {
    ($backend:literal) => {
        &[
            (".gitignore", include_str!("../../../../templates/cpp/gitignore")),
            ("Makefile", include_str!("../../../../templates/cpp/Makefile")),
            ("README.md", include_str!("../../../../templates/cpp/README.md")),
            ("agent.cpp", include_str!("../../../../templates/cpp/agent.cpp")),
            ("agent.hpp", include_str!("../../../../templates/cpp/agent.hpp")),
            ("backend.cpp", include_str!(concat!("../../../../templates/cpp/", $backend))),
            ("actions.cpp", include_str!("../../../../languages/cpp/actions.cpp")),
            ("actions.hpp", include_str!("../../../../languages/cpp/actions.hpp")),
            ("json.cpp", include_str!("../../../../languages/cpp/json.cpp")),
            ("json.hpp", include_str!("../../../../languages/cpp/json.hpp")),
        ]
    };
}

pub(super) const ONE_SHOT: &[TemplateFile] = project!("one-shot/backend.cpp");
pub(super) const LIVE: &[TemplateFile] = project!("live/backend.cpp");
