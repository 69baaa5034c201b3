//go:build cfiber_chaos

package cfiber

import (
	"hash/fnv"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Chaos on the Go side: delays where csrc/chaos.h has them in C, by the same environment.
// The tag cfiber_chaos turns on both.

var chaos = struct {
	seed  uint64
	delay float64
	drawn atomic.Uint64 // goroutines have no generators of their own: they share the sequence
}{seed: 1}

// mix is splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func init() {
	if n, err := strconv.ParseUint(os.Getenv("CFIBER_CHAOS_SEED"), 0, 64); err == nil {
		chaos.seed = n
	}
	chaos.delay = []float64{0, 0.002, 0.02, 0.1}[mix(chaos.seed)>>2&3]
	for knob := range strings.SplitSeq(os.Getenv("CFIBER_CHAOS"), ",") {
		if p, ok := strings.CutPrefix(knob, "delay="); ok {
			chaos.delay, _ = strconv.ParseFloat(p, 64)
		}
	}
}

func chaosDraw() uint64 { return mix(chaos.seed ^ mix(chaos.drawn.Add(1))) }

// chaosDelay lets some time pass, or not. As in C, the seed makes some places quick and some slow.
func chaosDelay(point string) {
	h := fnv.New64a()
	h.Write([]byte(point))
	chance := chaos.delay
	switch r := mix(chaos.seed*1000+h.Sum64()) % 16; {
	case r < 6:
		return
	case r >= 13:
		chance *= 16
	}
	if float64(chaosDraw()) >= chance*math.MaxUint64 {
		return
	}
	switch kind := chaosDraw() % 32; {
	case kind < 18:
		for end := time.Now().Add(time.Duration(chaosDraw() % 2000)); time.Now().Before(end); {
		}
	case kind < 30:
		runtime.Gosched()
	default:
		time.Sleep(time.Duration(chaosDraw() % 100_000))
	}
}
