//! A schema's bytes: read or refused, and one form only (THREATS 32, 35).

use ackline::delta::layout::Layout;
use ackline::delta::schema;
use ackline::limits::SCHEMA_BYTES_MAX;

pub fn run(data: &[u8]) {
    let Ok(read) = schema::decode(data) else { return };
    assert!(data.len() <= SCHEMA_BYTES_MAX);
    assert_eq!(read.check(), Ok(()));
    assert_eq!(schema::encode(&read).expect("what decodes encodes"), data);
    let _ = Layout::new(&read);
    for axis in &read.position {
        // ID6: what a schema promises to hold, it holds; the ends are within.
        assert_eq!(axis.quantise("low", axis.min).expect("the lower end"), 0);
        let highest = axis.quantise("high", axis.max).expect("the upper end");
        assert_eq!(highest, axis.highest());
        assert!(axis.bits() <= 32 && u64::from(highest) >> axis.bits() == 0);
        assert!(axis.quantise("nan", f64::NAN).is_err() && axis.quantise("inf", f64::INFINITY).is_err());
        assert!(axis.metres(highest).is_finite());
    }
    for rate in read.velocity.iter().chain(&read.angular) {
        let highest = i32::try_from(rate.highest()).expect("17 bits");
        assert_eq!(rate.quantise("bound", rate.bound).expect("the bound"), highest);
        assert_eq!(rate.quantise("bound", -rate.bound).expect("the bound"), -highest);
        assert!(rate.quantise("nan", f64::NAN).is_err());
    }
    for field in &read.extras {
        for value in [i64::MIN, -1, 0, 1, i64::MAX, i64::from(u32::MAX)] {
            if let Ok(pattern) = field.pattern(value) {
                assert_eq!(field.value(pattern), value);
            }
        }
    }
}
