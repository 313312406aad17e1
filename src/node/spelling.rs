//! What somebody probably meant: the known name nearest to a misspelt one.
//!
//! Nearness is the optimal string alignment distance: letters put in, left out, exchanged, or two neighbours swapped,
//! each counts one. Case, `-` and `_` do not count. Words are short and lists too: nothing here is fast.

/// The nearest known names, best first, at most `most`; those too far away to be a slip are left out.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    let plain = simple(word);
    // A third of the letters wrong is a slip, more is another word; a piece of a name finds the name.
    let bound = (plain.len() / 3).clamp(1, 4);
    let mut found: Vec<(usize, &str)> = Vec::new();
    for name in known {
        let other = simple(name);
        let steps = distance(&plain, &other);
        let is_part = plain.len() >= 4 && find(&other, &plain);
        if steps <= bound || is_part {
            found.push((steps, name));
        }
    }
    found.sort();
    found.into_iter().take(most).map(|(_, name)| name).collect()
}

/// `: did you mean X?` or nothing, to be put after a sentence.
#[must_use]
pub fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(word, known, 1).first() {
        Some(name) => format!(": did you mean {name}?"),
        None => String::new(),
    }
}

fn simple(word: &str) -> Vec<char> {
    // Names are short; what is not is cut, so that the table stays small.
    let letters = word.chars().filter(|letter| !matches!(letter, '-' | '_'));
    letters.flat_map(char::to_lowercase).take(64).collect()
}

fn find(text: &[char], part: &[char]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn distance(one: &[char], other: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.iter().enumerate() {
        let mut line = vec![row + 1];
        for (column, theirs) in other.iter().enumerate() {
            let mut steps = (last[column] + usize::from(letter != theirs))
                .min(last[column + 1] + 1)
                .min(line[column] + 1);
            if row > 0 && column > 0 && one[row - 1] == *theirs && other[column - 1] == *letter {
                steps = steps.min(before[column - 1] + 1);
            }
            line.push(steps);
        }
        before = core::mem::replace(&mut last, line);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 4] = ["shards", "sessions_max", "upstream", "upstream_token"];

    #[test]
    fn slips_find_their_name_and_other_words_none() {
        for (word, name) in [
            ("sharts", "shards"),
            ("shrads", "shards"),
            ("SESSIONS-MAX", "sessions_max"),
            ("sesions_max", "sessions_max"),
            ("upstraem", "upstream"),
            ("token", "upstream_token"),
        ] {
            assert_eq!(nearest(word, KNOWN, 1), [name], "{word}");
        }
        for word in ["", "x", "budget", "a\u{301}\u{1F600}"] {
            assert_eq!(nearest(word, KNOWN, 3), [""; 0], "{word}");
        }
        assert_eq!(nearest("upstream", KNOWN, 3), ["upstream", "upstream_token"]);
        assert_eq!(hint("sharts", KNOWN), ": did you mean shards?");
        assert_eq!(hint("budget", KNOWN), "");
    }

    #[test]
    fn distances_count_each_slip_once() {
        let steps = |one: &str, other: &str| distance(&simple(one), &simple(other));
        for (one, other, count) in [
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(steps(one, other), count, "{one} {other}");
        }
    }
}
