//! A few seconds of one entity: where it was, what came of it, and where it was drawn. For the eye: `--plot FILE.svg`.

use std::fmt::Write;

use crate::client::playback::evaluate::PoseMode;
use crate::client::playback::measure::Measure;
use crate::client::session::Client;
use crate::state::entity::Entity;
use crate::state::slots::Slot;

/// Server time from the first frame to the choice of an entity, microseconds.
const CHOOSE_AFTER_US: u64 = 1_000_000;
/// Length of a strip, microseconds of server time.
const LENGTH_US: u64 = 3_000_000;
/// Points kept of each kind.
const POINTS_MAX: usize = 4096;

/// A point: server time and place.
type Point = (u64, [f64; 3]);

/// What is noted of one entity.
#[derive(Clone, Debug, Default)]
pub struct Strip {
    began_us: Option<u64>,
    /// While choosing: where each was drawn first, and how far it has come since.
    farthest: Option<(Slot, Entity, f64)>,
    first: std::collections::HashMap<(Slot, Entity), [f64; 3]>,
    entity: Option<(Slot, Entity)>,
    truth: Vec<Point>,
    samples: Vec<Point>,
    drawn: Vec<(u64, [f64; 3], bool)>,
}

impl Strip {
    /// Notes what the client's last datagram said of the entity.
    pub fn receive(&mut self, client: &Client, measure: &Measure) {
        let Some((slot, entity)) = self.entity else { return };
        if self.samples.len() >= POINTS_MAX || client.changes().iter().all(|shown| shown.slot != slot) {
            return;
        }
        let known = client.display().known(slot);
        let known = known.filter(|known| known.record.entity == entity);
        if let Some(motion) = known.and_then(|known| known.record.motion) {
            self.samples
                .push((motion.observed_us, measure.pose(&motion).position));
        }
    }

    /// Notes how an entity is drawn. The one that has come farthest in the first second is followed.
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
        if self.entity.is_none() {
            if truth.is_some() {
                let first = *self.first.entry((slot, entity)).or_insert(at);
                let way = (0..3).map(|axis| (at[axis] - first[axis]).abs()).sum();
                if self.farthest.is_none_or(|(_, _, farthest)| way > farthest) {
                    self.farthest = Some((slot, entity, way));
                }
            }
            if r_us > began_us + CHOOSE_AFTER_US {
                self.entity = self.farthest.map(|(slot, entity, _)| (slot, entity));
                self.first.clear();
            }
            return;
        }
        let over = r_us > began_us + CHOOSE_AFTER_US + LENGTH_US || self.drawn.len() >= POINTS_MAX;
        if self.entity != Some((slot, entity)) || over {
            return;
        }
        let valid = !matches!(mode, PoseMode::Stale | PoseMode::Missing);
        self.drawn.push((r_us, at, valid));
        self.truth.extend(truth.map(|truth| (r_us, truth)));
    }

    /// The strip as a picture; `None` where nothing moved.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn to_svg(&self) -> Option<String> {
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

    /// The one that comes farthest is followed, and what is drawn of it is a picture with all three kinds of points.
    #[test]
    fn the_one_that_moves_most_is_drawn() {
        let mut strip = Strip::default();
        let entity = |id| Entity { id, generation: 0 };
        for frame in 0..200u64 {
            let r_us = frame * 16_667;
            for id in 0..3u32 {
                let at = [f64::from(id) * frame as f64 * 0.01, 0.0, 1.0];
                let mode = if frame == 150 {
                    PoseMode::Stale
                } else {
                    PoseMode::Interpolated
                };
                strip.draw(0, entity(id), r_us, mode, at, Some(at));
            }
        }
        assert_eq!(strip.entity, Some((0, entity(2))));
        strip.samples.push((2_000_000, [2.0, 0.0, 1.0]));
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
