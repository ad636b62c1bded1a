// SPDX-License-Identifier: GPL-2.0-only
//! Lists of CPUs as people and the kernel write them: 0-3,8.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};

/// Parses a list of CPUs, all of which must be below `end`. Empty text is an empty list.
pub fn parse(text: &str, end: u32) -> Result<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| -> Result<u32> {
            text.parse().with_context(|| format!("{part:?} is no CPU and no range of them"))
        };
        let (first, last) = (number(first)?, number(last)?);
        ensure!(first <= last, "the range {part:?} ends before it begins");
        ensure!(last < end, "CPU {last} is beyond {}", end - 1);
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

pub fn format(cpus: impl IntoIterator<Item = u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let texts: Vec<String> = ranges
        .iter()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        })
        .collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for list in ["", "3", "0-2,5,8-9", "1,3"] {
            assert_eq!(format(parse(list, 10).unwrap()), list);
        }
        assert_eq!(format(parse(" 2, 0-1,1 ,", 10).unwrap()), "0-2");
    }

    #[test]
    fn what_is_no_list_is_refused_at_once() {
        for (bad, why) in [
            ("x", "no CPU"),
            ("-1", "no CPU"),
            ("1-", "no CPU"),
            ("3-1", "ends before"),
            ("10", "beyond 9"),
            ("0-4294967295", "beyond 9"),
            ("0-99999999999", "no CPU"),
        ] {
            let error = format!("{:#}", parse(bad, 10).unwrap_err());
            assert!(error.contains(why), "{bad}: {error}");
        }
    }
}
