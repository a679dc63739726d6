//! The memory of a component: free pieces in a list for each size.
//!
//! A line is taken apart into dozens of small pieces, which are all given back before the call
//! ends. The allocator of libc looks for neighbours to merge with at every one of them; here a
//! piece goes to the list of its size, and the next of that size is it again. Nothing is merged: of
//! each size a guest keeps as many pieces as it once needed at a time. Large ones are libc's
//! affair.
//!
//! The first pieces lie one behind the other in memory that is there from the beginning: most
//! guests live for one short turn, and what costs them most is every page that they touch for the
//! first time, and every call to the host for more.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;

/// Every piece begins at a multiple of this, and has one as its size.
const STEP: usize = 16;
/// Up to here there is a size for every step, above it four for each doubling.
const FINE: usize = 128;
/// Larger pieces are libc's.
const LARGEST: usize = 32 << 10;
const SIZES: usize = FINE / STEP + 4 * (LARGEST / FINE).ilog2() as usize;
/// The size of the memory at the beginning, and of each piece asked of libc once that is used up.
const CHUNK: usize = 256 << 10;

/// See the module. For one thread only.
pub(crate) struct Heap(UnsafeCell<Pieces>);

/// Zero all over, so that it takes no room in the file.
struct Pieces {
    /// The first free piece of each size; in it stands where the next one is.
    free: [*mut u8; SIZES],
    /// The rest of the last chunk; none: there was none yet.
    next: *mut u8,
    left: usize,
    first: First,
}

#[repr(align(16))]
struct First([u8; CHUNK]);

// SAFETY: an instance has one thread.
unsafe impl Sync for Heap {}

impl Heap {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(Pieces {
            free: [null_mut(); SIZES],
            next: null_mut(),
            left: 0,
            first: First([0; CHUNK]),
        }))
    }
}

/// The number of a size and the bytes of its pieces; none: it is libc's.
fn size_for(layout: Layout) -> Option<(usize, usize)> {
    if layout.align() > STEP || layout.size() > LARGEST {
        return None;
    }
    if layout.size() <= FINE {
        let steps = layout.size().div_ceil(STEP).max(1);
        return Some((steps - 1, steps * STEP));
    }
    let below = layout.size() - 1;
    let doubling = below.ilog2();
    let quarter = (below >> (doubling - 2)) & 3;
    let doublings = (doubling - FINE.ilog2()) as usize;
    Some((FINE / STEP + 4 * doublings + quarter, (5 + quarter) << (doubling - 2)))
}

impl Pieces {
    #[inline]
    fn take(&mut self, number: usize, size: usize) -> *mut u8 {
        let piece = self.free[number];
        if piece.is_null() {
            return self.cut(size);
        }
        // SAFETY: a free piece of ours is large enough and aligned for it.
        self.free[number] = unsafe { piece.cast::<*mut u8>().read() };
        piece
    }

    #[inline]
    fn give_back(&mut self, number: usize, piece: *mut u8) {
        // SAFETY: nobody else has the piece any more; it is large enough and aligned for it.
        unsafe { piece.cast::<*mut u8>().write(self.free[number]) };
        self.free[number] = piece;
    }

    #[cold]
    fn cut(&mut self, size: usize) -> *mut u8 {
        if self.next.is_null() {
            (self.next, self.left) = (self.first.0.as_mut_ptr(), CHUNK);
        }
        if self.left < size {
            // SAFETY: neither size nor alignment is zero.
            let chunk = unsafe { System.alloc(Layout::from_size_align_unchecked(CHUNK, STEP)) };
            if chunk.is_null() {
                return chunk;
            }
            (self.next, self.left) = (chunk, CHUNK);
        }
        let piece = self.next;
        // SAFETY: there is so much left.
        self.next = unsafe { piece.add(size) };
        self.left -= size;
        piece
    }
}

// SAFETY: a piece is as large and as aligned as its layout wants, nobody else's until it is given
// back, and never moves.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match size_for(layout) {
            // SAFETY: one thread, and nothing in there allocates from us.
            Some((number, size)) => unsafe { &mut *self.0.get() }.take(number, size),
            // SAFETY: as of the caller.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        match size_for(layout) {
            // SAFETY: as above.
            Some((number, _)) => unsafe { &mut *self.0.get() }.give_back(number, piece),
            // SAFETY: as of the caller.
            None => unsafe { System.dealloc(piece, layout) },
        }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as of the caller.
        let fresh = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (size_for(layout), size_for(fresh)) {
            (Some((before, _)), Some((after, _))) if before == after => piece,
            // SAFETY: as of the caller.
            (None, None) => unsafe { System.realloc(piece, layout, size) },
            _ => {
                // SAFETY: both are at least as large as what is copied, and not the same.
                unsafe {
                    let moved = self.alloc(fresh);
                    if !moved.is_null() {
                        moved.copy_from_nonoverlapping(piece, layout.size().min(size));
                        self.dealloc(piece, layout);
                    }
                    moved
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    #[test]
    fn every_size_fits_its_pieces_and_wastes_at_most_a_fifth() {
        let mut last = (0, 0);
        for size in 1..=LARGEST {
            let (number, piece) = size_for(layout(size)).unwrap();
            assert!(number < SIZES && piece >= size && piece.is_multiple_of(STEP), "{size}");
            assert!(piece - size < STEP || piece * 4 <= size * 5, "{size} in {piece}");
            assert!(
                (number, piece) == last || (number == last.0 + 1 && piece > last.1) || size == 1,
                "{size}"
            );
            last = (number, piece);
        }
        assert_eq!(last, (SIZES - 1, LARGEST));
        assert_eq!(size_for(layout(LARGEST + 1)), None);
        assert_eq!(size_for(Layout::from_size_align(64, 32).unwrap()), None);
    }

    #[test]
    fn pieces_keep_what_is_in_them_whatever_is_taken_and_given_back_around_them() {
        let (heap, mut held, mut seed) =
            (Box::new(Heap::new()), Vec::<(*mut u8, usize, u8)>::new(), 1_u32);
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize % below
        };
        let whole = |(piece, size, mark): &(*mut u8, usize, u8)| {
            // SAFETY: it is held, and was filled.
            unsafe { std::slice::from_raw_parts(*piece, *size) }.iter().all(|byte| byte == mark)
        };
        for round in 0..20_000 {
            let (mark, size) =
                (round as u8, 1 + random(if round % 50 == 0 { 3 * LARGEST } else { 600 }));
            match random(5) {
                0 | 1 if !held.is_empty() => {
                    let gone = held.swap_remove(random(held.len()));
                    assert!(whole(&gone));
                    // SAFETY: it was taken with this layout.
                    unsafe { heap.dealloc(gone.0, layout(gone.1)) };
                }
                2 if !held.is_empty() => {
                    let at = random(held.len());
                    let (piece, before, mark) = held[at];
                    // SAFETY: it was taken with this layout.
                    let moved = unsafe { heap.realloc(piece, layout(before), size) };
                    assert!(whole(&(moved, before.min(size), mark)));
                    // SAFETY: it is so large.
                    unsafe { moved.write_bytes(mark, size) };
                    held[at] = (moved, size, mark);
                }
                _ => {
                    // SAFETY: the size is not zero.
                    let piece = unsafe { heap.alloc(layout(size)) };
                    assert!(piece.addr().is_multiple_of(STEP));
                    // SAFETY: it is so large.
                    unsafe { piece.write_bytes(mark, size) };
                    held.push((piece, size, mark));
                }
            }
        }
        assert!(held.iter().all(whole));
    }

    #[test]
    fn what_was_given_back_is_taken_again_before_anything_new() {
        let heap = Box::new(Heap::new());
        // SAFETY: sizes are not zero, and pieces are given back with their layouts.
        unsafe {
            let (first, second) = (heap.alloc(layout(40)), heap.alloc(layout(40)));
            heap.dealloc(first, layout(40));
            assert_eq!(heap.alloc(layout(33)), first);
            assert_eq!(heap.realloc(second, layout(40), 48), second, "it was as large before");
        }
    }
}
