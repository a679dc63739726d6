//! The id of a session: Codex' thread id, and beside it what Codex does not tell a later process.
//!
//! `<thread>[.p][.s<hash>][.u<input>-<cached>-<output>-<reasoning>]`, for example
//! `01a1ffe4-4d56-7702-a732-f4a42b6d7070.s5f3a9c21bd3e0a11.u1040-200-5-0`: which system prompt the
//! thread was told last, because Codex keeps that of the first turn for good, whether the thread
//! was left in the mode for planning, and the sums of tokens, because `codex exec resume` tells
//! those of the whole thread. A bare thread id is as good; nothing is known of it then.

use crate::tokens::Tokens;

/// A session's id, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NativeId {
    /// The id that Codex gave the thread.
    pub(crate) thread: String,
    /// It was left in the mode for planning.
    pub(crate) plan: bool,
    /// Hash of the system prompt told last, see [`hash`].
    pub(crate) told: Option<u64>,
    /// Tokens of all turns so far.
    pub(crate) spent: Option<Tokens>,
}

impl NativeId {
    /// A thread of which nothing else is known.
    pub(crate) fn bare(thread: &str) -> Self {
        Self { thread: thread.to_owned(), plan: false, told: None, spent: None }
    }

    /// Takes an id apart. None: it is not one of Codex, which would begin a new thread for it
    /// without a word.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        let mut pieces = id.split('.');
        let mut parsed = Self::bare(pieces.next().filter(|thread| is_uuid(thread))?);
        for piece in pieces {
            match piece.split_at_checked(1)? {
                ("p", "") => parsed.plan = true,
                ("s", hash) => parsed.told = Some(u64::from_str_radix(hash, 16).ok()?),
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
        if let Some(told) = self.told {
            write!(f, ".s{told:016x}")?;
        }
        if let Some(Tokens { input, cached, output, reasoning }) = self.spent {
            write!(f, ".u{input}-{cached}-{output}-{reasoning}")?;
        }
        Ok(())
    }
}

/// FNV-1a: the same on every machine and in every version. Tells texts apart, keeps no secret.
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
    fn an_id_goes_and_comes_back_and_fits_the_contract() {
        let most =
            Tokens { input: u32::MAX, cached: u32::MAX, output: u32::MAX, reasoning: u32::MAX };
        for (told, spent) in [
            (None, None),
            (Some(0), None),
            (None, Some(Tokens::default())),
            (Some(hash("be kind")), Some(most)),
        ] {
            let id = NativeId { told, spent, plan: told.is_some(), ..NativeId::bare(THREAD) };
            assert_eq!(NativeId::parse(&id.to_string()), Some(id.clone()));
            assert!(id.to_string().len() <= 128, "{id}");
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
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
