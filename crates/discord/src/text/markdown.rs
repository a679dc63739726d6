//! Discord's formatting. Pure.

/// Escapes formatting, links and mentions.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if "\\*_~`|>#[]()<".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
