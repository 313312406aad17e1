//! The tables of docs/VERIFICATION-faults.md against the tests there are (FAULTS, THREATS).
//!
//! A test names a number by its own name (`faults_22_..`, `threats_33_34_..`) or by its doc comment (`FAULTS 22`,
//! `THREATS 22..35`). The document fails here when a row names a test that does not exist or that does not name the
//! row's number, when a test names a number and its row does not list it, when a required number has no row, and when
//! code or a document cites a number that has neither a row nor a line in docs/DECISIONS.md.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Which catalogue, and the number in it.
type Number = (&'static str, u32);

/// A test function.
#[derive(Debug, Default)]
struct Test {
    name: String,
    file: String,
    /// Numbers in its name.
    by_name: BTreeSet<Number>,
    /// Numbers in its doc comment.
    by_comment: BTreeSet<Number>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below `directory`.
fn sources(directory: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

/// The numbers a test's name begins to list behind `faults_` or `threats_`.
fn numbers_of_name(name: &str) -> BTreeSet<Number> {
    let mut numbers = BTreeSet::new();
    let words: Vec<&str> = name.split('_').collect();
    for (at, word) in words.iter().enumerate() {
        let catalogue = match *word {
            "faults" => "FAULTS",
            "threats" => "THREATS",
            _ => continue,
        };
        for number in words[at + 1..].iter().map_while(|word| word.parse().ok()) {
            numbers.insert((catalogue, number));
        }
    }
    numbers
}

/// The numbers a comment names: `FAULTS 44, 46`, `THREATS 6..8`, `THREATS 79 to 81, 86`, `THREATS 80 and 81`.
fn numbers_of_comment(comment: &str) -> BTreeSet<Number> {
    let spaced = comment
        .replace("..", " to ")
        .replace([',', '.', ':', ';', '(', ')'], " ");
    let mut numbers = BTreeSet::new();
    let (mut catalogue, mut last, mut range) = (None, None, false);
    for word in spaced.split_whitespace() {
        match (word, word.parse::<u32>()) {
            ("FAULTS", _) => (catalogue, last, range) = (Some("FAULTS"), None, false),
            ("THREATS", _) => (catalogue, last, range) = (Some("THREATS"), None, false),
            ("to", _) if last.is_some() => range = true,
            ("and", _) if last.is_some() => {}
            (_, Ok(number)) if catalogue.is_some() => {
                let from = if range { last.unwrap_or(number) } else { number };
                numbers.extend((from..=number).filter_map(|number| Some((catalogue?, number))));
                (last, range) = (Some(number), false);
            }
            _ => catalogue = None,
        }
    }
    numbers
}

/// The numbers that a file names, in comments or prose, also where a line ends within a list of them.
fn numbers_of_text(text: &str) -> BTreeSet<Number> {
    let mut joined = String::new();
    for line in text.lines().map(str::trim_start) {
        let marks = ["///", "//!", "//"];
        let line = marks
            .into_iter()
            .find_map(|mark| line.strip_prefix(mark))
            .unwrap_or(line);
        joined.push_str(line);
        joined.push(' ');
    }
    numbers_of_comment(&joined)
}

/// The test functions of one file: those with a `test` attribute.
fn tests_of(path: &Path, out: &mut Vec<Test>) {
    let text = std::fs::read_to_string(path).unwrap();
    let file = path.strip_prefix(root()).unwrap().display().to_string();
    let (mut comment, mut is_test) = (String::new(), false);
    for line in text.lines().map(str::trim) {
        if let Some(more) = line.strip_prefix("///") {
            comment.push_str(more);
            comment.push('\n');
        } else if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.contains("::test]");
        } else {
            let declared = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
            if let (true, Some(declared)) = (is_test, declared) {
                let name: String = declared
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect();
                out.push(Test {
                    by_name: numbers_of_name(&name),
                    by_comment: numbers_of_comment(&comment),
                    name,
                    file: file.clone(),
                });
            }
            comment.clear();
            is_test = false;
        }
    }
}

fn tests() -> Vec<Test> {
    let mut files = Vec::new();
    for directory in ["src", "tests"] {
        sources(&root().join(directory), &mut files);
    }
    let mut tests = Vec::new();
    files.iter().for_each(|file| tests_of(file, &mut tests));
    tests
}

/// A row: its number, and what stands in its last cell.
type Rows = BTreeMap<Number, String>;

/// The tables of the document, and the numbers it says must have a row.
fn document() -> (Rows, BTreeSet<Number>) {
    let text = std::fs::read_to_string(root().join("docs/VERIFICATION-faults.md")).unwrap();
    let (mut rows, mut required) = (Rows::new(), BTreeSet::new());
    let mut catalogue = None;
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            catalogue = ["FAULTS", "THREATS"]
                .into_iter()
                .find(|name| heading.starts_with(name));
        } else if let Some(list) = line.strip_prefix("Required: ") {
            required.extend(numbers_of_comment(list));
        } else if let (Some(catalogue), Some(cells)) = (catalogue, line.strip_prefix("| ")) {
            let cells: Vec<&str> = cells.trim_end_matches('|').split('|').map(str::trim).collect();
            let Ok(number) = cells[0].parse() else { continue };
            assert_eq!(cells.len(), 3, "{line}");
            assert!(cells.iter().all(|cell| !cell.is_empty()), "{line}");
            let before = rows.insert((catalogue, number), cells[2].to_string());
            assert!(before.is_none(), "{catalogue} {number} has two rows");
        }
    }
    (rows, required)
}

/// The `name` and `file` pairs of a cell: each name in backquotes, its file in backquotes behind it in parentheses.
fn named(cell: &str) -> Vec<(String, String)> {
    let mut quoted = cell.split('`').skip(1).step_by(2);
    let mut pairs = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for word in quoted.by_ref() {
        if word.ends_with(".rs") {
            assert!(!names.is_empty(), "a file without a test: {cell}");
            pairs.extend(names.drain(..).map(|name| (name, word.to_string())));
        } else {
            names.push(word.to_string());
        }
    }
    assert!(names.is_empty(), "tests without a file: {names:?} in {cell}");
    pairs
}

/// Each row holds: tests that exist and name its number, or a decision, or what will bring it.
#[test]
fn every_row_names_tests_that_are_there() {
    let tests = tests();
    let mut wrong = Vec::new();
    for ((catalogue, number), cell) in &document().0 {
        let pairs = named(cell);
        if pairs.is_empty() && !cell.starts_with("DECISIONS") && !cell.starts_with("not yet: ") {
            wrong.push(format!(
                "{catalogue} {number}: no test, no decision, not yet: {cell}"
            ));
        }
        for (name, file) in pairs {
            match tests.iter().find(|test| test.name == name && test.file == file) {
                None => wrong.push(format!("{catalogue} {number}: no test {name} in {file}")),
                Some(test)
                    if !test
                        .by_name
                        .union(&test.by_comment)
                        .any(|named| *named == (catalogue, *number)) =>
                {
                    wrong.push(format!("{catalogue} {number}: {name} in {file} does not name it"));
                }
                Some(_) => {}
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "docs/VERIFICATION-faults.md:\n{}",
        wrong.join("\n")
    );
}

/// Each test that names a number is in that number's row.
#[test]
fn every_test_that_names_a_number_is_in_its_row() {
    let (rows, _) = document();
    let mut wrong = Vec::new();
    for test in tests() {
        for (catalogue, number) in &test.by_name {
            let here = (test.name.clone(), test.file.clone());
            let listed = rows
                .get(&(*catalogue, *number))
                .is_some_and(|cell| named(cell).contains(&here));
            if !listed {
                wrong.push(format!("{catalogue} {number}: `{}` (`{}`)", test.name, test.file));
            }
        }
        for (catalogue, number) in &test.by_comment {
            if !rows.contains_key(&(*catalogue, *number)) {
                wrong.push(format!(
                    "{catalogue} {number} has no row: {} of {}",
                    test.name, test.file
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "docs/VERIFICATION-faults.md does not list:\n{}",
        wrong.join("\n")
    );
}

/// The table of numbers at their edges names tests that exist.
#[test]
fn the_table_of_edges_names_tests_that_are_there() {
    let text = std::fs::read_to_string(root().join("docs/VERIFICATION-faults.md")).unwrap();
    let (_, edges) = text.split_once("## Wrap and identity").expect("the section");
    let tests = tests();
    let mut count = 0;
    for line in edges
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'))
    {
        for (name, file) in named(line.trim_end_matches('|').rsplit('|').next().unwrap()) {
            count += 1;
            assert!(
                tests.iter().any(|test| test.name == name && test.file == file),
                "no test {name} in {file}"
            );
        }
    }
    assert!(count > 20, "{count}");
}

/// Each number that code or a document cites has a row, or a decision that names it.
#[test]
fn every_number_cited_has_a_row_or_a_decision() {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let mut files = Vec::new();
    for directory in ["src", "tests", "fuzz/src"] {
        sources(&root().join(directory), &mut files);
    }
    // This file's own examples cite nothing.
    files.retain(|path| !path.ends_with("tests/fault_table.rs"));
    let documents = std::fs::read_dir(root().join("docs")).unwrap();
    let is_document = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    files.extend(documents.map(|entry| entry.unwrap().path()).filter(is_document));
    files.extend(["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(|name| root().join(name)));
    let decided = numbers_of_text(&read(&root().join("docs/DECISIONS.md")));
    let (rows, _) = document();
    let (mut cited, mut wrong) = (BTreeSet::new(), Vec::new());
    for path in files {
        for number in numbers_of_text(&read(&path)) {
            if !rows.contains_key(&number) && !decided.contains(&number) {
                let file = path.strip_prefix(root()).unwrap().display();
                wrong.push(format!("{} {} in {file}", number.0, number.1));
            }
            cited.insert(number);
        }
    }
    assert!(cited.len() > 100, "{} numbers are cited", cited.len());
    assert!(
        wrong.is_empty(),
        "neither a row nor a decision:\n{}",
        wrong.join("\n")
    );
}

/// Each decision that a row points to is written down with its number.
#[test]
fn every_decision_is_written_down() {
    let decisions = std::fs::read_to_string(root().join("docs/DECISIONS.md")).unwrap();
    let written = numbers_of_text(&decisions);
    let missing: Vec<_> = document()
        .0
        .into_iter()
        .filter(|(number, cell)| cell.contains("DECISIONS") && !written.contains(number))
        .map(|(number, _)| number)
        .collect();
    assert!(
        missing.is_empty(),
        "docs/DECISIONS.md says nothing of {missing:?}"
    );
}

/// Each required number has a row; where the catalogues are at hand, each entry of the areas and parts is required.
#[test]
fn every_required_number_has_a_row() {
    let (rows, required) = document();
    let missing: Vec<_> = required
        .iter()
        .filter(|number| !rows.contains_key(number))
        .collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
    let catalogues = root().join("../shared/spec");
    let read = |name: &str| std::fs::read_to_string(catalogues.join(name)).ok();
    let (Some(faults), Some(threats)) = (read("FAULTS.md"), read("THREATS.md")) else {
        return;
    };
    let mut entries: BTreeSet<Number> = BTreeSet::new();
    let mut number = None;
    for line in faults.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            number = heading.split('.').next().and_then(|number| number.parse().ok());
        } else if let (Some(areas), Some(number)) = (line.strip_prefix("- Area: "), number) {
            let areas = areas.split('|').next().unwrap();
            let ours = [
                "window",
                "decoder",
                "protocol",
                "AOI",
                "interp",
                "clock",
                "prediction",
                "client lib",
            ];
            if areas.split('/').any(|area| ours.contains(&area.trim())) {
                entries.insert(("FAULTS", number));
            }
        }
    }
    let mut part = "";
    for line in threats.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            part = heading.split('.').next().unwrap_or_default();
        } else if let (true, Some(cells)) = (
            ["I", "II", "III", "IV", "V", "VI"].contains(&part),
            line.strip_prefix("| "),
        ) {
            let number = cells.split('|').next().and_then(|cell| cell.trim().parse().ok());
            entries.extend(number.map(|number| ("THREATS", number)));
        }
    }
    assert!(entries.len() > 80, "the catalogues were read: {}", entries.len());
    assert_eq!(
        required, entries,
        "the document requires what the catalogues have"
    );
}

#[test]
fn numbers_are_read_from_names_and_comments() {
    let of = |pairs: &[Number]| pairs.iter().copied().collect::<BTreeSet<Number>>();
    assert_eq!(
        numbers_of_name("ops2_faults_43_threats_79_80_a_3rd"),
        of(&[("FAULTS", 43), ("THREATS", 79), ("THREATS", 80)])
    );
    assert_eq!(
        numbers_of_comment(" SPEC OPS2, THREATS 6..8, 12: text of 5. FAULTS 44 and 46; 7 more"),
        of(&[
            ("THREATS", 6),
            ("THREATS", 7),
            ("THREATS", 8),
            ("THREATS", 12),
            ("FAULTS", 44),
            ("FAULTS", 46),
            ("FAULTS", 7)
        ])
    );
    assert_eq!(
        numbers_of_text("/// one (FAULTS 44,\n    /// 46). THREATS 3 to\n//! 5: so"),
        of(&[
            ("FAULTS", 44),
            ("FAULTS", 46),
            ("THREATS", 3),
            ("THREATS", 4),
            ("THREATS", 5)
        ])
    );
    assert_eq!(named("`a_1`, `b` (`src/x.rs`), `c` (`y.rs`)").len(), 3);
}
