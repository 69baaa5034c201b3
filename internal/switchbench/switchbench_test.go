//go:build cgo

package switchbench

import "testing"

// BenchmarkSwitch measures one switch, one way.
func BenchmarkSwitch(b *testing.B) {
	subjects := []struct {
		name string
		run  func(int)
	}{
		{"cfiber", cfiberSwitch}, {"boost", boost}, {"six", sixRegisters},
		{"three", threeRegisters}, {"swapcontext", swapcontext},
	}
	for _, s := range subjects {
		if s.run != nil {
			b.Run(s.name, func(b *testing.B) { s.run(b.N) })
		}
	}
}

// Each of the switches comes back as often as it leaves.
func TestSwitches(t *testing.T) {
	for _, run := range []func(int){cfiberSwitch, boost, sixRegisters, threeRegisters, swapcontext} {
		if run != nil {
			run(10_000)
		}
	}
}
