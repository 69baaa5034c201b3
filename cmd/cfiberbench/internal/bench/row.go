// Package bench has what the parts of cfiberbench speak of: cases to measure, the rows that
// come of them, and the bars that rows are held against.
package bench

import (
	"slices"
	"time"
)

// CFiber is the name of the subject that the others are compared with.
const CFiber = "cfiber"

// A Metric is one number that a subject printed.
type Metric struct {
	Name, Unit string
	Value      float64
}

// A Row is what one metric of one subject came to in all rounds of a case.
type Row struct {
	Workload      string    `json:"workload"`
	Subject       string    `json:"subject"`
	Params        Params    `json:"params"`
	Metric        string    `json:"metric"`
	Unit          string    `json:"unit"`
	Value         float64   `json:"value"` // the median
	RatioToCFiber *float64  `json:"ratio_to_cfiber"`
	Runs          int       `json:"runs"`
	Min           float64   `json:"min"`
	Max           float64   `json:"max"`
	Values        []float64 `json:"values"` // by round
}

// Spread is half the distance from the least to the greatest value, relative to the median.
func (r Row) Spread() float64 {
	if r.Value == 0 {
		return 0
	}
	return (r.Max - r.Min) / 2 / r.Value
}

// Case is the name of the case that the row belongs to.
func (r Row) Case() string { return caseName(r.Workload, r.Params) }

// Find returns what one metric of one subject came to in a case.
func Find(rows []Row, name, metric, subject string) (Row, bool) {
	i := slices.IndexFunc(rows, func(r Row) bool {
		return r.Metric == metric && r.Subject == subject && r.Case() == name
	})
	if i < 0 {
		return Row{}, false
	}
	return rows[i], true
}

// A Problem says why a subject has no rows in a case.
type Problem struct {
	Workload string `json:"workload"` // "": in none
	Params   Params `json:"params"`
	Subject  string `json:"subject"`
	Kind     string `json:"kind"` // one of the constants below
	Reason   string `json:"reason"`
}

// Kinds of Problem.
const (
	Absent      = "absent"      // the subject could not be built here
	Unsupported = "unsupported" // it does not do this workload
	Failed      = "failed"      // it should have
)

// A Result is all that a run of cfiberbench came to.
type Result struct {
	Machine  Machine   `json:"machine"`
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`
	Command  string    `json:"command"`
	Quick    bool      `json:"quick"`
	Rounds   int       `json:"rounds"`
	Rows     []Row     `json:"rows"`
	Problems []Problem `json:"problems"`
	Bars     []Verdict `json:"bars"`
}

// Machine is where a Result is from.
type Machine struct {
	OS          string   `json:"os"`
	Arch        string   `json:"arch"`
	CPU         string   `json:"cpu"`
	CPUs        int      `json:"cpus"`
	MemoryBytes int64    `json:"memory_bytes"`
	Kernel      string   `json:"kernel"`
	Go          string   `json:"go"`
	CC          string   `json:"cc"`
	CXX         string   `json:"cxx"`
	CFiber      string   `json:"cfiber"` // version
	Mitigations []string `json:"mitigations"`
}

// NewRow makes a row of the values of all rounds.
func NewRow(workload, subject string, params Params, metric, unit string, values []float64) Row {
	return Row{
		Workload: workload, Subject: subject, Params: params, Metric: metric, Unit: unit,
		Value: Median(values), Runs: len(values), Values: values,
		Min: slices.Min(values), Max: slices.Max(values),
	}
}

// Median returns the middle value, or the mean of the two in the middle. values is not empty.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// SetRatios fills in each row's ratio to the same metric of cfiber, where there is one.
func SetRatios(rows []Row) {
	type key struct{ name, metric, unit string }
	ours := map[key]float64{}
	for _, r := range rows {
		if r.Subject == CFiber {
			ours[key{r.Case(), r.Metric, r.Unit}] = r.Value
		}
	}
	for i, r := range rows {
		if v, ok := ours[key{r.Case(), r.Metric, r.Unit}]; ok && v != 0 {
			ratio := r.Value / v
			rows[i].RatioToCFiber = &ratio
		}
	}
}
