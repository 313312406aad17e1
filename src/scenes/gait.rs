//! How somebody on foot comes to go as it wants.

use super::input::Input;

/// Speed and nimbleness of somebody on foot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gait {
    /// Full speed, metres a second.
    pub speed_m_s: f64,
    /// How fast the velocity changes, metres a second squared.
    pub nimble_m_s2: f64,
}

impl Gait {
    /// The velocity after `seconds` of wanting what `input` says. Never faster than the gait, if it was not before.
    #[must_use]
    pub fn velocity(&self, [x, y]: [f64; 2], input: &Input, seconds: f64) -> [f64; 2] {
        let [wanted_x, wanted_y] = input.wanted(self.speed_m_s);
        let (off_x, off_y) = (wanted_x - x, wanted_y - y);
        let off = (off_x * off_x + off_y * off_y).sqrt();
        let most = self.nimble_m_s2 * seconds;
        if off <= most {
            return [wanted_x, wanted_y];
        }
        [x + off_x * (most / off), y + off_y * (most / off)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reaches_full_speed_and_comes_to_a_stand() {
        let gait = Gait {
            speed_m_s: 6.0,
            nimble_m_s2: 40.0,
        };
        let run = Input {
            motion: [127, 0],
            ..Input::default()
        };
        let mut velocity = [0.0; 2];
        for _ in 0..4 {
            velocity = gait.velocity(velocity, &run, 0.05);
        }
        assert_eq!(velocity, [6.0, 0.0]);
        for _ in 0..4 {
            velocity = gait.velocity(velocity, &Input::default(), 0.05);
        }
        assert_eq!(velocity, [0.0; 2], "exactly: it is at rest");
    }
}
