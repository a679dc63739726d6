// Package runtime pins memory that is shared with the host, so that Go's garbage collector neither moves nor frees it during a call.
package runtime

import (
	"runtime"
	"unsafe"
)

// Pins memory that the host allocated during the current call.
var taken runtime.Pinner

// Allocate returns memory that is neither moved nor freed while `pinner` pins it, or nil if `size` is 0. It is aligned to 8 bytes.
func Allocate(pinner *runtime.Pinner, size, align uintptr) unsafe.Pointer {
	if size == 0 {
		return nil
	}
	// The element type sets the alignment; it has no pointers, so the collector does not scan the memory.
	memory := unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))
	pinner.Pin(memory)
	return memory
}

// Unpin releases the memory that the host allocated; from now on, Go's own pointers keep it alive.
func Unpin() {
	taken.Unpin()
}

// The host calls this function to allocate memory for its arguments.
//
//go:wasmexport cabi_realloc
func reallocate(before unsafe.Pointer, size, align, wanted uintptr) unsafe.Pointer {
	after := Allocate(&taken, wanted, align)
	if size > 0 && after != nil {
		copy(unsafe.Slice((*byte)(after), wanted), unsafe.Slice((*byte)(before), min(size, wanted)))
	}
	return after
}
