//! Tests of the whole codec.
