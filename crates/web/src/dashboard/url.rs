//! Addresses with fields. Pure.

/// Returns an address with these fields. Fields without a value are left out.
pub(super) fn address(path: &str, fields: &[(&str, &str)]) -> String {
    let mut address = path.to_owned();
    let given = fields.iter().filter(|(_, value)| !value.is_empty());
    for (at, (name, value)) in given.enumerate() {
        let sign = if at == 0 { '?' } else { '&' };
        address.push_str(&format!("{sign}{name}={}", encoded(value)));
    }
    address
}

fn encoded(value: &str) -> String {
    let mut encoded = String::new();
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_and_empty_ones_left_out() {
        let fields = [("a", ""), ("b", "x y&z"), ("c", "ä")];
        assert_eq!(address("/p", &fields), "/p?b=x%20y%26z&c=%C3%A4");
        assert_eq!(address("/p", &fields[..1]), "/p");
    }
}
