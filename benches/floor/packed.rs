//! General compressors over a list of what changed, laid out field by field: zstd with a dictionary trained on the first half
//! of the scene, and zlib.

use zstd::zstd_safe::CParameter;

use super::scene::Cubes;

/// Bytes of the dictionary.
const DICTIONARY: usize = 64 << 10;

/// The changed cubes as planes of varints: gaps, what changed, then each field's differences.
pub fn planes(base: &Cubes, now: &Cubes, out: &mut Vec<u8>) {
    out.clear();
    let changed = || {
        now.iter()
            .zip(base)
            .enumerate()
            .filter(|(_, (now, base))| now != base)
    };
    let mut next = 0;
    put_varint(changed().count() as u32, out);
    for (at, _) in changed() {
        put_varint((at - next) as u32, out);
        next = at + 1;
    }
    for (_, (now, base)) in changed() {
        let position = now[4..7] != base[4..7];
        let rotation = now[1..4] != base[1..4] || now[0] != base[0];
        let largest = now[0] ^ base[0];
        out.push(now[7] as u8 | u8::from(position) << 1 | u8::from(rotation) << 2 | (largest as u8) << 3);
    }
    for field in [4, 5, 6, 1, 2, 3] {
        let (first, last) = if field >= 4 { (4, 7) } else { (0, 4) };
        for (_, (now, base)) in changed().filter(|(_, (now, base))| now[first..last] != base[first..last]) {
            let difference = now[field] - base[field];
            put_varint((difference << 1 ^ difference >> 31).cast_unsigned(), out);
        }
    }
}

fn put_varint(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// zstd at level 3 with a trained dictionary.
pub struct TrainedZstd {
    compressor: zstd::bulk::Compressor<'static>,
}

impl TrainedZstd {
    /// Trained on these samples.
    pub fn new(samples: &[Vec<u8>]) -> TrainedZstd {
        let dictionary = zstd::dict::from_samples(samples, DICTIONARY).unwrap();
        let mut compressor = zstd::bulk::Compressor::with_dictionary(3, &dictionary).unwrap();
        for parameter in [CParameter::ContentSizeFlag(false), CParameter::DictIdFlag(false)] {
            compressor.set_parameter(parameter).unwrap();
        }
        TrainedZstd { compressor }
    }

    /// Bytes without the four of the magic number, which a protocol would leave out.
    pub fn encode(&mut self, planes: &[u8], out: &mut [u8]) -> usize {
        self.compressor.compress_to_buffer(planes, out).unwrap() - 4
    }
}

/// zlib at level 6.
pub fn zlib(planes: &[u8], out: &mut Vec<u8>) -> usize {
    out.clear();
    let mut compress = flate2::Compress::new(flate2::Compression::new(6), true);
    out.reserve(planes.len() + 64);
    compress
        .compress_vec(planes, out, flate2::FlushCompress::Finish)
        .unwrap();
    out.len()
}
