//! The schemas that a seed could meet: every option, every width.

use super::dice::Dice;
use super::scenario::WorldPlan;
use crate::state::coding::Coding;
use crate::state::schema::{Axis, Class, ExtraField, Rate, Schema};

/// Draws one.
#[must_use]
pub fn schema(dice: &mut Dice, plan: &WorldPlan) -> Schema {
    let axes = [
        Axis {
            min: -100.0,
            max: 100.0,
            step: 0.01,
        },
        Axis {
            min: -2048.0,
            max: 2048.0,
            step: 0.001_953_125,
        },
        Axis {
            min: 0.0,
            max: 4_294_967_295.0,
            step: 1.0,
        },
        Axis {
            min: 0.0,
            max: 31.0,
            step: 1.0,
        },
    ];
    let position = match dice.up_to(3) {
        0 => [axes[2], axes[1], axes[3]],
        1 => [axes[1]; 3],
        _ => [axes[0]; 3],
    };
    let finest = position
        .iter()
        .map(|axis| axis.step)
        .fold(f64::INFINITY, f64::min);
    let rate = |bound: f64, step: f64| Rate {
        bound: bound * step,
        step,
    };
    let velocity_step = finest * [0.5, 2.0, 100.0][dice.index(3)];
    let extras = (0..dice.up_to(8)).map(|field| ExtraField {
        name: format!("field {field}"),
        bits: u8::try_from(dice.between(1, 32)).unwrap_or(1),
        signed: dice.chance(0.5),
    });
    let extras: Vec<ExtraField> = extras.collect();
    let classes = (0..dice.between(1, 6)).map(|class| Class {
        name: format!("class {class}"),
        query_critical: dice.chance(0.5),
    });
    let classes = classes.collect();
    Schema {
        coding: [Coding::Plain, Coding::Standard][dice.index(2)].clone(),
        name: "simulated".to_owned(),
        version: u16::try_from(dice.up_to(9)).unwrap_or(0),
        tick_period_us: u32::try_from(plan.period_us).unwrap_or(50_000),
        on_change: plan.on_change,
        position,
        rotation_bits: u8::try_from(dice.between(2, 15)).unwrap_or(9),
        velocity: dice
            .chance(0.7)
            .then(|| rate([40.0, 2_500.0, 131_071.0][dice.index(3)], velocity_step)),
        angular: dice.chance(0.4).then(|| rate(1_000.0, 0.01)),
        extras,
        classes,
    }
}
