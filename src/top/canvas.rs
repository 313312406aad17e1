//! What a picture is drawn on: so many rows and columns, with colours or without.
//!
//! > [`marked`] marks what matters in a text; [`Canvas::lines`] makes lines of a [`Sheet`] that fit.
//!
//! Invariants: with a bound there are never more rows, nor more columns in one, than it says; of what does not fit the
//! sessions go first, then the shards that nothing is marked of, and the status lines last. What is marked is red, or where
//! there are no colours has a `!` before it.

/// Before and after what is marked; no text of a relay holds them, see [`marked`].
const BEGIN: char = '\u{1}';
const END: char = '\u{2}';
const RED: &str = "\x1b[1;31m";
const PLAIN: &str = "\x1b[0m";
/// Where a line that is continued begins, columns.
const INDENT: usize = 11;

/// The text, marked when `is_marked`. Blanks at its beginning, with which columns are filled, are not.
#[must_use]
pub fn marked(text: &str, is_marked: bool) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    if !is_marked {
        return text;
    }
    let (blanks, words) = text.split_at(text.len() - text.trim_start().len());
    format!("{blanks}{BEGIN}{words}{END}")
}

/// Lines of a table, and those above them.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What stands above.
    pub head: Vec<String>,
    /// One line each.
    pub lines: Vec<String>,
}

/// A picture before it is fitted.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// What is always there: wrapped, not cut.
    pub status: Vec<String>,
    /// The shards.
    pub shards: Table,
    /// The sessions, worst first.
    pub sessions: Table,
}

/// Where a picture is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Canvas {
    /// Rows there are; `None` without a bound.
    pub rows: Option<usize>,
    /// Columns there are; `None` without a bound.
    pub columns: Option<usize>,
    /// What is marked is red; else it has a `!` before it.
    pub colours: bool,
}

impl Canvas {
    /// The sheet's lines, as they are to be printed.
    #[must_use]
    pub fn lines(&self, sheet: &Sheet) -> Vec<String> {
        let mut lines: Vec<String> = sheet.status.iter().flat_map(|line| self.wrapped(line)).collect();
        let rows = self.rows.unwrap_or(usize::MAX);
        lines.truncate(rows);
        let left = rows - lines.len();
        lines.extend(fitted(&sheet.shards, left));
        let left = rows - lines.len();
        // The worst alone, without a word of how many are not shown: the head says how many there are.
        let Table {
            head,
            lines: sessions,
        } = &sheet.sessions;
        if left > head.len() || (sessions.is_empty() && left >= head.len()) {
            lines.extend(head.iter().chain(sessions).take(left).cloned());
        }
        lines.iter().map(|line| self.drawn(line)).collect()
    }

    /// A line in pieces of the columns there are, cut at blanks.
    fn wrapped(&self, line: &str) -> Vec<String> {
        let columns = self.columns.unwrap_or(usize::MAX).max(2 * INDENT);
        let (mut pieces, mut piece, mut is_marked) = (Vec::new(), String::new(), false);
        for word in line.split_inclusive(' ') {
            let is_text = |c: char| !c.is_whitespace() && ![BEGIN, END].contains(&c);
            if self.width(&piece) + self.width(word.trim_end()) > columns && piece.contains(is_text) {
                if is_marked {
                    piece.push(END);
                }
                pieces.push(core::mem::take(&mut piece));
                piece = " ".repeat(INDENT);
                if is_marked {
                    piece.push(BEGIN);
                }
            }
            let turned = word.chars().rev().find(|c| [BEGIN, END].contains(c));
            is_marked = turned.map_or(is_marked, |turned| turned == BEGIN);
            piece.push_str(word);
        }
        pieces.push(piece);
        pieces
    }

    /// Columns a line takes.
    fn width(&self, line: &str) -> usize {
        let width = |c: char| match c {
            BEGIN => usize::from(!self.colours),
            END => 0,
            _ => 1,
        };
        line.chars().map(width).sum()
    }

    /// A line as it is printed, cut to the columns there are.
    fn drawn(&self, line: &str) -> String {
        let columns = self.columns.unwrap_or(usize::MAX);
        let (mut out, mut used, mut is_red) = (String::new(), 0, false);
        for c in line.chars() {
            match c {
                BEGIN if self.colours => {
                    out.push_str(RED);
                    is_red = true;
                }
                END if self.colours => {
                    out.push_str(PLAIN);
                    is_red = false;
                }
                END => {}
                // In the filling before it, where there is some, so that columns stay columns.
                BEGIN if out.ends_with("  ") => {
                    out.pop();
                    out.push('!');
                }
                c if used < columns => {
                    out.push(if c == BEGIN { '!' } else { c });
                    used += 1;
                }
                _ => {}
            }
        }
        if is_red {
            out.push_str(PLAIN);
        }
        out
    }
}

/// As much of a table as fits, marked lines before others, with a word of what does not.
fn fitted(table: &Table, rows: usize) -> Vec<String> {
    let Table { head, lines } = table;
    if lines.is_empty() || rows <= head.len() + 1 && rows < head.len() + lines.len() {
        return Vec::new();
    }
    let room = rows.saturating_sub(head.len());
    if lines.len() <= room {
        return head.iter().chain(lines).cloned().collect();
    }
    let mut order: Vec<&String> = lines.iter().collect();
    order.sort_by_key(|line| !line.contains(BEGIN));
    let more = format!("{} more", lines.len() - (room - 1));
    let shown = order.into_iter().take(room - 1).cloned();
    head.iter().cloned().chain(shown).chain([more]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(status: usize, shards: usize, sessions: usize) -> Sheet {
        let lines = |name: &str, count: usize| (0..count).map(|at| format!("{name} {at}")).collect();
        let table = |name: &str, head: &[&str], count| Table {
            head: head.iter().map(|line| (*line).to_owned()).collect(),
            lines: lines(name, count),
        };
        Sheet {
            status: lines("status", status),
            shards: table("shard", &["", "shards"], shards),
            sessions: table("session", &["", "worst", "columns"], sessions),
        }
    }

    /// Whatever there is and however small the terminal: no more rows than that, and the status lines go last.
    #[test]
    fn a_picture_fits_and_the_sessions_go_first() {
        for (status, shards, sessions) in [(11, 2, 10), (11, 64, 1000), (1, 0, 0), (30, 2, 2)] {
            for rows in 0..60 {
                let canvas = Canvas {
                    rows: Some(rows),
                    ..Canvas::default()
                };
                let lines = canvas.lines(&sheet(status, shards, sessions));
                assert!(lines.len() <= rows, "{} of {rows}", lines.len());
                let shown = |word: &str| lines.iter().filter(|line| line.starts_with(word)).count();
                assert_eq!(shown("status"), status.min(rows));
                assert!(shown("session") == 0 || shown("shard ") == shards, "{lines:?}");
                assert_eq!(
                    lines.contains(&"columns".to_owned()),
                    shown("session") > 0 || (sessions == 0 && shown("worst") > 0)
                );
            }
        }
        let all = Canvas::default().lines(&sheet(11, 64, 1000));
        assert_eq!(all.len(), 11 + 66 + 1003, "without a bound nothing is left out");
    }

    #[test]
    fn of_shards_that_do_not_fit_the_marked_stay() {
        let mut sheet = sheet(1, 8, 0);
        sheet.shards.lines[6] = marked("shard 6", true);
        let canvas = Canvas {
            rows: Some(6),
            ..Canvas::default()
        };
        assert_eq!(
            canvas.lines(&sheet),
            ["status 0", "", "shards", "!shard 6", "shard 0", "6 more"]
        );
    }

    /// Lines of status are wrapped and those of tables cut, marks and all: no line is wider, none of red is left open.
    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let status = format!(
            "upstream   {}, {}",
            marked("away since a while", true),
            marked("last tick 9 min ago", true)
        );
        let cell = marked(&format!("{:>8}", "500 ms"), true);
        let sheet = Sheet {
            status: vec![status],
            shards: Table {
                head: Vec::new(),
                lines: vec![format!("0       {cell}  {cell}  12")],
            },
            sessions: Table::default(),
        };
        let plain = Canvas {
            columns: Some(30),
            ..Canvas::default()
        };
        assert_eq!(
            plain.lines(&sheet),
            [
                "upstream  !away since a ",
                "          !while, !last tick ",
                "          !9 min ago",
                "0        !500 ms   !500 ms  12",
            ]
        );
        for columns in 22..60 {
            for colours in [false, true] {
                let canvas = Canvas {
                    columns: Some(columns),
                    colours,
                    rows: None,
                };
                for line in canvas.lines(&sheet) {
                    let bare = line.replace(RED, "").replace(PLAIN, "");
                    assert!(
                        bare.chars().count() <= columns + 1 && bare.trim_end().chars().count() <= columns,
                        "{line:?}"
                    );
                    assert_eq!(line.matches(RED).count(), line.matches(PLAIN).count(), "{line:?}");
                    assert_eq!(line.contains('!'), !colours && bare.contains('!'));
                }
            }
        }
    }

    #[test]
    fn what_a_relay_says_cannot_paint() {
        assert_eq!(marked("a\x1b[31mb\u{1}c\n", false), "a[31mbc");
    }
}
