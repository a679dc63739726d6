//! The allocator of a component: a free list for each size.
//!
//! Parsing a line allocates dozens of small blocks, which are all freed before the call ends. The
//! allocator of libc tries to merge neighbours at every free. This one puts a freed block on the
//! list of its size and reuses it for the next allocation of that size. It never merges blocks, so
//! a guest keeps as many blocks of each size as it once needed at a time. Large blocks are left to
//! libc.
//!
//! The first blocks come from static memory. Most guests run for one short turn, in which the first
//! access to a page and requests for more memory from the host are the largest costs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;

/// Alignment of every block, and the unit of its size.
const STEP: usize = 16;
/// Largest size with one list per step. Above it, each doubling has four lists.
const FINE: usize = 128;
/// Largest block. Larger ones are allocated by libc.
const LARGEST: usize = 32 << 10;
const SIZES: usize = FINE / STEP + 4 * (LARGEST / FINE).ilog2() as usize;
/// Size of the static memory, and of each chunk requested from libc after it is used up.
const CHUNK: usize = 256 << 10;

/// The allocator; see the module. Must be used by one thread only.
pub(crate) struct Heap(UnsafeCell<Blocks>);

/// Initialised to zero, so that it takes no space in the file.
struct Blocks {
    /// The first free block of each size, which stores the address of the next one.
    free: [*mut u8; SIZES],
    /// The unused rest of the current chunk; null before the first allocation.
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
        Self(UnsafeCell::new(Blocks {
            free: [null_mut(); SIZES],
            next: null_mut(),
            left: 0,
            first: First([0; CHUNK]),
        }))
    }
}

/// Returns the index of a size and the size of its blocks, or `None` if libc allocates it.
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

impl Blocks {
    #[inline]
    fn take(&mut self, number: usize, size: usize) -> *mut u8 {
        let block = self.free[number];
        if block.is_null() {
            return self.cut(size);
        }
        // SAFETY: a free block is large enough and aligned for a pointer.
        self.free[number] = unsafe { block.cast::<*mut u8>().read() };
        block
    }

    #[inline]
    fn release(&mut self, number: usize, block: *mut u8) {
        // SAFETY: the block was freed, so it is not in use; it is large enough and aligned for a
        // pointer.
        unsafe { block.cast::<*mut u8>().write(self.free[number]) };
        self.free[number] = block;
    }

    #[cold]
    fn cut(&mut self, size: usize) -> *mut u8 {
        if self.next.is_null() {
            (self.next, self.left) = (self.first.0.as_mut_ptr(), CHUNK);
        }
        if self.left < size {
            // SAFETY: size and alignment are not zero.
            let chunk = unsafe { System.alloc(Layout::from_size_align_unchecked(CHUNK, STEP)) };
            if chunk.is_null() {
                return chunk;
            }
            (self.next, self.left) = (chunk, CHUNK);
        }
        let block = self.next;
        // SAFETY: at least `size` bytes are left.
        self.next = unsafe { block.add(size) };
        self.left -= size;
        block
    }
}

// SAFETY: a block is at least as large and as aligned as its layout requires, is not reused until
// it is freed, and never moves.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match size_for(layout) {
            // SAFETY: there is one thread, and this code does not allocate from `self`.
            Some((number, size)) => unsafe { &mut *self.0.get() }.take(number, size),
            // SAFETY: guaranteed by the caller.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match size_for(layout) {
            // SAFETY: as above.
            Some((number, _)) => unsafe { &mut *self.0.get() }.release(number, block),
            // SAFETY: guaranteed by the caller.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        let fresh = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (size_for(layout), size_for(fresh)) {
            (Some((before, _)), Some((after, _))) if before == after => block,
            // SAFETY: guaranteed by the caller.
            (None, None) => unsafe { System.realloc(block, layout, size) },
            _ => {
                // SAFETY: both blocks are at least as large as the copied length, and they do not
                // overlap.
                unsafe {
                    let moved = self.alloc(fresh);
                    if !moved.is_null() {
                        moved.copy_from_nonoverlapping(block, layout.size().min(size));
                        self.dealloc(block, layout);
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
    fn every_block_fits_its_size_and_wastes_at_most_a_fifth() {
        let mut last = (0, 0);
        for size in 1..=LARGEST {
            let (number, block) = size_for(layout(size)).unwrap();
            assert!(number < SIZES && block >= size && block.is_multiple_of(STEP), "{size}");
            assert!(block - size < STEP || block * 4 <= size * 5, "{size} in {block}");
            assert!(
                (number, block) == last || (number == last.0 + 1 && block > last.1) || size == 1,
                "{size}"
            );
            last = (number, block);
        }
        assert_eq!(last, (SIZES - 1, LARGEST));
        assert_eq!(size_for(layout(LARGEST + 1)), None);
        assert_eq!(size_for(Layout::from_size_align(64, 32).unwrap()), None);
    }

    #[test]
    fn blocks_keep_their_content_while_others_are_allocated_and_freed() {
        let (heap, mut held, mut seed) =
            (Box::new(Heap::new()), Vec::<(*mut u8, usize, u8)>::new(), 1_u32);
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize % below
        };
        let whole = |(block, size, mark): &(*mut u8, usize, u8)| {
            // SAFETY: the block is allocated and was filled.
            unsafe { std::slice::from_raw_parts(*block, *size) }.iter().all(|byte| byte == mark)
        };
        for round in 0..20_000 {
            let (mark, size) =
                (round as u8, 1 + random(if round % 50 == 0 { 3 * LARGEST } else { 600 }));
            match random(5) {
                0 | 1 if !held.is_empty() => {
                    let gone = held.swap_remove(random(held.len()));
                    assert!(whole(&gone));
                    // SAFETY: the block was allocated with this layout.
                    unsafe { heap.dealloc(gone.0, layout(gone.1)) };
                }
                2 if !held.is_empty() => {
                    let at = random(held.len());
                    let (block, before, mark) = held[at];
                    // SAFETY: the block was allocated with this layout.
                    let moved = unsafe { heap.realloc(block, layout(before), size) };
                    assert!(whole(&(moved, before.min(size), mark)));
                    // SAFETY: the block has this size.
                    unsafe { moved.write_bytes(mark, size) };
                    held[at] = (moved, size, mark);
                }
                _ => {
                    // SAFETY: the size is not zero.
                    let block = unsafe { heap.alloc(layout(size)) };
                    assert!(block.addr().is_multiple_of(STEP));
                    // SAFETY: the block has this size.
                    unsafe { block.write_bytes(mark, size) };
                    held.push((block, size, mark));
                }
            }
        }
        assert!(held.iter().all(whole));
    }

    #[test]
    fn freed_blocks_are_reused_first() {
        let heap = Box::new(Heap::new());
        // SAFETY: sizes are not zero, and blocks are freed with their layouts.
        unsafe {
            let (first, second) = (heap.alloc(layout(40)), heap.alloc(layout(40)));
            heap.dealloc(first, layout(40));
            assert_eq!(heap.alloc(layout(33)), first);
            assert_eq!(heap.realloc(second, layout(40), 48), second, "the block is large enough");
        }
    }
}
