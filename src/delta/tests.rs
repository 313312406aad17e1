//! Tests of the whole codec.

mod document;
mod properties;
mod refusals;
mod rules;
mod support;
