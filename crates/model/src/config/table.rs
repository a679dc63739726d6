//! The macro that declares settings: one row has the field, the variable, its default, its reader
//! and its meaning.

use super::setting::SettingVariable;

/// Declares a struct of settings. A row is
/// `field: Type = "VARIABLE", "default", reader(arguments), "meaning";`, where `reader` is a method
/// of [`VariableReader`](super::reader::VariableReader), and `advanced` before the meaning marks a
/// setting that few installations change. The fields in `also` have no variable of
/// their own; each has a function that returns its first value.
macro_rules! settings {
    (
        $(#[$attribute:meta])*
        pub struct $group:ident {
            $(
                $(#[$doc:meta])*
                $field:ident: $type:ty = $name:literal, $default:literal,
                    $reader:ident($($argument:expr),*), $($advanced:ident)? $meaning:literal;
            )*
        }
        $(
            also {
                $(
                    $(#[$further_doc:meta])*
                    $further:ident: $further_type:ty = $value:expr;
                )*
            }
        )?
    ) => {
        $(#[$attribute])*
        pub struct $group {
            $($(#[$doc])* pub $field: $type,)*
            $($($(#[$further_doc])* pub $further: $further_type,)*)?
        }

        impl $group {
            /// The variables of this struct.
            pub(in crate::config) const VARIABLES: &'static [$crate::config::SettingVariable] = &[$(
                $crate::config::SettingVariable {
                    name: $name,
                    default: $default,
                    meaning: $meaning,
                    advanced: !stringify!($($advanced)?).is_empty(),
                },
            )*];

            /// Reads the variables. Invalid values are reported, and replaced by their defaults.
            pub(in crate::config) fn read_from(
                read: &mut $crate::config::reader::VariableReader<'_>,
            ) -> Self {
                let mut rows = Self::VARIABLES.iter();
                $(
                    let row = rows.next().expect("there is one for each field");
                    let $field: $type = read.$reader(row $(, $argument)*);
                )*
                $($(
                    let value: fn(&mut $crate::config::reader::VariableReader<'_>) -> $further_type =
                        $value;
                    let $further = value(read);
                )*)?
                Self { $($field,)* $($($further,)*)? }
            }
        }
    };
}
pub(in crate::config) use settings;

/// Joins the variables of several structs.
pub(super) const fn joined<const N: usize>(groups: &[&[SettingVariable]]) -> [SettingVariable; N] {
    let mut all = [SettingVariable { name: "", default: "", meaning: "", advanced: false }; N];
    let (mut count, mut group) = (0, 0);
    while group < groups.len() {
        let mut at = 0;
        while at < groups[group].len() {
            all[count] = groups[group][at];
            (count, at) = (count + 1, at + 1);
        }
        group += 1;
    }
    all
}
