// SPDX-License-Identifier: GPL-2.0-only
//! A knob, and what it can be turned to: as text, in a policy file, and in the policy itself.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use toml::Value as Toml;
use toml::de::DeValue;

use super::words::quoted;
use crate::agent::cpulist;
use crate::bpf::intf::{self, avx_name, avx_policy};
use crate::bpf::names::{LONGEST_NAME, name_of, text_of};

pub struct Knob {
    pub name: &'static str,
    pub value: Value,
    pub help: &'static str,
}

/// The kind of value that a knob has.
pub enum Value {
    Number(Scale, fn(&avx_policy) -> u64, fn(&mut avx_policy, u64)),
    List(fn(&avx_policy) -> &Names, fn(&mut avx_policy) -> &mut Names),
    Cpus(fn(&avx_policy) -> &CpuList, fn(&mut avx_policy) -> &mut CpuList),
}

use Value::{Cpus, List, Number};

/// A bit for each CPU.
pub type CpuList = [u64; intf::AVX_LIST_WORDS as usize];

/// Names of programs.
pub type Names = [avx_name; intf::AVX_NAMES_MAX as usize];

pub const NO_NAMES: Names =
    [avx_name { words: [0; intf::AVX_NAME_WORDS as usize] }; intf::AVX_NAMES_MAX as usize];

/// What a number stands for.
pub enum Scale {
    /// One of these names, by its position.
    Choice(&'static [&'static str]),
    Count(RangeInclusive<u64>),
    /// A fraction in 1/1024.
    Fraction(RangeInclusive<u64>),
    /// A fraction in 1/1024, or `OF_THE_CPU`, which stands for what is known of the CPU.
    FractionOrCpu(RangeInclusive<u64>),
    /// A time in nanoseconds.
    Time(RangeInclusive<u64>),
}

use Scale::{Choice, Count, Fraction, FractionOrCpu, Time};

/// No fraction is that large.
pub const OF_THE_CPU: u64 = intf::AVX_WHOLE as u64 + 1;
const CPU: &str = "cpu";

/// The names of a choice that is a flag: false, then true.
pub const FLAG: &[&str] = &["off", "on"];

impl Knob {
    /// Returns the value as `turn` takes it.
    pub fn show(&self, policy: &avx_policy) -> String {
        match &self.value {
            Number(scale, get, _) => scale.show(get(policy)),
            List(get, _) => names_in(get(policy)).join(","),
            Cpus(get, _) => cpulist::format(cpus_in(get(policy))),
        }
    }

    pub fn turn(&self, policy: &mut avx_policy, text: &str) -> Result<()> {
        let refused =
            |expected| anyhow!("{} cannot be {}: it takes {expected}", self.name, quoted(text));
        match &self.value {
            Number(scale, _, set) => set(policy, scale.parse(text).map_err(refused)?),
            List(_, names) => {
                // A blank at the beginning or the end of a name is not meant as part of it.
                let given = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                let given: Vec<&str> = given.collect();
                *names(policy) = names_of(&given).with_context(|| self.range()).map_err(refused)?;
            }
            Cpus(_, list) => {
                let given = cpulist::parse(text, intf::AVX_LIST_CPUS);
                let given = given.with_context(|| self.range()).map_err(refused)?;
                *list(policy) = list_with(&given);
            }
        }
        Ok(())
    }

    /// Returns the value as a policy file has it.
    pub fn to_toml(&self, policy: &avx_policy) -> Toml {
        let strings =
            |texts: Vec<String>| Toml::Array(texts.into_iter().map(Toml::String).collect());
        match &self.value {
            List(get, _) => strings(names_in(get(policy))),
            Cpus(get, _) => {
                let list = cpulist::format(cpus_in(get(policy)));
                let ranges = list.split(',').filter(|range| !range.is_empty());
                strings(ranges.map(str::to_owned).collect())
            }
            Number(scale, get, _) => {
                let text = scale.show(get(policy));
                match scale {
                    Choice(FLAG) => Toml::Boolean(text == "on"),
                    Count(_) => text.parse().map_or(Toml::String(text), Toml::Integer),
                    Fraction(_) | FractionOrCpu(_) => {
                        text.parse().map_or(Toml::String(text), Toml::Float)
                    }
                    Choice(_) | Time(_) => Toml::String(text),
                }
            }
        }
    }

    /// Returns the text of a value in a policy file. Every knob takes a string. Which other types
    /// it takes depends on the kind of its value.
    pub fn text_of(&self, value: &DeValue<'_>) -> Result<String> {
        let text = match (&self.value, value) {
            (_, DeValue::String(text)) => Some(text.to_string()),
            (Number(Choice(FLAG), ..), DeValue::Boolean(flag)) => Some(flag.to_string()),
            (Number(Count(_) | Fraction(_) | FractionOrCpu(_), ..), DeValue::Integer(_)) => {
                integer(value)
            }
            (Number(Fraction(_) | FractionOrCpu(_), ..), DeValue::Float(number)) => {
                Some(number.as_str().to_owned())
            }
            (List(..) | Cpus(..), DeValue::Array(values)) => {
                let elements = values.iter().map(|value| element(value.get_ref()));
                elements.collect::<Option<Vec<_>>>().map(|texts| texts.join(","))
            }
            _ => None,
        };
        text.with_context(|| {
            let kind = value.type_str();
            format!("{} cannot be this {kind}: it takes {}", self.name, self.range())
        })
    }

    /// Returns in words what the knob takes.
    pub fn range(&self) -> String {
        match &self.value {
            Number(scale, ..) => scale.range(),
            List(..) => format!(
                "up to {} names of up to {LONGEST_NAME} bytes, with commas between them",
                intf::AVX_NAMES_MAX
            ),
            Cpus(..) => format!("CPUs below {}, as in 0-3,8", intf::AVX_LIST_CPUS),
        }
    }
}

fn integer(value: &DeValue<'_>) -> Option<String> {
    let number = value.as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string())
}

/// Returns an element of a list as text. A string with a comma is none, because it would be two
/// elements.
fn element(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => (!text.contains(',')).then(|| text.to_string()),
        _ => integer(value),
    }
}

pub fn cpus_in(list: &CpuList) -> impl Iterator<Item = u32> {
    (0..intf::AVX_LIST_CPUS).filter(|cpu| list[*cpu as usize / 64] >> (cpu % 64) & 1 == 1)
}

fn list_with(cpus: &BTreeSet<u32>) -> CpuList {
    let mut list = [0; intf::AVX_LIST_WORDS as usize];
    cpus.iter().for_each(|cpu| list[*cpu as usize / 64] |= 1 << (cpu % 64));
    list
}

/// Returns nothing if there are too many names, or if one is too long or has control characters:
/// the first zero ends a name.
pub fn names_of(names: &[&str]) -> Option<Names> {
    let mut all = NO_NAMES;
    for (n, name) in names.iter().enumerate() {
        *all.get_mut(n)? = name_of(name)?;
    }
    Some(all)
}

/// Returns the names in use. An entry that is not used is empty.
fn names_in(names: &Names) -> Vec<String> {
    names.iter().map(text_of).take_while(|name| !name.is_empty()).collect()
}

fn in_1024ths(text: &str) -> Option<u64> {
    let fraction = text.parse::<f64>().ok().filter(|value| (0.0..=1.0).contains(value))?;
    Some((fraction * f64::from(intf::AVX_WHOLE)).round() as u64)
}

impl Scale {
    fn parse(&self, text: &str) -> Result<u64> {
        let (value, range) = match self {
            Choice(names) => {
                let text = match text {
                    "false" if *names == FLAG => "off",
                    "true" if *names == FLAG => "on",
                    _ => text,
                };
                let position = names.iter().position(|name| *name == text);
                let position = position.with_context(|| format!("one of {}", names.join(", ")))?;
                return Ok(position as u64);
            }
            Count(range) => (text.parse().ok(), range),
            FractionOrCpu(_) if text == CPU => return Ok(OF_THE_CPU),
            Fraction(range) | FractionOrCpu(range) => (in_1024ths(text), range),
            Time(range) => {
                let parsed = humantime::parse_duration(text).ok();
                (parsed.and_then(|time| u64::try_from(time.as_nanos()).ok()), range)
            }
        };
        value.filter(|value| range.contains(value)).with_context(|| self.range())
    }

    pub fn show(&self, value: u64) -> String {
        match self {
            Choice(names) => names[value as usize].to_owned(),
            Count(_) => value.to_string(),
            FractionOrCpu(_) if value == OF_THE_CPU => CPU.to_owned(),
            Fraction(_) | FractionOrCpu(_) => {
                // Three digits are enough for most values, and four tell all of them apart.
                let fraction = value as f64 / f64::from(intf::AVX_WHOLE);
                let short = format!("{fraction:.3}");
                if in_1024ths(&short) == Some(value) { short } else { format!("{fraction:.4}") }
            }
            Time(_) => humantime::format_duration(Duration::from_nanos(value)).to_string(),
        }
    }

    fn range(&self) -> String {
        match self {
            Choice(names) => names.join(", "),
            Count(range) | Fraction(range) | FractionOrCpu(range) | Time(range) => {
                let numbers =
                    format!("{} to {}", self.show(*range.start()), self.show(*range.end()));
                let is_all = !matches!(self, FractionOrCpu(_));
                if is_all { numbers } else { format!("{numbers}, or {CPU}") }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fraction_has_a_text_of_its_own() {
        let all = Fraction(0..=1024);
        for value in 0..=1024 {
            assert_eq!(all.parse(&all.show(value)).unwrap(), value);
        }
        assert_eq!((all.show(768), all.show(1024)), ("0.750".to_owned(), "1.000".to_owned()));
        assert!(all.parse(CPU).is_err());
        let open = FractionOrCpu(0..=1024);
        assert_eq!((open.parse(CPU).unwrap(), open.show(OF_THE_CPU)), (OF_THE_CPU, CPU.to_owned()));
        assert_eq!(open.parse("0.75").unwrap(), 768);
    }

    #[test]
    fn a_flag_is_also_what_policy_files_have() {
        let parsed = ["off", "false", "on", "true"].map(|text| Choice(FLAG).parse(text).unwrap());
        assert_eq!(parsed, [0, 0, 1, 1]);
        assert!(Choice(FLAG).parse("yes").is_err());
        assert!(Choice(&["off", "compensate"]).parse("false").is_err());
    }

    #[test]
    fn names_have_a_length_and_no_control_characters() {
        let names = names_of(&["fifteen-letters", "a b"]).unwrap();
        assert_eq!(names_in(&names), ["fifteen-letters", "a b"]);
        for bad in ["sixteen-letters!", "a\0b", "\0", "a\nb", "\u{85}"] {
            assert!(names_of(&["good", bad]).is_none(), "{bad:?}");
        }
        assert!(names_of(&["a"; 17]).is_none());
    }
}
