package export_aetheel_backend_backend

import (
	"encoding/json/jsontext"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// object is a JSON object. If keys are duplicated, the last one counts.
type object map[string]any

// number is the source text of a JSON number, so that tool inputs are shown unchanged.
type number string

// mostDeep is deeper than the output of any agent, but safe for the stack.
const mostDeep = 127

var errTooDeep = errors.New("nested too deep")

// parse reads a line that is a JSON object. Fields that are missing or have another type are zero
// values, never errors.
func parse(line string) (object, bool) {
	decoder := jsontext.NewDecoder(strings.NewReader(line), jsontext.AllowDuplicateNames(true))
	value, err := read(decoder, 0)
	if err != nil {
		return nil, false
	}
	if _, err := decoder.ReadToken(); err != io.EOF {
		return nil, false
	}
	fields, ok := value.(object)
	return fields, ok
}

func read(decoder *jsontext.Decoder, depth int) (any, error) {
	token, err := decoder.ReadToken()
	if err != nil {
		return nil, err
	}
	if depth >= mostDeep && (token.Kind() == '{' || token.Kind() == '[') {
		return nil, errTooDeep
	}
	switch token.Kind() {
	case '{':
		fields := object{}
		for decoder.PeekKind() != '}' {
			name, err := decoder.ReadToken()
			if err != nil {
				return nil, err
			}
			// The token is only valid until the next one is read.
			key := name.String()
			if fields[key], err = read(decoder, depth+1); err != nil {
				return nil, err
			}
		}
		_, err = decoder.ReadToken()
		return fields, err
	case '[':
		elements := []any{}
		for decoder.PeekKind() != ']' {
			element, err := read(decoder, depth+1)
			if err != nil {
				return nil, err
			}
			elements = append(elements, element)
		}
		_, err = decoder.ReadToken()
		return elements, err
	case '"':
		return token.String(), nil
	case '0':
		return number(token.String()), nil
	case 't', 'f':
		return token.Bool(), nil
	default:
		return nil, nil
	}
}

func (o object) text(key string) string {
	text, _ := o[key].(string)
	return text
}

func (o object) has(key string) bool {
	_, ok := o[key].(string)
	return ok
}

func (o object) object(key string) object {
	fields, _ := o[key].(object)
	return fields
}

// count returns a number as a count, rounded and limited to its range.
func (o object) count(key string) (uint32, bool) {
	digits, ok := o[key].(number)
	if !ok {
		return 0, false
	}
	// Values out of range are infinite, and then limited.
	value, _ := strconv.ParseFloat(string(digits), 64)
	return uint32(max(0, min(math.Round(value), math.MaxUint32))), true
}

// write returns a value in canonical form: without whitespace and with sorted keys.
func write(value any) string {
	var out strings.Builder
	writeTo(&out, value)
	return out.String()
}

func writeTo(out *strings.Builder, value any) {
	switch value := value.(type) {
	case object:
		keys := make([]string, 0, len(value))
		for key := range value {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		out.WriteByte('{')
		for at, key := range keys {
			if at > 0 {
				out.WriteByte(',')
			}
			writeTo(out, key)
			out.WriteByte(':')
			writeTo(out, value[key])
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for at, element := range value {
			if at > 0 {
				out.WriteByte(',')
			}
			writeTo(out, element)
		}
		out.WriteByte(']')
	case string:
		quoted, _ := jsontext.AppendQuote(nil, value)
		out.Write(quoted)
	case number:
		out.WriteString(string(value))
	case bool:
		out.WriteString(strconv.FormatBool(value))
	default:
		out.WriteString("null")
	}
}
