// Package wit_types has the types that the bindings of the contract are made of: values that may be missing, results, pairs.
package wit_types

const (
	OptionNone = 0
	OptionSome = 1
	ResultOk   = 0
	ResultErr  = 1
)

// Option is a value that may be missing.
type Option[T any] struct {
	some  bool
	value T
}

// Some is a value that is there.
func Some[T any](value T) Option[T] {
	return Option[T]{some: true, value: value}
}

// None is none.
func None[T any]() Option[T] {
	var none Option[T]
	return none
}

// IsSome says whether it is there.
func (o Option[T]) IsSome() bool { return o.some }

// IsNone says whether it is missing.
func (o Option[T]) IsNone() bool { return !o.some }

// Tag is OptionSome or OptionNone.
func (o Option[T]) Tag() uint8 {
	if o.some {
		return OptionSome
	}
	return OptionNone
}

// Some returns the value, which must be there.
func (o Option[T]) Some() T {
	if !o.some {
		panic("the value of an option that has none")
	}
	return o.value
}

// SomeOr returns the value, or another one where it is missing.
func (o Option[T]) SomeOr(otherwise T) T {
	if o.some {
		return o.value
	}
	return otherwise
}

// Result is what came of something, or why nothing did.
type Result[T any, E any] struct {
	failed bool
	value  T
	why    E
}

// Ok is what came.
func Ok[T any, E any](value T) Result[T, E] {
	return Result[T, E]{value: value}
}

// Err says why nothing did.
func Err[T any, E any](why E) Result[T, E] {
	return Result[T, E]{failed: true, why: why}
}

// IsOk says whether it went well.
func (r Result[T, E]) IsOk() bool { return !r.failed }

// IsErr says whether it did not.
func (r Result[T, E]) IsErr() bool { return r.failed }

// Tag is ResultOk or ResultErr.
func (r Result[T, E]) Tag() uint8 {
	if r.failed {
		return ResultErr
	}
	return ResultOk
}

// Ok returns what came, which must be the case.
func (r Result[T, E]) Ok() T {
	if r.failed {
		panic("the value of a result that is an error")
	}
	return r.value
}

// Err returns why nothing came, which must be the case.
func (r Result[T, E]) Err() E {
	if !r.failed {
		panic("the error of a result that is none")
	}
	return r.why
}

// Unit stands where nothing is said.
type Unit struct{}

// Tuple2 is a pair.
type Tuple2[A any, B any] struct {
	F0 A
	F1 B
}
