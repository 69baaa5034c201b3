package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// A Param is one key=value argument of a subject.
type Param struct{ Key, Value string }

// Params are arguments of a subject, in the order in which they are shown.
type Params []Param

// P makes Params of keys and values by turns.
func P(keysAndValues ...any) Params {
	var p Params
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		p = append(p, Param{keysAndValues[i].(string), fmt.Sprint(keysAndValues[i+1])})
	}
	return p
}

// ParseParams reads arguments of the form key=value.
func ParseParams(args []string) (Params, error) {
	var p Params
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("parameter %q is not of the form key=value", arg)
		}
		p = append(p, Param{key, value})
	}
	return p, nil
}

// Get returns the value of key, "" if there is none.
func (p Params) Get(key string) string {
	for _, kv := range p {
		if kv.Key == key {
			return kv.Value
		}
	}
	return ""
}

// Int returns the value of key, which must be a whole number, or a default.
func (p Params) Int(key string, missing int) (int, error) {
	value := p.Get(key)
	if value == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		return 0, fmt.Errorf("parameter %s=%s is not a whole number", key, value)
	}
	return n, nil
}

// Seconds returns the value of key, a number of seconds that may be a fraction, or a default.
func (p Params) Seconds(key string, missing time.Duration) (time.Duration, error) {
	value := p.Get(key)
	if value == "" {
		return missing, nil
	}
	s, err := strconv.ParseFloat(value, 64)
	if err != nil || !(s > 0 && s < 1e6) {
		return 0, fmt.Errorf("parameter %s=%s is not a time in seconds", key, value)
	}
	return time.Duration(s * float64(time.Second)), nil
}

// With returns p with other's values in place of p's own, or after them.
func (p Params) With(other Params) Params {
	result := append(Params{}, p...)
next:
	for _, kv := range other {
		for i := range result {
			if result[i].Key == kv.Key {
				result[i].Value = kv.Value
				continue next
			}
		}
		result = append(result, kv)
	}
	return result
}

// Args returns p as arguments of a command.
func (p Params) Args() []string {
	var args []string
	for _, kv := range p {
		args = append(args, kv.Key+"="+kv.Value)
	}
	return args
}

func (p Params) String() string { return strings.Join(p.Args(), " ") }

// MarshalJSON writes p as an object, in its order.
func (p Params) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, kv := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		key, _ := json.Marshal(kv.Key)
		value, _ := json.Marshal(kv.Value)
		fmt.Fprintf(&b, "%s:%s", key, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads an object of strings and keeps its order.
func (p *Params) UnmarshalJSON(text []byte) error {
	var check map[string]string
	if err := json.Unmarshal(text, &check); err != nil {
		return err
	}
	*p = nil
	d := json.NewDecoder(bytes.NewReader(text))
	var key string
	for isKey := true; ; {
		token, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		word, ok := token.(string)
		switch {
		case !ok: // a brace
		case isKey:
			key, isKey = word, false
		default:
			*p, isKey = append(*p, Param{key, word}), true
		}
	}
}
