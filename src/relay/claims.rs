//! What a client says it refused: its word, and counted only as far as it can be true.

/// What one session's client claims.
#[derive(Clone, Debug)]
pub struct Claims {
    /// The highest total heard, by reason.
    known: [u32; 64],
    /// Counted so far, all reasons together.
    counted: u64,
}

impl Default for Claims {
    fn default() -> Claims {
        Claims {
            known: [0; 64],
            counted: 0,
        }
    }
}

impl Claims {
    /// Takes a report's totals by reason, and adds their rise `into` the relay's; never more in all than the datagrams `sent` to
    /// this client, so that no claim moves a metric beyond what really went out. A client under a flood of others' datagrams is
    /// counted as far as that.
    pub fn take(&mut self, claimed: &[(u8, u32)], sent: u64, into: &mut [u64; 64]) {
        for (code, total) in claimed {
            let code = usize::from(*code);
            let (Some(known), Some(count)) = (self.known.get_mut(code), into.get_mut(code)) else {
                continue;
            };
            let rise = u64::from(total.saturating_sub(*known)).min(sent.saturating_sub(self.counted));
            *known = (*known).max(*total);
            self.counted += rise;
            *count += rise;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_counted_than_was_sent() {
        let (mut claims, mut into) = (Claims::default(), [0; 64]);
        claims.take(&[(3, 2), (63, 1), (64, 9)], 100, &mut into);
        claims.take(&[(3, 2), (63, 4)], 100, &mut into);
        assert_eq!(
            (into[3], into[63]),
            (2, 4),
            "totals rise, and codes beyond are passed over"
        );
        claims.take(&[(3, u32::MAX), (5, 50)], 100, &mut into);
        assert_eq!((into[3], into[5], into.iter().sum::<u64>()), (96, 0, 100));
        claims.take(&[(5, 60)], 107, &mut into);
        assert_eq!(into[5], 7, "and more once more was sent");
    }
}
