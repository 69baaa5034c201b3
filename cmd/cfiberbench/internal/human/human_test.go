package human

import "testing"

func TestUnit(t *testing.T) {
	for _, test := range []struct {
		value float64
		unit  string
		want  string
	}{
		{9.4321, "ns/op", "9.43 ns/op"}, {12.34, "ns/op", "12.3 ns/op"}, {1355, "ns/op", "1,355 ns/op"},
		{4128767, "ns", "4,129 µs"}, {41287670, "ns", "41.3 ms"}, {3.5e11, "ns", "350 s"},
		{4315, "B/unit", "4,315 B/unit"}, {123456, "B/call", "121 KiB/call"}, {0, "1/s", "0 1/s"},
		{0.00064, "cpus", "0.00064 cpus"}, {74050, "op/cpu-s", "74.0 k op/cpu-s"}, {-2000, "count", "-2,000 count"},
		{1234567, "count", "1,234,567 count"}, {2e7, "ns", "20.0 ms"},
	} {
		if got := Unit(test.value, test.unit); got != test.want {
			t.Errorf("Unit(%v, %s) = %q, want %q", test.value, test.unit, got, test.want)
		}
	}
}

func TestAxis(t *testing.T) {
	for _, test := range []struct {
		value float64
		unit  string
		want  string
	}{
		{10, "ns/op", "10"}, {20_000, "ns/op", "20k"}, {5e6, "op/s", "5M"}, {2e9, "B", "2G"},
		{100, "ns", "100"}, {20_000, "ns", "20 µs"}, {5e6, "ns", "5 ms"}, {1e9, "ns", "1 s"},
	} {
		if got := Axis(test.value, test.unit); got != test.want {
			t.Errorf("Axis(%v, %s) = %q, want %q", test.value, test.unit, got, test.want)
		}
	}
}
