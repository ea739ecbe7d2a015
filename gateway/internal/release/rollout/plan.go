package rollout

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
)

// Plan says in which waves nodes are let in.
type Plan struct {
	Canary      string   `json:"canary,omitempty"`  // a count, or a percentage of the nodes: the first wave; "": none
	Steps       []string `json:"steps,omitempty"`   // percentages of all nodes, rising; the last one is always 100%
	SoakSeconds int      `json:"soak_seconds"`      // how long a wave's nodes must have been well before the next wave
	MaxFailed   string   `json:"max_failed"`        // so many nodes of a wave may fail, as a count or a percentage; of a canary none may
	GoBack      bool     `json:"go_back,omitempty"` // where too many fail, the channel goes back by itself
	Leaves      string   `json:"leaves,omitempty"`  // digest of the release that a way back leaves; "": it is no way back
}

// DefaultPlan returns the plan of a promotion that names none: one canary, then the others.
func DefaultPlan() Plan {
	return Plan{Canary: "1", Steps: []string{"100%"}, SoakSeconds: 600, MaxFailed: "10%"}
}

// AllAtOnce returns the plan of a promotion without waves. It still stops where more than a tenth fail.
func AllAtOnce() Plan { return Plan{Steps: []string{"100%"}, MaxFailed: "10%"} }

// WayBack returns the plan of a rollback: nothing holds it up.
func WayBack() Plan { return Plan{Steps: []string{"100%"}, MaxFailed: "100%"} }

// Together reports whether a plan lets all nodes in at once.
func (p Plan) Together() bool {
	w, err := p.Read()
	return err == nil && !w.canary && w.Count() == 1
}

// Same reports whether two plans let nodes in and back alike, however they are written. What a way back leaves does not count.
func (p Plan) Same(other Plan) bool {
	a, err := p.Read()
	b, failed := other.Read()
	return err == nil && failed == nil && p.GoBack == other.GoBack && reflect.DeepEqual(a, b)
}

// Bounds of a plan.
const (
	mostSteps = 20
	mostSoak  = 14 * 24 * time.Hour
	mostCount = 1_000_000
)

// amount is a count of nodes, or a percentage of them.
type amount struct {
	number  int
	percent bool
}

func parseAmount(text string) (amount, error) {
	digits, percent := strings.CutSuffix(text, "%")
	number, err := strconv.Atoi(digits)
	if err != nil || number < 0 || digits[0] == '+' || percent && number > 100 || number > mostCount {
		return amount{}, fmt.Errorf("%.20q is neither a count nor a percentage", text)
	}
	return amount{number, percent}, nil
}

// up is the amount of n, and at least one where it is not 0. Rounded up: a wave of 1% of 30 nodes has one.
func (a amount) up(n int) int {
	if a.percent {
		return (a.number*n + 99) / 100
	}
	return min(a.number, n)
}

// down is the amount of n, rounded down: no more than that may fail.
func (a amount) down(n int) int {
	if a.percent {
		return a.number * n / 100
	}
	return a.number
}

// Waves is a Plan in a form that was read and checked.
type Waves struct {
	canary bool     // the first wave is a canary
	sizes  []amount // of all waves together up to this one
	soak   time.Duration
	failed amount
}

// Read checks a plan.
func (p Plan) Read() (Waves, error) {
	w := Waves{soak: time.Duration(p.SoakSeconds) * time.Second}
	if p.Canary != "" {
		canary, err := parseAmount(p.Canary)
		if err != nil {
			return w, badPlan("canary: " + err.Error())
		}
		if canary.number == 0 {
			return w, badPlan("a canary of no nodes tries nothing")
		}
		w.canary = true
		w.sizes = append(w.sizes, canary)
	}
	before := 0
	for _, text := range p.Steps {
		step, err := parseAmount(text)
		if err != nil || !step.percent || step.number <= before {
			return w, badPlan(fmt.Sprintf("steps: %.20q is no percentage above the one before it", text))
		}
		before = step.number
		w.sizes = append(w.sizes, step)
	}
	if before < 100 {
		w.sizes = append(w.sizes, amount{100, true})
	}
	if p.SoakSeconds < 0 || w.soak > mostSoak || len(p.Steps) > mostSteps {
		return w, badPlan(fmt.Sprintf("soak_seconds is from 0 to %d, and there are %d steps at most", int(mostSoak.Seconds()), mostSteps))
	}
	var err error
	if w.failed, err = parseAmount(p.MaxFailed); err != nil {
		return w, badPlan("max_failed: " + err.Error())
	}
	return w, nil
}

func badPlan(why string) error {
	return wire.Refuse(wire.CodeBadRequest, "the waves: "+why,
		"a canary is such as 1 or 5%, steps are percentages that grow, such as 25% and 100%, and max_failed is such as 2 or 10%")
}

// ReadPlan reads a plan on record.
func ReadPlan(text string) (Plan, Waves, error) {
	var p Plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, Waves{}, err
	}
	w, err := p.Read()
	return p, w, err
}

// reach is how many of n nodes are let in up to and with a wave.
func (w Waves) reach(wave, n int) int {
	most := 0
	for _, size := range w.sizes[:min(wave+1, len(w.sizes))] {
		most = max(most, size.up(n))
	}
	return most
}

// Count returns how many waves there are.
func (w Waves) Count() int { return len(w.sizes) }

// limit is how many of a wave's n nodes may fail.
func (w Waves) limit(wave, n int) int {
	if wave == 0 && w.canary {
		return 0
	}
	return w.failed.down(n)
}
