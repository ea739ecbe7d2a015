package release

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
)

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

// waves is a Plan that was read.
type waves struct {
	canary bool     // the first wave is a canary
	sizes  []amount // of all waves together up to this one
	soak   time.Duration
	failed amount
}

// read checks a plan.
func (p Plan) read() (waves, error) {
	w := waves{soak: time.Duration(p.SoakSeconds) * time.Second}
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
		`write {"canary":"1","steps":["25%","100%"],"soak_seconds":600,"max_failed":"10%"}, or null for all nodes at once`)
}

// allAtOnce is the plan of a promotion without waves. It still stops where more than a tenth fail.
func allAtOnce() Plan { return Plan{Steps: []string{"100%"}, MaxFailed: "10%"} }

// wayBack is the plan of a rollback: nothing holds it up.
func wayBack() Plan { return Plan{Steps: []string{"100%"}, MaxFailed: "100%"} }

// readPlan reads a plan on record.
func readPlan(text string) (Plan, waves, error) {
	var p Plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, waves{}, err
	}
	w, err := p.read()
	return p, w, err
}

// reach is how many of n nodes are let in up to and with a wave.
func (w waves) reach(wave, n int) int {
	most := 0
	for _, size := range w.sizes[:min(wave+1, len(w.sizes))] {
		most = max(most, size.up(n))
	}
	return most
}

// limit is how many of a wave's n nodes may fail.
func (w waves) limit(wave, n int) int {
	if wave == 0 && w.canary {
		return 0
	}
	return w.failed.down(n)
}
