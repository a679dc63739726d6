//! The macro that declares settings: one row has the field, the variable, its default, its reader
//! and its meaning.

use super::reader::VariableReader;
use super::setting::SettingVariable;

/// Declares a struct of settings. A row is
/// `field: Type = "VARIABLE", "default", reader(arguments), "meaning";`, where `reader` is a method
/// of [`VariableReader`], whose argument often is a parser, and `advanced` before the meaning marks
/// a setting that few installations change. The fields in `also` have no variable of
/// their own; each has a function that returns its first value. `impl Type { … }` reads a struct
/// that another crate declares.
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

        $crate::table::settings! {
            impl $group {
                $($field: $type = $name, $default, $reader($($argument),*), $($advanced)? $meaning;)*
            }
            $(also { $($further: $further_type = $value;)* })?
        }
    };
    (
        impl $group:ident {
            $(
                $field:ident: $type:ty = $name:literal, $default:literal,
                    $reader:ident($($argument:expr),*), $($advanced:ident)? $meaning:literal;
            )*
        }
        $(also { $($further:ident: $further_type:ty = $value:expr;)* })?
    ) => {
        impl $crate::table::SettingsGroup for $group {
            const VARIABLES: &'static [$crate::SettingVariable] = &[$(
                $crate::SettingVariable {
                    name: $name,
                    default: $default,
                    meaning: $meaning,
                    advanced: !stringify!($($advanced)?).is_empty(),
                },
            )*];

            fn read_from(read: &mut $crate::reader::VariableReader<'_>) -> Self {
                let mut rows = Self::VARIABLES.iter();
                $(
                    let row = rows.next().expect("there is one for each field");
                    let $field: $type = read.$reader(row $(, $argument)*);
                )*
                $($(
                    let value: fn(&mut $crate::reader::VariableReader<'_>) -> $further_type =
                        $value;
                    let $further = value(read);
                )*)?
                Self { $($field,)* $($($further,)*)? }
            }
        }
    };
}
pub(crate) use settings;

/// A struct whose fields are read from variables.
pub(crate) trait SettingsGroup: Sized {
    const VARIABLES: &'static [SettingVariable];

    /// Reads the variables. Invalid values are reported, and replaced by their defaults.
    fn read_from(read: &mut VariableReader<'_>) -> Self;
}

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

pub(super) const fn names<const N: usize>(variables: &[SettingVariable; N]) -> [&'static str; N] {
    let (mut names, mut at) = ([""; N], 0);
    while at < N {
        names[at] = variables[at].name;
        at += 1;
    }
    names
}
