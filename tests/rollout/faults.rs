//! Damages copies of components, without a compiler: one byte of one text that the component
//! compares or sends is changed. The seed alone determines the byte.

use std::collections::BTreeSet;

/// Minimum length of a text that is changed in the data of a component.
const MIN_TEXT: usize = 5;
/// The `i32.const` instruction. The compiler turns comparisons of short texts into comparisons of
/// such numbers.
const I32_CONST: u8 = 0x41;

/// The places of a component at which a fault can be put: the position of a byte of a text, in the
/// data or in a constant of the code.
pub struct FaultSites {
    component: Vec<u8>,
    sites: Vec<(usize, SiteKind)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SiteKind {
    Data,
    Constant,
}

impl FaultSites {
    /// Finds the texts of `recordings` in a component.
    pub fn of(component: &[u8], recordings: &[String]) -> Self {
        let words: BTreeSet<&[u8]> = recordings.iter().flat_map(|text| words(text)).collect();
        let mut sites = BTreeSet::new();
        let (code, data) = sections(component);
        for (from, to) in data {
            let texts = &component[from..to];
            for word in words.iter().filter(|word| word.len() >= MIN_TEXT) {
                let found = texts.windows(word.len()).position(|window| window == *word);
                sites.extend(found.map(|at| (from + at + word.len() / 2, SiteKind::Data)));
            }
        }
        let pieces: BTreeSet<&[u8]> = words.iter().flat_map(|word| word.windows(4)).collect();
        for (from, to) in code {
            for at in from..to.saturating_sub(6) {
                // Five bytes, so that a change of the first one does not change the length.
                if component[at] == I32_CONST
                    && component[at + 1..at + 5].iter().all(|byte| byte & 0x80 != 0)
                    && component[at + 5] & 0x80 == 0
                    && pieces.contains(&number(&component[at + 1..at + 6]).to_le_bytes()[..])
                {
                    sites.insert((at + 1, SiteKind::Constant));
                }
            }
        }
        Self { component: component.to_vec(), sites: sites.into_iter().collect() }
    }

    /// Returns the component with the fault of a seed.
    pub fn damaged(&self, seed: usize) -> Vec<u8> {
        // The golden ratio visits all parts of the list before it comes close to an earlier place.
        let index = (seed * 0x9E37_79B1) % self.sites.len();
        let mut component = self.component.clone();
        // Bit 0 exchanges `b` and `c`, and so on.
        let (at, _) = self.sites[index];
        component[at] ^= 1;
        component
    }

    pub fn len(&self) -> usize {
        self.sites.len()
    }
}

/// Returns a copy of a component with other bytes and the same behaviour: it has one more custom
/// section.
pub fn rebuilt(component: &[u8]) -> Vec<u8> {
    [component, &[0, 6, 5], b"again"].concat()
}

fn words(text: &str) -> impl Iterator<Item = &[u8]> {
    let is_part = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-');
    text.as_bytes().split(move |byte| !is_part(byte)).filter(|word| word.len() >= 4)
}

type Ranges = Vec<(usize, usize)>;

/// Returns the ranges of the code and of the data of a component's core modules.
fn sections(component: &[u8]) -> (Ranges, Ranges) {
    let (mut code, mut data) = (Ranges::new(), Ranges::new());
    for (id, from, to) in sections_between(component, 8, component.len()) {
        if id == 1 {
            for (id, from, to) in sections_between(component, from + 8, to) {
                match id {
                    10 => code.push((from, to)),
                    11 => data.push((from, to)),
                    _ => {}
                }
            }
        }
    }
    (code, data)
}

fn sections_between(bytes: &[u8], mut at: usize, end: usize) -> Vec<(u8, usize, usize)> {
    let mut found = Vec::new();
    while at < end {
        let length = bytes[at + 1..].iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
        let size = number(&bytes[at + 1..at + 1 + length]) as usize;
        let from = at + 1 + length;
        found.push((bytes[at], from, from + size));
        at = from + size;
    }
    found
}

/// Returns the low 32 bits of a LEB128 number.
fn number(bytes: &[u8]) -> u32 {
    let parts = bytes.iter().enumerate();
    parts.fold(0, |sum, (index, byte)| sum | (u64::from(byte & 0x7f) << (7 * index))) as u32
}
