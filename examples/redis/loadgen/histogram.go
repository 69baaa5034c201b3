package loadgen

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram counts durations in buckets 1/32 of their size wide, from many
// goroutines at once. The zero value is empty.
type histogram struct {
	buckets [64 * subBuckets]atomic.Uint64
}

const (
	subBits    = 5
	subBuckets = 1 << subBits
)

func (h *histogram) add(d time.Duration, count int) {
	h.buckets[bucket(uint64(max(d, 0)))].Add(uint64(count))
}

// bucket is n itself while that is small; then the number of bits that n has
// beyond the few leading ones which follow it.
func bucket(n uint64) int {
	shift := max(bits.Len64(n)-subBits-1, 0)
	return shift*subBuckets + int(n>>shift)
}

// ceiling is the greatest number in bucket i.
func ceiling(i int) uint64 {
	shift := max(i/subBuckets-1, 0)
	return uint64(i-shift*subBuckets+1)<<shift - 1
}

// quantile returns a duration that the fraction q of all does not exceed, 0 if
// there are none.
func (h *histogram) quantile(q float64) time.Duration {
	total := uint64(0)
	for i := range h.buckets {
		total += h.buckets[i].Load()
	}
	rank := uint64(math.Ceil(q * float64(total)))
	for i := range h.buckets {
		n := h.buckets[i].Load()
		if n >= rank && n > 0 {
			return time.Duration(ceiling(i))
		}
		rank -= n
	}
	return 0
}
