package rollout

import (
	"strings"
	"testing"
)

// TestSame: plans are the same that let nodes in alike, however they are written.
func TestSame(t *testing.T) {
	plan := DefaultPlan()
	short, back, other, goBack, bad := plan, plan, plan, plan, plan
	short.Steps = nil
	back.Leaves = "sha256:x"
	other.SoakSeconds = 1
	goBack.GoBack = true
	bad.MaxFailed = "many"
	if !plan.Same(short) || !plan.Same(back) || plan.Same(other) || plan.Same(goBack) || plan.Same(bad) || plan.Same(AllAtOnce()) {
		t.Error("what is the same is not known")
	}
}

func TestPlan(t *testing.T) {
	for name, c := range map[string]struct {
		plan  Plan
		nodes int
		reach []int
		limit []int
	}{
		"default":            {DefaultPlan(), 30, []int{1, 30}, []int{0, 3}},
		"all at once":        {AllAtOnce(), 30, []int{30}, []int{3}},
		"the way back":       {WayBack(), 30, []int{30}, []int{30}},
		"percent":            {Plan{Canary: "5%", Steps: []string{"10%", "50%"}, MaxFailed: "2"}, 30, []int{2, 3, 15, 30}, []int{0, 2, 2, 2}},
		"few nodes":          {Plan{Canary: "5", Steps: []string{"50%"}, MaxFailed: "10%"}, 2, []int{2, 2, 2}, []int{0, 0, 0}},
		"a canary above":     {Plan{Canary: "10", Steps: []string{"10%"}, MaxFailed: "0"}, 20, []int{10, 10, 20}, []int{0, 0, 0}},
		"none":               {DefaultPlan(), 0, []int{0, 0}, []int{0, 0}},
		"less than one node": {Plan{Canary: "1%", MaxFailed: "0%"}, 3, []int{1, 3}, []int{0, 0}},
	} {
		w, err := c.plan.Read()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for wave := range c.reach {
			if got := w.reach(wave, c.nodes); got != c.reach[wave] {
				t.Errorf("%s: wave %d reaches %d, want %d", name, wave, got, c.reach[wave])
			}
			if got := w.limit(wave, c.nodes); got != c.limit[wave] {
				t.Errorf("%s: in wave %d %d may fail, want %d", name, wave, got, c.limit[wave])
			}
		}
		if w.Count() != len(c.reach) {
			t.Errorf("%s: %d waves", name, len(w.sizes))
		}
	}
	for name, p := range map[string]Plan{
		"canary 0": {Canary: "0", MaxFailed: "1"}, "canary of what": {Canary: "few", MaxFailed: "1"}, "+": {Canary: "+1", MaxFailed: "1"},
		"falls": {Steps: []string{"50%", "25%"}, MaxFailed: "1"}, "a count": {Steps: []string{"5"}, MaxFailed: "1"},
		"over": {Steps: []string{"101%"}, MaxFailed: "1"}, "no limit": {}, "less": {MaxFailed: "-1"},
		"soak": {SoakSeconds: -1, MaxFailed: "1"}, "long soak": {SoakSeconds: 1 << 30, MaxFailed: "1"},
		"empty step": {Steps: []string{""}, MaxFailed: "1"}, "no digits": {Steps: []string{"%"}, MaxFailed: "1"},
		"steps": {Steps: strings.Split(strings.TrimSuffix(manySteps(), ","), ","), MaxFailed: "1"},
	} {
		if _, err := p.Read(); err == nil {
			t.Errorf("%s: %+v is taken", name, p)
		}
	}
}

func manySteps() string {
	var s strings.Builder
	for i := range 30 {
		s.WriteString(strings.TrimSpace(string(rune('0'+(i+10)/10))) + string(rune('0'+(i+10)%10)) + "%,")
	}
	return s.String()
}

// TestTogether: a plan lets all nodes in at once only if it has one wave.
func TestTogether(t *testing.T) {
	for name, c := range map[string]struct {
		plan Plan
		want bool
	}{
		"all at once": {AllAtOnce(), true}, "the way back": {WayBack(), true}, "no steps": {Plan{MaxFailed: "0"}, true},
		"a canary":  {Plan{Canary: "1", MaxFailed: "0"}, false},
		"two waves": {Plan{Steps: []string{"25%", "100%"}, MaxFailed: "0"}, false},
		"the rest":  {Plan{Steps: []string{"25%"}, MaxFailed: "0"}, false},
		"no plan":   {Plan{MaxFailed: "many"}, false},
	} {
		if got := c.plan.Together(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
