//! Damage to a schema in a welcome to a new stream.

use ackline::delta;
use ackline::state::schema::Schema;
use ackline::wire::bytes::ByteWriter;

use crate::damage::{Scene, Shot};
use crate::dice::Dice;
use crate::payload::Payload;

/// Where the fields of a schema's bytes are.
pub struct Places {
    name: usize,
    axes: usize,
    rotation: usize,
    rates: usize,
    extras: usize,
    classes: usize,
}

impl Places {
    fn of(schema: &Schema) -> Places {
        let name = 1 + schema.name.len();
        let axes = name + 7;
        let rotation = axes + 72;
        let rates = rotation + 1;
        let extras =
            rates + 16 * (usize::from(schema.velocity.is_some()) + usize::from(schema.angular.is_some()));
        let classes = extras
            + 1
            + schema
                .extras
                .iter()
                .map(|field| field.name.len() + 3)
                .sum::<usize>();
        Places {
            name,
            axes,
            rotation,
            rates,
            extras,
            classes,
        }
    }
}

/// A kind of damage: its name and what it does; false when this schema has no such place.
pub type Wound = (&'static str, fn(&mut Vec<u8>, &Places, &Schema) -> bool);

fn number(bytes: &mut [u8], at: usize, value: f64) -> bool {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    true
}

fn byte(bytes: &mut [u8], at: usize, value: u8) -> bool {
    bytes[at] = value;
    true
}

fn period(bytes: &mut [u8], places: &Places, value: u32) -> bool {
    bytes[places.name + 2..places.name + 6].copy_from_slice(&value.to_le_bytes());
    true
}

fn flag(bytes: &mut [u8], places: &Places, flag: u8) -> bool {
    bytes[places.name + 6] |= flag;
    true
}

pub const WOUNDS: [Wound; 36] = [
    ("schema empty", |bytes, _, _| {
        bytes.clear();
        true
    }),
    ("schema cut", |bytes, _, _| {
        bytes.pop();
        true
    }),
    ("schema left over", |bytes, _, _| {
        bytes.push(0);
        true
    }),
    ("schema name empty", |bytes, places, _| {
        bytes.splice(0..places.name, [0]);
        true
    }),
    ("schema name of 33", |bytes, places, _| {
        bytes.splice(0..places.name, [33].into_iter().chain([b'x'; 33]));
        true
    }),
    ("schema name no text", |bytes, _, _| byte(bytes, 1, 0xFF)),
    ("schema name a lone surrogate", |bytes, places, _| {
        bytes.splice(0..places.name, [3, 0xED, 0xA0, 0x80]);
        true
    }),
    ("tick period 999", |bytes, places, _| period(bytes, places, 999)),
    ("tick period 10000001", |bytes, places, _| {
        period(bytes, places, 10_000_001)
    }),
    ("schema flag 16", |bytes, places, _| flag(bytes, places, 16)),
    ("schema flag 128", |bytes, places, _| flag(bytes, places, 128)),
    ("axis without extent", |bytes, places, _| {
        bytes.copy_within(places.axes..places.axes + 8, places.axes + 8);
        true
    }),
    ("axis upside down", |bytes, places, _| {
        number(bytes, places.axes + 8, -1e9)
    }),
    ("step 0", |bytes, places, _| number(bytes, places.axes + 16, 0.0)),
    ("step negative", |bytes, places, _| {
        number(bytes, places.axes + 40, -0.01)
    }),
    ("step not a number", |bytes, places, _| {
        number(bytes, places.axes + 16, f64::NAN)
    }),
    ("bound infinite", |bytes, places, _| {
        number(bytes, places.axes + 8, f64::INFINITY)
    }),
    ("bound minus infinite", |bytes, places, _| {
        number(bytes, places.axes, f64::NEG_INFINITY)
    }),
    ("bound subnormal", |bytes, places, _| {
        number(bytes, places.axes, 5e-310)
    }),
    ("bound minus zero", |bytes, places, _| {
        number(bytes, places.axes + 48, -0.0)
    }),
    ("too many steps", |bytes, places, _| {
        number(bytes, places.axes + 16, 1e-9)
    }),
    ("step too wide", |bytes, places, _| {
        number(bytes, places.axes + 16, 1e12)
    }),
    ("rotation of 1 bit", |bytes, places, _| {
        byte(bytes, places.rotation, 1)
    }),
    ("rotation of 16 bits", |bytes, places, _| {
        byte(bytes, places.rotation, 16)
    }),
    ("rate bound 0", |bytes, places, schema| {
        places.extras > places.rates && number(bytes, places.rates, 0.0) && schema.check().is_ok()
    }),
    ("rate of too many steps", |bytes, places, _| {
        places.extras > places.rates && number(bytes, places.rates, 1e9)
    }),
    ("rate step negative", |bytes, places, _| {
        places.extras > places.rates && number(bytes, places.rates + 8, -0.5)
    }),
    ("velocity too coarse", |bytes, places, schema| {
        schema.velocity.is_some()
            && number(bytes, places.rates, 1e9)
            && number(bytes, places.rates + 8, schema.position[0].step * 245.0)
            && number(bytes, places.rates, schema.position[0].step * 24500.0)
    }),
    ("nine extra fields", |bytes, places, schema| {
        let field = [1, b'x', 4, 0];
        let missing = 9 - schema.extras.len();
        bytes[places.extras] = 9;
        bytes.splice(places.classes..places.classes, field.repeat(missing));
        true
    }),
    ("extra field without a name", |bytes, places, schema| {
        let Some(first) = schema.extras.first() else {
            return false;
        };
        let at = places.extras + 1;
        bytes.splice(at..at + 1 + first.name.len(), [0]);
        true
    }),
    ("extra field of 0 bits", |bytes, places, schema| {
        let Some(first) = schema.extras.first() else {
            return false;
        };
        byte(bytes, places.extras + 2 + first.name.len(), 0)
    }),
    ("extra field of 33 bits", |bytes, places, schema| {
        let Some(first) = schema.extras.first() else {
            return false;
        };
        byte(bytes, places.extras + 2 + first.name.len(), 33)
    }),
    ("extra field sign 2", |bytes, places, schema| {
        let Some(first) = schema.extras.first() else {
            return false;
        };
        byte(bytes, places.extras + 3 + first.name.len(), 2)
    }),
    ("no classes", |bytes, places, _| {
        bytes.truncate(places.classes);
        bytes.push(0);
        true
    }),
    ("class mark 2", |bytes, _, _| {
        let last = bytes.len() - 1;
        byte(bytes, last, 2)
    }),
    ("class name of 33", |bytes, places, _| {
        bytes.truncate(places.classes);
        bytes.extend([1, 33].into_iter().chain([b'x'; 33]).chain([0]));
        true
    }),
];

/// A welcome to the next stream with a damaged schema, on a payload that is otherwise good.
pub fn damaged(wound: usize, scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let schema = delta::schema::decode(scene.schema_bytes).ok()?;
    let (name, wound) = WOUNDS[wound];
    let mut bytes = scene.schema_bytes.to_vec();
    if !wound(&mut bytes, &Places::of(&schema), &schema) || bytes.len() > 1000 {
        return None;
    }
    let mut block = Vec::new();
    block.put_varint(scene.client.stream_epoch() + 1 + dice.under(3));
    block.put_u32(4_000_000);
    block.put_u32(30_000_000);
    block.put_u16(u16::try_from(bytes.len()).unwrap());
    block.put(&bytes);
    let mut payload = Payload {
        welcome: Some(block),
        ..payload.clone()
    };
    if dice.chance(600) {
        (payload.snapshot, payload.messages) = (None, None);
    }
    Some(Shot {
        name,
        payload: payload.write(),
        expected: Some("malformed_schema"),
        hazard: false,
    })
}
