//! A few seconds of one entity: where it was, what came of it, and where it was drawn. For the eye: `--plot FILE.svg`.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::client::playback::evaluate::PoseMode;
use crate::client::playback::measure::Measure;
use crate::client::session::Client;
use crate::state::entity::Entity;
use crate::state::slots::Slot;

/// Who is drawn within this time from the first frame may be followed, microseconds of server time.
const CHOOSE_WITHIN_US: u64 = 250_000;
/// Length of a strip, microseconds of server time.
const LENGTH_US: u64 = 4_000_000;
/// Entities followed, of which one is drawn in the end.
const FOLLOWED_MAX: usize = 64;
/// Points kept of each kind, of each.
const POINTS_MAX: usize = 1024;

/// A point: server time and place.
type Point = (u64, [f64; 3]);

/// What is noted of one entity.
#[derive(Clone, Debug, Default)]
struct Followed {
    truth: Vec<Point>,
    samples: Vec<Point>,
    drawn: Vec<(u64, [f64; 3], bool)>,
}

impl Followed {
    /// How long it was drawn, microseconds of server time.
    fn present_us(&self) -> u64 {
        let ends = self.drawn.first().zip(self.drawn.last());
        ends.map_or(0, |((first_us, ..), (last_us, ..))| last_us - first_us)
    }

    /// How far it went, all steps together, metres.
    fn way_m(&self) -> f64 {
        let steps = self.drawn.windows(2);
        let of = |pair: &[(u64, [f64; 3], bool)]| -> f64 {
            (0..3).map(|axis| (pair[1].1[axis] - pair[0].1[axis]).abs()).sum()
        };
        steps.map(of).sum()
    }
}

/// What is noted of those who are there from the beginning; the one that is there longest and moves most is the picture.
#[derive(Clone, Debug, Default)]
pub struct Strip {
    began_us: Option<u64>,
    followed: BTreeMap<(Slot, Entity), Followed>,
}

impl Strip {
    /// Notes what the client's last datagram said of those followed.
    pub fn receive(&mut self, client: &Client, measure: &Measure) {
        for shown in client.changes() {
            let Some(followed) = self.followed.get_mut(&(shown.slot, shown.entity)) else {
                continue;
            };
            let known = client.display().known(shown.slot);
            let known = known.filter(|known| known.record.entity == shown.entity);
            if let Some(motion) = known.and_then(|known| known.record.motion)
                && followed.samples.len() < POINTS_MAX
            {
                let at = measure.pose(&motion).position;
                followed.samples.push((motion.observed_us, at));
            }
        }
    }

    /// True for who is followed: its truth is wanted in every frame.
    #[must_use]
    pub fn follows(&self, slot: Slot, entity: Entity) -> bool {
        self.followed.contains_key(&(slot, entity))
    }

    /// Notes how an entity is drawn.
    pub fn draw(
        &mut self,
        slot: Slot,
        entity: Entity,
        r_us: u64,
        mode: PoseMode,
        at: [f64; 3],
        truth: Option<[f64; 3]>,
    ) {
        let began_us = *self.began_us.get_or_insert(r_us);
        if r_us > began_us + LENGTH_US {
            return;
        }
        let may_begin = truth.is_some() && r_us <= began_us + CHOOSE_WITHIN_US;
        if may_begin && self.followed.len() < FOLLOWED_MAX {
            self.followed.entry((slot, entity)).or_default();
        }
        let followed = self.followed.get_mut(&(slot, entity));
        let Some(followed) = followed.filter(|followed| followed.drawn.len() < POINTS_MAX) else {
            return;
        };
        let valid = !matches!(mode, PoseMode::Stale | PoseMode::Missing);
        followed.drawn.push((r_us, at, valid));
        followed.truth.extend(truth.map(|truth| (r_us, truth)));
    }

    /// Who is there for nine tenths of the longest time anybody is, and goes furthest.
    fn chosen(&self) -> Option<(&(Slot, Entity), &Followed)> {
        let longest_us = self.followed.values().map(Followed::present_us).max()?;
        let lasting = self.followed.iter();
        let lasting = lasting.filter(|(_, followed)| followed.present_us() >= longest_us / 10 * 9);
        lasting.max_by(|(_, a), (_, b)| a.way_m().total_cmp(&b.way_m()))
    }

    /// The picture of the one chosen; `None` where nobody was drawn.
    #[must_use]
    pub fn to_svg(&self) -> Option<String> {
        self.chosen()?.1.to_svg()
    }
}

impl Followed {
    /// It as a picture; `None` where it was not drawn.
    #[allow(clippy::cast_precision_loss)]
    fn to_svg(&self) -> Option<String> {
        let (begin_us, end_us) = (self.drawn.first()?.0, self.drawn.last()?.0);
        let span = |axis: usize| {
            let values = || self.drawn.iter().map(|(_, at, _)| at[axis]);
            let (low, high) = values().fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
            (low, high)
        };
        let axis = (0..3).max_by(|a, b| {
            let wide = |axis: usize| span(axis).1 - span(axis).0;
            wide(*a).total_cmp(&wide(*b))
        })?;
        let (low, high) = span(axis);
        let (low, high) = (
            low - 0.05 * (high - low).max(0.1),
            high + 0.05 * (high - low).max(0.1),
        );
        let x =
            |us: u64| 60.0 + 900.0 * (us.saturating_sub(begin_us) as f64) / (end_us - begin_us).max(1) as f64;
        let y = |at: &[f64; 3]| 340.0 - 300.0 * (at[axis] - low) / (high - low);
        let within = |us: u64| (begin_us..=end_us).contains(&us);
        let mut svg = String::from(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1000 400\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"1000\" height=\"400\" fill=\"white\"/>\n",
        );
        let path = |points: &mut dyn Iterator<Item = (f64, f64)>| {
            points
                .enumerate()
                .fold(String::new(), |mut path, (index, (x, y))| {
                    let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { "M" } else { " L" });
                    path
                })
        };
        let truth = path(&mut self.truth.iter().map(|(us, at)| (x(*us), y(at))));
        let drawn = path(&mut self.drawn.iter().map(|(us, at, _)| (x(*us), y(at))));
        let _ = writeln!(
            svg,
            "<path d=\"{truth}\" fill=\"none\" stroke=\"#bbb\" stroke-width=\"6\"/>"
        );
        let _ = writeln!(
            svg,
            "<path d=\"{drawn}\" fill=\"none\" stroke=\"#0060c0\" stroke-width=\"1.5\"/>"
        );
        for (us, at) in self.samples.iter().filter(|(us, _)| within(*us)) {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"#d07000\"/>",
                x(*us),
                y(at)
            );
        }
        for (us, at, _) in self.drawn.iter().filter(|(_, _, valid)| !valid) {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2\" fill=\"#c00000\"/>",
                x(*us),
                y(at)
            );
        }
        let name = ["x", "y", "z"][axis];
        let _ = writeln!(
            svg,
            "<path d=\"M60 40 V340 H960\" fill=\"none\" stroke=\"black\"/>\n\
             <text x=\"8\" y=\"45\">{high:.2} m</text><text x=\"8\" y=\"340\">{low:.2} m</text>\n\
             <text x=\"60\" y=\"360\">server time, {:.1} s</text><text x=\"8\" y=\"190\">{name}</text>\n\
             <text x=\"60\" y=\"385\"><tspan fill=\"#999\">grey: where it was</tspan> <tspan fill=\"#d07000\">dots: \
             observations that came</tspan> <tspan fill=\"#0060c0\">line: drawn at r</tspan> <tspan fill=\"#c00000\">red: drawn, \
             not valid</tspan></text>\n</svg>",
            (end_us - begin_us) as f64 / 1e6
        );
        Some(svg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who is there for all of the strip and moves most is drawn, with all three kinds of points and the truth to the end; not who
    /// is faster and soon gone, nor who came later.
    #[test]
    fn the_one_that_is_there_longest_and_moves_most_is_drawn() {
        let mut strip = Strip::default();
        let entity = |id| Entity { id, generation: 0 };
        for frame in 0..400u64 {
            let r_us = frame * 16_667;
            for id in 0..5u32 {
                let there = match id {
                    3 => frame < 100,
                    4 => frame > 30,
                    _ => true,
                };
                // The third goes to and fro.
                let way = if id == 2 { frame % 40 } else { frame };
                let speed = if id > 2 { 10.0 } else { f64::from(id) };
                let at = [speed * way as f64 * 0.01, 0.0, 1.0];
                let mode = if frame == 150 {
                    PoseMode::Stale
                } else {
                    PoseMode::Interpolated
                };
                if there {
                    strip.draw(id as Slot, entity(id), r_us, mode, at, Some(at));
                }
            }
        }
        let chosen = (2, entity(2));
        assert_eq!(strip.chosen().map(|(name, _)| *name), Some(chosen));
        assert!(strip.follows(3, entity(3)) && !strip.follows(4, entity(4)));
        let followed = strip.followed.get_mut(&chosen).unwrap();
        assert_eq!(followed.truth.last().unwrap().0, followed.drawn.last().unwrap().0);
        followed.samples.push((2_000_000, [0.2, 0.0, 1.0]));
        let svg = strip.to_svg().unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert_eq!(
            (svg.matches("<path").count(), svg.matches("#d07000\"/>").count()),
            (3, 1)
        );
        assert_eq!(svg.matches("r=\"2\"").count(), 1, "what was not valid is red");
        assert!(Strip::default().to_svg().is_none());
    }
}
