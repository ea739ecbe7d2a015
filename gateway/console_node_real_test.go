//go:build real

package main

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/view"
	"muster/store"
	slots "muster/store/placement"
)

// TestConsoleNode looks at the pages of nodes of every kind, in both sizes and colours, and does on one what a person does there. Whatever
// the browser complains of fails the test. The pictures are in bin/console.
func TestConsoleNode(t *testing.T) {
	t.Parallel()
	c := newChromium(t)
	nodes := append(append([]exhibit{mixedNodes()[0]}, oddNodes()...), sickNodes()...)
	s := newShowcase(t, nodes)
	now := time.Now()
	for i := range nodes {
		s.recall(t, &nodes[i], now)
	}
	s.admit(c)
	c.looks(1440, 900, "light")
	s.usePlots(t, c) // first: later there is a second gap, from the last sample to the present
	pages := []string{"h200-01", "spark-1", "mig-a100", "control-1", "l40s-quiet", "hostile-1", "joining-1", "h200-11", "h200-12", "vast-hung",
		"vast-silent", "conflict-1", "overdue-1"}
	for _, look := range []struct {
		size, scheme  string
		width, height int
	}{{"1440", "light", 1440, 900}, {"1440", "dark", 1440, 900}, {"390", "light", 390, 844}, {"390", "dark", 390, 844}} {
		for _, name := range pages {
			c.looks(look.width, look.height, look.scheme)
			c.open(s.url + "/ui/nodes/" + name)
			if c.eval(`document.documentElement.scrollWidth > innerWidth`) == true {
				t.Errorf("%s at %s is wider than the window", name, look.size)
			}
			if c.eval(`document.title === "taken"`) == true {
				t.Errorf("%s ran a script of a node", name)
			}
			c.shot("node-" + name + "-" + look.scheme + "-" + look.size)
			c.looks(look.width, int(c.eval(`document.documentElement.scrollHeight`).(float64)), look.scheme)
			c.shot("node-" + name + "-whole-" + look.scheme + "-" + look.size)
		}
	}
	for _, span := range []string{"day", "week", "month"} {
		c.looks(1440, 2400, "light")
		c.open(s.url + "/ui/nodes/h200-01?range=" + span)
		c.shot("node-h200-01-" + span + "-light-1440")
	}
	c.looks(1440, 900, "light")
	s.useNode(t, c, now)
	for _, said := range c.complaints() {
		t.Errorf("the browser says %s", said)
	}
}

// recall puts what a node said into the history: two hours with a gap, and for the first node a month.
func (s *showcase) recall(t *testing.T, e *exhibit, now time.Time) {
	t.Helper()
	if e.hardware == nil {
		return
	}
	end := now.Add(-e.heard)
	var samples []view.Sample
	say := func(at time.Time, pace time.Duration) {
		if ago := end.Sub(at); ago > 20*time.Minute && ago < 31*time.Minute {
			return
		}
		samples = append(samples, e.sampleAt(at, pace))
	}
	if e.name == "h200-01" {
		for ago := 30 * 24 * time.Hour; ago > 2*time.Hour; ago -= 10 * time.Minute {
			if ago < 200*time.Hour || ago > 260*time.Hour {
				say(end.Add(-ago), 10*time.Minute)
			}
		}
	}
	for ago := 2 * time.Hour; ago >= 0; ago -= 30 * time.Second {
		say(end.Add(-ago), 30*time.Second)
	}
	s.history.Take(t.Context(), samples)
	s.used(t, e, end)
	if e.name == "conflict-1" {
		twins := e.report(t, now)
		twins.Enrolment = "e-" + e.name
		for i, run := range []string{"5f1c0a9e77d2b344", "c09d4e1b2a6f8810"} {
			twins.Runs = append(twins.Runs, store.Run{ID: run, Fingerprint: "print-" + e.name, Address: "203.0.113." + strconv.Itoa(7+i),
				First: now.Add(-30 * time.Hour), Last: now.Add(-time.Duration(i) * time.Minute), LastBeat: int64(i + 1)})
		}
		if err := s.store.SaveBeats(t.Context(), []store.Beat{twins}, now); err != nil {
			t.Fatal(err)
		}
	}
	events := []store.Event{{At: end.Add(-40 * time.Minute), Kind: "node.drained"}, {At: end.Add(-35 * time.Minute), Kind: "node.resumed"},
		{At: end.Add(-12 * time.Minute), Kind: "release.committed", Detail: map[string]string{"version": "1.4.0"}}}
	for i := range events {
		events[i].NodeID, events[i].NodeName, events[i].Tenant, events[i].Outcome = e.id(), e.name, e.tenant, store.OutcomeOK
	}
	if err := s.store.AddEvents(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
}

// used puts into the records who has worked on the GPUs of the first node, and of one whose names are hostile.
func (s *showcase) used(t *testing.T, e *exhibit, now time.Time) {
	t.Helper()
	var all []slots.Use
	add := func(gpu int, user, program, container, allocation, owner string, from, until time.Duration, memory *int64) {
		all = append(all, slots.Use{UseKey: slots.UseKey{NodeID: e.id(), GPU: e.hardware.GPUs[gpu].UUID, User: user, Program: program,
			Container: container, Allocation: allocation}, Owner: owner, Since: now.Add(-from), Until: now.Add(-until), MemoryMiB: memory})
	}
	switch e.name {
	case "h200-01":
		add(0, "ada", "python3", "", "7f2kq3xw5dhz6m4a", "ada@example.org", 26*time.Hour, time.Minute, some(int64(131_072)))
		add(1, "100999", "vllm", "3f1c2a90beef", "7f2kq3xw5dhz6m4a", "ada@example.org", 3*time.Hour, 2*time.Hour, some(int64(71_680)))
		add(7, "", "", "", "", "", 49*time.Hour, 48*time.Hour, nil)
	case "hostile-1":
		evil := strings.Repeat("<script>document.title='taken'</script>", 2)
		add(0, evil, evil, evil, evil, evil, time.Hour, 0, nil)
	}
	if len(all) == 0 {
		return
	}
	if err := slots.New(s.store.Records()).SaveUses(t.Context(), all, nil); err != nil {
		t.Fatal(err)
	}
}

// sampleAt is what the node said at a moment: its reading, with values that rise and fall.
func (e *exhibit) sampleAt(at time.Time, pace time.Duration) view.Sample {
	h := *e.hardware
	h.Probe.SampledAt = &at
	h.GPUs = make([]wire.GPU, len(e.hardware.GPUs))
	copy(h.GPUs, e.hardware.GPUs)
	turn := float64(at.Unix()) / 600
	for i := range h.GPUs {
		g := &h.GPUs[i]
		wave := func(v *float64, least, most float64) *float64 {
			if v == nil {
				return nil
			}
			return some(least + (most-least)*(0.5+0.5*math.Sin(turn+float64(i)))*(0.6+0.4*math.Sin(turn/29)))
		}
		g.UtilizationPercent = wave(g.UtilizationPercent, 2, 100)
		g.TemperatureCelsius = wave(g.TemperatureCelsius, 32, 78)
		g.PowerWatts = wave(g.PowerWatts, 80, 690)
	}
	h.Load1 = some(8 + 6*math.Sin(turn/3))
	return view.Sample{NodeID: e.id(), At: at, RunID: "0123456789abcdef", Interval: pace, Hardware: &h,
		Cost: &wire.Cost{RSSKiB: some(int64(6400 + 50*math.Sin(turn))), CPUMillis: some(at.Unix()),
			ProbeMillis: some(int64(41 + 9*math.Sin(turn)))}}
}

// usePlots chooses another time, and looks up a moment with the pointer and by keys.
func (s *showcase) usePlots(t *testing.T, c *chromium) {
	t.Helper()
	c.open(s.url + "/ui/nodes/h200-01")
	if n := c.eval(`document.querySelectorAll("figure")[0].querySelectorAll(".field path").length`); n != 8.0 {
		t.Errorf("%v lines of 8 GPUs", n)
	}
	if n := c.eval(`document.querySelectorAll("figure")[0].querySelectorAll(".gap").length`); n != 1.0 {
		t.Errorf("%v gaps", n)
	}
	const field = `document.querySelector("figure .field")`
	c.eval(field + `.scrollIntoView({block: "center"})`)
	c.eval(`((f, b) => f.dispatchEvent(new PointerEvent("pointermove", {clientX: b.left + b.width * 0.9, clientY: b.top + 40})))(` +
		field + `, ` + field + `.getBoundingClientRect())`)
	c.see(`document.querySelector("figure .cross") !== null && !document.querySelector("figure .at").hidden`)
	c.see(`[...document.querySelectorAll("figure")[0].querySelectorAll(".now")].every(n =>
		n.dataset.last !== undefined && n.textContent !== "–")`)
	c.shot("node-crosshair-light-1440")
	c.eval(field + `.dispatchEvent(new PointerEvent("pointerleave"))`)
	c.see(`document.querySelector("figure .cross") === null`)
	c.eval(field + `.focus()`)
	c.press("\ue012") // the arrow to the left
	c.see(`document.querySelector("figure .cross") !== null`)
	c.press("\ue00c") // Escape
	c.see(`document.querySelector("figure .cross") === null`)
	c.eval(`(window.same = true, [...document.querySelectorAll("[data-range]")].find(a => a.textContent === "week").click())`)
	c.see(`location.search === "?range=week" && document.getElementById("plots").textContent === "The last week" && window.same`)
	c.eval(`history.back()`)
	c.see(`location.search === "" && document.getElementById("plots").textContent === "The last hour" && window.same`)
}

// useNode sees the page change by itself, and drains the node.
func (s *showcase) useNode(t *testing.T, c *chromium, now time.Time) {
	t.Helper()
	c.open(s.url + "/ui/nodes/h200-01")
	c.eval(`window.same = true`)
	e := mixedNodes()[0]
	e.hardware.GPUs[3].UtilizationPercent = some(42.0)
	at := now.Add(time.Second)
	e.hardware.Probe.SampledAt = &at
	text, err := json.Marshal(e.hardware)
	if err == nil {
		beat := e.report(t, at)
		beat.Hardware = string(text)
		err = s.store.SaveBeats(t.Context(), []store.Beat{beat}, at)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.beat(&e, at)
	c.see(`document.querySelectorAll(".gpus tbody tr")[3].textContent.includes("42 %") && window.same`)
	c.eval(`document.querySelector("form[action$='/drain']").requestSubmit()`)
	c.see(`document.querySelector("h1").textContent === "Drain h200-01?"`)
	c.shot("node-drain-light-1440")
	c.eval(`document.querySelector("main form").requestSubmit()`)
	c.see(`document.querySelector(".states")?.textContent.includes("drained")`)
	if title := c.eval(`document.title`).(string); !strings.HasPrefix(title, "h200-01") {
		t.Errorf("the page is %q", title)
	}
}
