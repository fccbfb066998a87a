package corpus

import (
	"time"

	"chaperone/internal/refusal"
)

// Verdict is what a run says of one vector.
type Verdict string

const (
	Contained Verdict = "contained" // arrived in its control, unseen in the box
	Leaked    Verdict = "leaked"    // seen outside the box
	Unproven  Verdict = "unproven"  // never arrived in its control: counts as failed
)

// Row is one vector's result.
type Row struct {
	Vector  string  `json:"vector"`
	Group   string  `json:"group"`
	Control Control `json:"control"`
	Arrived string  `json:"arrived"` // how the control saw it; "" where it didn't
	Seen    string  `json:"seen"`    // how it was seen outside the box; "" where it wasn't
	Verdict Verdict `json:"verdict"`
}

// Refusal is one address of another scheme that an agent typed.
type Refusal struct {
	URL  string       `json:"url"`
	Got  refusal.Code `json:"got"`
	Want refusal.Code `json:"want"`
}

// Report is the result of a whole run.
type Report struct {
	Engine   string    `json:"engine"`
	Version  string    `json:"version"`
	Kernel   string    `json:"kernel"`
	UID      int       `json:"uid"`
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`
	Rows     []Row     `json:"rows"`
	Refusals []Refusal `json:"refusals"`
	Strays   []string  `json:"strays"` // seen outside the box, of no vector
}

// Counts are the rows by verdict.
func (r Report) Counts() (contained, leaked, unproven int) {
	for _, row := range r.Rows {
		switch row.Verdict {
		case Contained:
			contained++
		case Leaked:
			leaked++
		case Unproven:
			unproven++
		}
	}
	return contained, leaked, unproven
}

// OK tells whether every vector was contained, every refusal was the right one
// and nothing else was seen outside the box.
func (r Report) OK() bool {
	contained, leaked, unproven := r.Counts()
	for _, x := range r.Refusals {
		if x.Got != x.Want {
			return false
		}
	}
	return contained > 0 && leaked+unproven+len(r.Strays) == 0
}
