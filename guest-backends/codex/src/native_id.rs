//! The id of a session: Codex's thread id with data that Codex does not report to a later process.
//!
//! The form is `<thread>[.p][.s<hash>][.u<input>-<cached>-<output>-<reasoning>]`, for example
//! `01a1ffe4-4d56-7702-a732-f4a42b6d7070.s5f3a9c21bd3e0a11.u1040-200-5-0`. The hash identifies the
//! system prompt that was last sent, because Codex keeps that of the first turn. `p` marks a thread
//! left in planning mode. The token sums are needed because `codex exec resume` reports those of
//! the whole thread. A plain thread id is valid too; then nothing else is known.

use crate::tokens::Tokens;

/// The parts of a session's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NativeId {
    /// Codex's id of the thread.
    pub(crate) thread: String,
    /// Whether it was left in planning mode.
    pub(crate) plan: bool,
    /// Hash of the last system prompt sent, see [`hash`].
    pub(crate) prompt_hash: Option<u64>,
    /// Tokens of all turns so far.
    pub(crate) spent: Option<Tokens>,
}

impl NativeId {
    /// Creates an id without further data.
    pub(crate) fn bare(thread: &str) -> Self {
        Self { thread: thread.to_owned(), plan: false, prompt_hash: None, spent: None }
    }

    /// Parses an id. Returns `None` if it is not one of Codex, which would silently begin a new
    /// thread for it.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        let mut pieces = id.split('.');
        let mut parsed = Self::bare(pieces.next().filter(|thread| is_uuid(thread))?);
        for piece in pieces {
            match piece.split_at_checked(1)? {
                ("p", "") => parsed.plan = true,
                ("s", hash) => parsed.prompt_hash = Some(u64::from_str_radix(hash, 16).ok()?),
                ("u", counts) => {
                    let counts: Vec<u32> =
                        counts.split('-').map(str::parse).collect::<Result<_, _>>().ok()?;
                    let [input, cached, output, reasoning] = counts[..] else { return None };
                    parsed.spent = Some(Tokens { input, cached, output, reasoning });
                }
                _ => return None,
            }
        }
        Some(parsed)
    }
}

impl std::fmt::Display for NativeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.thread)?;
        if self.plan {
            f.write_str(".p")?;
        }
        if let Some(prompt_hash) = self.prompt_hash {
            write!(f, ".s{prompt_hash:016x}")?;
        }
        if let Some(Tokens { input, cached, output, reasoning }) = self.spent {
            write!(f, ".u{input}-{cached}-{output}-{reasoning}")?;
        }
        Ok(())
    }
}

/// Computes the FNV-1a hash of a text, which is the same on every machine and in every version. It
/// is not suitable for secrets.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| {
            if matches!(at, 8 | 13 | 18 | 23) { byte == b'-' } else { byte.is_ascii_hexdigit() }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: &str = "01a1ffe4-4d56-7702-a732-f4a42b6d7070";

    #[test]
    fn an_id_survives_a_round_trip_and_fits_the_contract() {
        let most =
            Tokens { input: u32::MAX, cached: u32::MAX, output: u32::MAX, reasoning: u32::MAX };
        for (prompt_hash, spent) in [
            (None, None),
            (Some(0), None),
            (None, Some(Tokens::default())),
            (Some(hash("be kind")), Some(most)),
        ] {
            let id = NativeId {
                prompt_hash,
                spent,
                plan: prompt_hash.is_some(),
                ..NativeId::bare(THREAD)
            };
            assert_eq!(NativeId::parse(&id.to_string()), Some(id.clone()));
            assert!(id.to_string().len() <= 128, "{id}");
        }
    }

    #[test]
    fn an_invalid_id_is_refused() {
        for id in [
            "",
            "not-a-session",
            "--last",
            &format!("{THREAD}.x1"),
            &format!("{THREAD}.u1-2-3"),
            &format!("{THREAD}."),
            &format!("{THREAD}.sé"),
        ] {
            assert_eq!(NativeId::parse(id), None, "{id}");
        }
    }
}
