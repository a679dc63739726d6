// Package runtime hands memory over between the host and Go's collector: what is handed over stays where it is until it was taken.
package runtime

import (
	"runtime"
	"unsafe"
)

// What the host was given since the last call began.
var taken runtime.Pinner

// Allocate returns memory that does not move or go away while `pinner` holds it; nil for none. It fits every alignment up to 8.
func Allocate(pinner *runtime.Pinner, size, align uintptr) unsafe.Pointer {
	if size == 0 {
		return nil
	}
	// Words, for the alignment; without pointers, so that the collector does not look for any.
	memory := unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))
	pinner.Pin(memory)
	return memory
}

// Unpin lets go of what the host was given: Go's own pointers hold it now.
func Unpin() {
	taken.Unpin()
}

// The host takes memory here for what it hands over.
//
//go:wasmexport cabi_realloc
func reallocate(before unsafe.Pointer, size, align, wanted uintptr) unsafe.Pointer {
	after := Allocate(&taken, wanted, align)
	if size > 0 && after != nil {
		copy(unsafe.Slice((*byte)(after), wanted), unsafe.Slice((*byte)(before), min(size, wanted)))
	}
	return after
}
