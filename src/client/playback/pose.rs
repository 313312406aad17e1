//! Poses and what lies between two of them: lines, cubics, arcs.

/// Where something is, and how it is turned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pose {
    /// Position in metres.
    pub position: [f64; 3],
    /// Rotation, a unit quaternion x, y, z, w.
    pub rotation: [f64; 4],
}

/// Arcs longer than this, as a turn in radians, are ambiguous: 140 degrees.
const AMBIGUOUS: f64 = 7.0 * core::f64::consts::PI / 9.0;

/// The point at `t` in 0..=1 of the line from `a` to `b`. Both ends are met exactly.
#[must_use]
pub fn line(a: [f64; 3], b: [f64; 3], t: f64) -> [f64; 3] {
    if t >= 1.0 {
        return b;
    }
    zip(a, b, |a, b| a + (b - a) * t)
}

/// The point at `t` in 0..=1 of a cubic Hermite curve from `a` to `b` over `seconds`, with the velocities `from` and `to` at
/// its ends as far as the curve stays between `a` and `b` on each axis.
///
/// The limit is that of Fritsch and Carlson, "Monotone Piecewise Cubic Interpolation" (1980): with d = (b - a) / seconds a
/// slope of another sign than d counts as 0, and one beyond 3 d as 3 d. Within [0, 3 d] the cubic is monotone, so it
/// overshoots nothing; an axis that ends where it began stands still.
#[must_use]
pub fn hermite(a: [f64; 3], from: [f64; 3], b: [f64; 3], to: [f64; 3], seconds: f64, t: f64) -> [f64; 3] {
    if t >= 1.0 {
        return b;
    }
    if t <= 0.0 || seconds <= 0.0 {
        return a;
    }
    let slopes = zip(
        zip(a, b, |a, b| (a, b)),
        zip(from, to, |m, n| (m, n)),
        |ends, speeds| (ends, speeds),
    );
    slopes.map(|((a, b), (from, to))| {
        let whole = b - a;
        // Slopes over the unit interval, as multiples of the whole way.
        let share = |speed: f64| {
            if whole == 0.0 {
                0.0
            } else {
                (speed * seconds / whole).clamp(0.0, 3.0)
            }
        };
        let (m, n) = (share(from), share(to));
        let (t2, t3) = (t * t, t * t * t);
        let way = 3.0 * t2 - 2.0 * t3 + m * (t3 - 2.0 * t2 + t) + n * (t3 - t2);
        a + whole * way.clamp(0.0, 1.0)
    })
}

/// The rotation at `t` in 0..=1 of the arc from `a` to `b`, the shortest one: q and -q are one rotation (SPEC ENT1).
///
/// `turn` is how the body turned on the way by its angular velocity, a rotation vector in radians. It decides where the
/// shortest arc is more than 140 degrees and leads against it: near half a turn an observation alone does not say which way
/// it went (FAULTS 98). Without angular velocity (zero) the shortest arc is taken, so a body that turns by more than half
/// a turn between two observations is shown turning back.
#[must_use]
pub fn arc(a: [f64; 4], b: [f64; 4], turn: [f64; 3], t: f64) -> [f64; 4] {
    if t >= 1.0 || a == b {
        return b;
    }
    let dot: f64 = zip(a, b, |a, b| a * b).iter().sum();
    let (mut b, mut dot) = if dot < 0.0 {
        (b.map(|c| -c), -dot)
    } else {
        (b, dot)
    };
    // The shortest arc turns by 2 acos(dot).
    if dot < (AMBIGUOUS / 2.0).cos() && leads_against(a, b, turn) {
        (b, dot) = (b.map(|c| -c), -dot);
    }
    if dot > 0.9995 {
        return unit(zip(a, b, |a, b| a + (b - a) * t));
    }
    let angle = dot.clamp(-1.0, 1.0).acos();
    let (from, to) = (((1.0 - t) * angle).sin(), (t * angle).sin());
    unit(zip(a, b, |a, b| a * from + b * to))
}

/// True when the shorter arc from `a` to `b` turns against `turn`, and `turn` is a wide one itself.
fn leads_against(a: [f64; 4], b: [f64; 4], turn: [f64; 3]) -> bool {
    let [x, y, z, _] = product(b, conjugate(a));
    let along: f64 = zip([x, y, z], turn, |axis, turn| axis * turn).iter().sum();
    let wide: f64 = turn.iter().map(|c| c * c).sum::<f64>();
    along < 0.0 && wide > (core::f64::consts::PI / 2.0).powi(2)
}

/// `rotation` turned on by the rotation vector `turn`, radians about fixed axes.
#[must_use]
pub fn turned(rotation: [f64; 4], turn: [f64; 3]) -> [f64; 4] {
    let angle = turn.iter().map(|c| c * c).sum::<f64>().sqrt();
    if angle < 1e-12 {
        return rotation;
    }
    let [x, y, z] = turn.map(|c| c / angle * (angle / 2.0).sin());
    unit(product([x, y, z, (angle / 2.0).cos()], rotation))
}

fn product([ax, ay, az, aw]: [f64; 4], [bx, by, bz, bw]: [f64; 4]) -> [f64; 4] {
    [
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    ]
}

fn conjugate([x, y, z, w]: [f64; 4]) -> [f64; 4] {
    [-x, -y, -z, w]
}

fn unit(q: [f64; 4]) -> [f64; 4] {
    let length = q.iter().map(|c| c * c).sum::<f64>().sqrt();
    if length > 1e-9 {
        q.map(|c| c / length)
    } else {
        [0.0, 0.0, 0.0, 1.0]
    }
}

/// Two arrays, pair by pair.
fn zip<A: Copy, B: Copy, C, const N: usize>(a: [A; N], b: [B; N], join: impl Fn(A, B) -> C) -> [C; N] {
    core::array::from_fn(|index| join(a[index], b[index]))
}

#[cfg(test)]
mod tests;
