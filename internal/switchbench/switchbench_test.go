//go:build cgo

package switchbench

import "testing"

// BenchmarkSwitch measures one switch, one way.
func BenchmarkSwitch(b *testing.B) {
	subjects := []struct {
		name string
		run  func(int)
	}{
		{"cfiber", CFiber}, {"boost", boost}, {"six", SixRegisters},
		{"three", ThreeRegisters}, {"swapcontext", Swapcontext},
	}
	for _, s := range subjects {
		if s.run != nil {
			b.Run(s.name, func(b *testing.B) { s.run(b.N) })
		}
	}
}

// Each of the switches comes back as often as it leaves.
func TestSwitches(t *testing.T) {
	for _, run := range []func(int){CFiber, boost, SixRegisters, ThreeRegisters, Swapcontext} {
		if run != nil {
			run(10_000)
		}
	}
}
