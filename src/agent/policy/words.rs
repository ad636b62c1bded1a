// SPDX-License-Identifier: GPL-2.0-only
//! Helps to tell people what was wrong with what they wrote.

/// Names less alike than this have nothing to do with each other.
const ALIKE: f64 = 0.75;

/// The most characters of what was written that a sentence repeats.
const REPEATED: usize = 40;

/// Returns the name that is most like this one as a question, if any is alike.
pub fn did_you_mean<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let name: String = name.chars().take(REPEATED).collect();
    let alike = names.map(|other| (strsim::jaro_winkler(&name, other), other));
    let (how_much, other) = alike.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (how_much >= ALIKE).then(|| format!("did you mean {other:?}?"))
}

/// Returns the text in quotes, and only its beginning if it is long.
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(REPEATED) {
        Some((end, _)) => format!("{:?} and so on", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Returns the text in lines of at most `width` bytes, where words allow it.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_alike_is_offered() {
        let names = ["window", "grow-fill", "shrink-fill"];
        let offered = |name| did_you_mean(name, names.into_iter());
        assert_eq!(offered("windw").unwrap(), "did you mean \"window\"?");
        assert_eq!(offered("shrink_fill").unwrap(), "did you mean \"shrink-fill\"?");
        assert_eq!(offered("q"), None);
        assert_eq!(offered(""), None);
        assert_eq!(offered(&"x".repeat(1 << 20)), None);
    }

    #[test]
    fn what_is_long_is_repeated_in_part() {
        assert_eq!(quoted("a\"b\n"), r#""a\"b\n""#);
        assert_eq!(quoted(&"ä".repeat(41)), format!("{:?} and so on", "ä".repeat(40)));
        assert_eq!(quoted(&"ä".repeat(40)), format!("{:?}", "ä".repeat(40)));
    }

    #[test]
    fn lines_are_as_long_as_words_allow() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("immeasurable", 3), ["immeasurable"]);
    }
}
