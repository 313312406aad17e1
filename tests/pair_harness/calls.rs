//! An allocator that counts how often a thread asks for memory.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, its calls counted.
pub struct Calls;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator unchanged; only their number is counted.
unsafe impl GlobalAlloc for Calls {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has no counter any more; nothing is measured there.
        let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
        // SAFETY: the caller's own contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's own contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// How often this thread asked for memory.
pub fn calls() -> u64 {
    CALLS.with(Cell::get)
}
