// Package human writes numbers as people read them.
package human

import (
	"math"
	"strconv"
	"strings"
)

// A scale has the names of a unit's multiples, smallest first.
type scale struct {
	step  float64
	names []string
}

var scales = map[string]scale{
	"ns": {1000, []string{"ns", "µs", "ms", "s"}},
	"B":  {1024, []string{"B", "KiB", "MiB", "GiB"}},
	"op": {1000, []string{"op", "k op", "M op", "G op"}},
}

// Unit writes a value with its unit, or a multiple of it, as people read them: 4.13 ms.
func Unit(value float64, unit string) string {
	base, per, _ := strings.Cut(unit, "/")
	if per != "" {
		per = "/" + per
	}
	s, ok := scales[base]
	if !ok {
		return Number(value) + " " + unit
	}
	i := 0
	// Numbers of up to four digits stay: 1,355 ns is easier to compare with 35 ns than 1.36 µs.
	for ; math.Abs(value) >= 10*s.step && i < len(s.names)-1; i++ {
		value /= s.step
	}
	return Number(value) + " " + s.names[i] + per
}

// Short writes a number for an axis: 10k, 2M.
func Short(v float64) string {
	for _, s := range []struct {
		factor float64
		suffix string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= s.factor {
			return strconv.FormatFloat(v/s.factor, 'g', 4, 64) + s.suffix
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// Axis writes a value on an axis whose unit is written beside it; times have their own.
func Axis(v float64, unit string) string {
	if unit != "ns" || v < 1000 {
		return Short(v)
	}
	for _, s := range []struct {
		factor float64
		suffix string
	}{{1e9, " s"}, {1e6, " ms"}, {1e3, " µs"}} {
		if v >= s.factor {
			return strconv.FormatFloat(v/s.factor, 'g', 4, 64) + s.suffix
		}
	}
	return Short(v)
}

// Number writes a value with three or four significant digits, as people read them.
func Number(v float64) string {
	a := math.Abs(v)
	switch {
	case a == 0 || a >= 1e15:
		return strconv.FormatFloat(v, 'g', 4, 64)
	case a >= 100:
		return group(strconv.FormatFloat(v, 'f', 0, 64))
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
}

// group puts a comma between each three digits.
func group(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
