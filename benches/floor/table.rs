//! The acceptance table: rows of figures with what they are to reach, as text and as JSON.

use serde_json::{Value, json};

/// What a figure is to reach.
#[derive(Clone, Copy)]
pub enum Bound {
    /// At least so much: the goal, and what would be better still.
    AtLeast(f64, f64),
    /// At most so much.
    AtMost(f64, f64),
    /// Nothing: it stands there to explain.
    Free,
}

/// One row.
pub struct Row {
    pub name: String,
    /// The figure of each round.
    pub rounds: Vec<f64>,
    pub bound: Bound,
}

impl Row {
    /// The median over rounds.
    pub fn figure(&self) -> f64 {
        median(&self.rounds)
    }

    fn holds(&self) -> Option<bool> {
        match self.bound {
            Bound::AtLeast(goal, _) => Some(self.figure() >= goal),
            Bound::AtMost(goal, _) => Some(self.figure() <= goal),
            Bound::Free => None,
        }
    }

    fn text(&self) -> String {
        let figure = figure(self.figure());
        let Row { name, rounds, .. } = self;
        let least = rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rounds.iter().copied().fold(0.0, f64::max);
        let spread = format!("{}..{}", self::figure(least), self::figure(most));
        let (goal, stretch) = match self.bound {
            Bound::AtLeast(goal, stretch) => (format!(">= {goal}"), format!(">= {stretch}")),
            Bound::AtMost(goal, stretch) => (format!("<= {goal}"), format!("<= {stretch}")),
            Bound::Free => Default::default(),
        };
        let holds = self.holds().map_or("", |holds| if holds { "yes" } else { "NO" });
        format!("{name:<66} {figure:>8} {spread:>16} {goal:>9} {stretch:>9} {holds:>4}")
    }

    fn json(&self) -> Value {
        let (goal, stretch, direction) = match self.bound {
            Bound::AtLeast(goal, stretch) => (Some(goal), Some(stretch), Some("at_least")),
            Bound::AtMost(goal, stretch) => (Some(goal), Some(stretch), Some("at_most")),
            Bound::Free => (None, None, None),
        };
        json!({
            "name": self.name,
            "figure": self.figure(),
            "rounds": self.rounds,
            "goal": goal,
            "stretch": stretch,
            "direction": direction,
            "holds": self.holds(),
        })
    }
}

/// The middle one; the mean of both in the middle.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}

fn figure(value: f64) -> String {
    match value {
        _ if value >= 1000.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// Where and how it was taken.
pub struct Surroundings {
    pub scene: String,
    pub rounds: usize,
    pub quick: bool,
    load_before: String,
}

impl Surroundings {
    pub fn new(scene: String, rounds: usize, quick: bool) -> Surroundings {
        Surroundings {
            scene,
            rounds,
            quick,
            load_before: load(),
        }
    }

    /// Text and JSON of the whole table.
    pub fn report(&self, rows: &[Row]) -> (String, Value) {
        let Surroundings {
            scene,
            rounds,
            quick,
            load_before,
        } = self;
        let (cpu, load_after) = (cpu(), load());
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let mut text = format!(
            "{scene}; medians of {rounds} rounds' ratios, thread CPU time, sinks that drop{}\n{cores} x {cpu}; load {load_before} before, {load_after} after\n\n",
            if *quick {
                "; QUICK: a trial of the command, figures of no use"
            } else {
                ""
            },
        );
        text += &format!(
            "{:<66} {:>8} {:>16} {:>9} {:>9} {:>4}\n",
            "", "figure", "least..most", "goal", "stretch", "holds"
        );
        for row in rows {
            text += &row.text();
            text.push('\n');
        }
        let json = json!({
            "scene": scene, "rounds": rounds, "quick": quick, "cpu": cpu, "cores": cores,
            "load_average_before": load_before, "load_average_after": load_after,
            "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
        });
        (text, json)
    }
}

/// Load averages of the system.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// The processor's name.
fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split(':').nth(1));
    name.unwrap_or("unknown processor").trim().to_owned()
}
