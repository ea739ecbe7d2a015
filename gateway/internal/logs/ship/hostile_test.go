package ship

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/agent/disk"
	"muster/agent/spool"
	"muster/agent/wire"
	"muster/gateway/api"
)

// newBare has one node and rules that push nowhere. A rule's name is its source.
func newBare(t *testing.T, now func() time.Time, names ...string) *Service {
	d := &Service{Config: Config{Now: now}, nodes: map[string]*node{}, rates: map[string]*rate{}, held: map[string]int64{}}
	d.Node = func(id string) (*api.NodeRow, bool) { return &api.NodeRow{ID: id, Name: "box", Tenant: "a"}, true }
	d.complete()
	var rules []*rule
	for _, name := range names {
		r := &rule{state: newState(), box: spool.Open(spool.Config{Dir: t.TempDir(), Bound: 16 << 20})}
		r.Name = name
		r.Sources = []string{name}
		r.BytesPerSecond = DefaultRate
		rules = append(rules, r)
	}
	d.rules.Store(&rules)
	return d
}

func take(t *testing.T, d *Service, b wire.LogBatch) (wire.LogTaken, error) {
	t.Helper()
	body, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return d.Take(t.Context(), "n-1", body)
}

// TestForgetWhileTaking: nodes are forgotten while one of them ships, and neither waits for the other for ever.
func TestForgetWhileTaking(t *testing.T) {
	taking := make(chan struct{})
	goOn := make(chan struct{})
	d := newBare(t, time.Now, "agent")
	if _, err := take(t, d, wire.LogBatch{Spool: "a", First: 1, Lines: make([]wire.LogLine, 1)}); err != nil {
		t.Fatal(err)
	}
	d.Now = func() time.Time { // Take asks when it has locked its node
		close(taking)
		<-goOn
		return time.Now()
	}
	taken := make(chan error, 1)
	go func() {
		_, err := take(t, d, wire.LogBatch{Spool: "a", First: 2, Lines: make([]wire.LogLine, 1)})
		taken <- err
	}()
	<-taking
	d.Now = func() time.Time { return time.Now().Add(2 * forgetAfter) }
	d.forget() // without the repair it waits for Take, which waits for it
	close(goOn)
	if err := <-taken; err != nil {
		t.Error(err)
	}
	if d.nodes["n-1"] == nil {
		t.Error("a node that ships was forgotten")
	}
}

// TestHostileSources: a node cannot make streams in a sink by saying that lines are missing, and cannot turn a counter round.
func TestHostileSources(t *testing.T) {
	d := newBare(t, time.Now, "kernel")
	b := wire.LogBatch{Spool: "a", First: 1}
	for i := range 2000 {
		b.Lines = append(b.Lines, wire.LogLine{Source: fmt.Sprint("unit:", i), Dropped: wire.MaxNumber})
	}
	b.Lines = append(b.Lines, wire.LogLine{Source: "agent", Dropped: wire.MaxNumber}, wire.LogLine{Source: "kernel", Dropped: wire.MaxNumber})
	if taken, err := take(t, d, b); err != nil || taken.Next != 2003 {
		t.Fatalf("%+v, %v", taken, err)
	}
	r := (*d.rules.Load())[0]
	if s := r.box.Stats(); s.Next != 3 || r.state.is.Dropped[ReasonNode] != wire.MaxNumber {
		t.Errorf("%d records, %d dropped", s.Next-1, r.state.is.Dropped[ReasonNode])
	}
}

// TestEmptyLines: lines of two bytes do not fill a buffer at a rate that is meant for whole ones.
func TestEmptyLines(t *testing.T) {
	now := time.Now()
	d := newBare(t, func() time.Time { return now }, "agent")
	send := func(first, n int) (wire.LogTaken, error) {
		body := fmt.Sprintf(`{"spool":"a","first":%d,"lines":[%s{}]}`, first, strings.Repeat("{},", n-1))
		return d.Take(t.Context(), "n-1", []byte(body))
	}
	if _, err := send(1, mostLines+1); err == nil {
		t.Error("too many lines are taken")
	}
	first := 1
	for range 20 {
		taken, err := send(first, mostLines)
		if err != nil {
			t.Fatal(err)
		}
		first = int(taken.Next)
	}
	if most := 3 * mostLines; first > most { // ten seconds of the rate, and one batch that goes beyond
		t.Errorf("%d lines at once, %d bytes", first, (*d.rules.Load())[0].box.Stats().Bytes)
	}
}

// TestOneBadBuffer: a buffer that takes nothing stops no other rule, makes no line come twice there, and counts what it lost. If none
// takes anything, the node keeps its lines.
func TestOneBadBuffer(t *testing.T) {
	d := newBare(t, time.Now, "agent", "agent")
	rules := *d.rules.Load()
	broken := func(disk.Step) error { return errors.New("the disk is broken") }
	rules[1].box.Steps = broken
	line := wire.LogLine{Source: "agent", Message: "x"}
	if taken, err := take(t, d, wire.LogBatch{Spool: "a", First: 1, Lines: []wire.LogLine{line, line}}); err != nil || taken.Next != 3 {
		t.Errorf("%+v, %v", taken, err)
	}
	if good, bad := rules[0].box.Stats(), rules[1].box.Stats(); good.Next != 3 || good.Dropped != 0 || bad.Dropped != 2 {
		t.Errorf("%+v, %+v", good, bad)
	}
	rules[0].box.Steps = broken
	if _, err := take(t, d, wire.LogBatch{Spool: "a", First: 3, Lines: []wire.LogLine{line}}); err == nil {
		t.Error("nothing keeps the line, and the node is told that it is kept")
	}
	if rules[1].box.Stats().Dropped != 2 {
		t.Error("a line that the node keeps is counted as lost")
	}
}

// TestUnsynced: where no buffer got the lines to its disk, the node keeps them.
func TestUnsynced(t *testing.T) {
	d := newBare(t, time.Now, "agent")
	box := (*d.rules.Load())[0].box
	box.Steps = func(s disk.Step) error {
		if s.Synced != "" && strings.HasSuffix(s.Name, "segment") {
			return errors.New("the disk is broken")
		}
		return nil
	}
	line := wire.LogLine{Source: "agent", Message: "x"}
	if taken, err := take(t, d, wire.LogBatch{Spool: "a", First: 1, Lines: []wire.LogLine{line}}); err == nil {
		t.Errorf("the node is told that its line is kept: %+v", taken)
	}
}

// TestHeldByTheTenant: a node that waits because its tenant ships too much has not used up its own allowance.
func TestHeldByTheTenant(t *testing.T) {
	now := time.Now()
	d := newBare(t, func() time.Time { return now }, "agent")
	d.rates["a"] = &rate{until: now.Add(time.Minute)}
	from := &node{}
	for range 100 {
		if wait := d.above(from, "a", 1<<10, 1<<10, now); wait == 0 {
			t.Fatal("it need not wait for its tenant")
		}
	}
	d.rates["a"] = &rate{}
	if wait := d.above(from, "a", 1<<10, 1<<10, now); wait != 0 {
		t.Errorf("then it waits another %d s for itself", wait)
	}
}
