package child

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
)

// Parse reads lines of the form METRIC VALUE UNIT.
func Parse(lines []string) ([]bench.Metric, error) {
	var metrics []bench.Metric
	seen := map[string]bool{}
	for _, line := range lines {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("%q is not METRIC VALUE UNIT", line)
		}
		value, err := strconv.ParseFloat(fields[1], 64)
		if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
			return nil, fmt.Errorf("the value in %q is not a number", line)
		}
		if seen[fields[0]] {
			return nil, fmt.Errorf("it printed %s twice", fields[0])
		}
		seen[fields[0]] = true
		metrics = append(metrics, bench.Metric{Name: fields[0], Value: value, Unit: fields[2]})
	}
	return metrics, nil
}

// Run runs a subject to its end and returns what it printed.
func Run(ctx context.Context, argv []string, limit time.Duration) ([]bench.Metric, error) {
	c, err := Start(ctx, argv, limit)
	if err != nil {
		return nil, err
	}
	lines, err := c.Finish()
	if err != nil {
		return nil, err
	}
	metrics, err := Parse(lines)
	if err == nil && len(metrics) == 0 {
		err = errors.New("it printed nothing")
	}
	return metrics, err
}
