// Package wit_types contains the generic types of the bindings: options, results and pairs.
package wit_types

const (
	OptionNone = 0
	OptionSome = 1
	ResultOk   = 0
	ResultErr  = 1
)

// Option is an optional value.
type Option[T any] struct {
	some  bool
	value T
}

// Some returns an option with a value.
func Some[T any](value T) Option[T] {
	return Option[T]{some: true, value: value}
}

// None returns an option without a value.
func None[T any]() Option[T] {
	var none Option[T]
	return none
}

// IsSome returns whether there is a value.
func (o Option[T]) IsSome() bool { return o.some }

// IsNone returns whether there is no value.
func (o Option[T]) IsNone() bool { return !o.some }

// Tag returns OptionSome or OptionNone.
func (o Option[T]) Tag() uint8 {
	if o.some {
		return OptionSome
	}
	return OptionNone
}

// Some returns the value. It panics if there is none.
func (o Option[T]) Some() T {
	if !o.some {
		panic("Some called on an option without a value")
	}
	return o.value
}

// SomeOr returns the value, or `otherwise` if there is none.
func (o Option[T]) SomeOr(otherwise T) T {
	if o.some {
		return o.value
	}
	return otherwise
}

// Result is either a value or an error.
type Result[T any, E any] struct {
	failed bool
	value  T
	why    E
}

// Ok returns a result with a value.
func Ok[T any, E any](value T) Result[T, E] {
	return Result[T, E]{value: value}
}

// Err returns a result with an error.
func Err[T any, E any](why E) Result[T, E] {
	return Result[T, E]{failed: true, why: why}
}

// IsOk returns whether the result is a value.
func (r Result[T, E]) IsOk() bool { return !r.failed }

// IsErr returns whether the result is an error.
func (r Result[T, E]) IsErr() bool { return r.failed }

// Tag is ResultOk or ResultErr.
func (r Result[T, E]) Tag() uint8 {
	if r.failed {
		return ResultErr
	}
	return ResultOk
}

// Ok returns the value. It panics if the result is an error.
func (r Result[T, E]) Ok() T {
	if r.failed {
		panic("Ok called on a result that is an error")
	}
	return r.value
}

// Err returns the error. It panics if the result is a value.
func (r Result[T, E]) Err() E {
	if !r.failed {
		panic("Err called on a result that is a value")
	}
	return r.why
}

// Unit is the type of an empty value.
type Unit struct{}

// Tuple2 is a pair.
type Tuple2[A any, B any] struct {
	F0 A
	F1 B
}
