package bench

// A Verdict is what became of a bar.
type Verdict struct {
	Bar      string  `json:"bar"`
	Met      bool    `json:"met"`
	Is       string  `json:"is"`
	ShouldBe string  `json:"should_be"`
	Value    float64 `json:"value"`
	Limit    float64 `json:"limit"`
}

// Judge holds rows against the bars.
func Judge(rows []Row) []Verdict { return nil }
