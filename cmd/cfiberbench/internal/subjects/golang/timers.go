package golang

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects"
)

// timers has sleepers with a deadline in each window from that on in which they start.
func timers(t *subjects.T) error {
	n, window := t.N(), t.Duration()
	var w subjects.Window
	var started sync.WaitGroup
	started.Add(n)
	base := time.Now()
	for range n {
		go func() {
			started.Done()
			for i := time.Since(base) / window; ; i++ {
				deadline := base.Add(i*window + rand.N(window))
				time.Sleep(time.Until(deadline))
				w.Woke(time.Since(deadline))
			}
		}()
	}
	started.Wait()
	return t.Measure(&w, base, window)
}
