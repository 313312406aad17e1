//! Where the player's free camera is: said in every Up datagram, for the relay to look around (SPEC PRE4).
//!
//! It is a wish: what a view reaches is the server side's to say.

use crate::state::schema::{Schema, SchemaError};

/// Why a camera was not taken.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CameraError {
    /// No stream is known yet, so there are no axes to measure on. The camera is kept, and said once there are.
    #[error(
        "the stream's schema is not known yet: the camera is kept and will be said with the first stream"
    )]
    NoSchema,
    /// It is not within the stream's axes. The one before stays.
    #[error("the camera's {0}")]
    Outside(SchemaError),
}

/// The camera: as it was set, and on the axes of the stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Camera {
    metres: Option<[f64; 3]>,
    quantised: Option<[u32; 3]>,
}

impl Camera {
    /// Moves it.
    ///
    /// # Errors
    /// [`CameraError`].
    pub(super) fn set(&mut self, metres: [f64; 3], schema: Option<&Schema>) -> Result<(), CameraError> {
        let Some(schema) = schema else {
            self.metres = Some(metres);
            return Err(CameraError::NoSchema);
        };
        let quantised = quantise(metres, schema).map_err(CameraError::Outside)?;
        (self.metres, self.quantised) = (Some(metres), Some(quantised));
        Ok(())
    }

    /// A new stream has axes of its own. Where the camera is outside of them it is not said until it is set again.
    pub(super) fn adopt(&mut self, schema: &Schema) {
        self.quantised = self.metres.and_then(|metres| quantise(metres, schema).ok());
    }

    /// What is said of it.
    pub(super) fn quantised(&self) -> Option<[u32; 3]> {
        self.quantised
    }
}

fn quantise(metres: [f64; 3], schema: &Schema) -> Result<[u32; 3], SchemaError> {
    let mut quantised = [0; 3];
    let axes = schema.position.iter().zip(["x", "y", "z"]);
    for ((to, metres), (axis, name)) in quantised.iter_mut().zip(metres).zip(axes) {
        *to = axis.quantise(name, metres)?;
    }
    Ok(quantised)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::state::schema::Axis;
    use crate::state::schema::tests::full_schema;

    /// SPEC ID6: nothing is clamped; a camera that came too early waits, and each stream measures it anew.
    #[test]
    fn id6_a_camera_is_measured_by_the_stream() {
        let (wide, mut narrow) = (full_schema(), full_schema());
        narrow.position[0] = Axis::new(0.0, 10.0, 0.5).unwrap();
        let mut camera = Camera::default();
        assert_eq!(camera.set([-5.0, 0.0, 1.0], None), Err(CameraError::NoSchema));
        assert_eq!(camera.quantised(), None);
        camera.adopt(&wide);
        assert_eq!(camera.quantised(), Some([9_500, 10_000, 10_100]));
        for outside in [[200.0, 0.0, 0.0], [0.0, f64::NAN, 0.0]] {
            let refused = camera.set(outside, Some(&wide));
            assert!(matches!(refused, Err(CameraError::Outside(_))), "{refused:?}");
            assert_eq!(camera.quantised(), Some([9_500, 10_000, 10_100]));
        }
        camera.adopt(&narrow);
        assert_eq!(camera.quantised(), None, "outside of this stream's axes");
        assert_eq!(camera.set([5.0, 0.0, 1.0], Some(&narrow)), Ok(()));
        assert_eq!(camera.quantised(), Some([10, 10_000, 10_100]));
    }
}
