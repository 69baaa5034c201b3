package loadgen

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestBuckets(t *testing.T) {
	check := func(n uint64) {
		i := bucket(n)
		if top := ceiling(i); top < n || bucket(top) != i || top-n > n/subBuckets {
			t.Errorf("%d is in bucket %d, whose greatest is %d", n, i, top)
		}
		if next := bucket(ceiling(i) + 1); next != i+1 {
			t.Errorf("after bucket %d comes %d", i, next)
		}
	}
	for n := range uint64(1 << 12) {
		check(n)
	}
	for range 10000 {
		check(rand.Uint64() >> (1 + rand.IntN(60)))
	}
}

func TestQuantile(t *testing.T) {
	var h histogram
	if got := h.quantile(0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i)*time.Microsecond, 2)
	}
	for q, want := range map[float64]time.Duration{
		0: time.Microsecond, 0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond, 1: time.Millisecond,
	} {
		if got := h.quantile(q); got < want || got > want+want/subBuckets {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}
