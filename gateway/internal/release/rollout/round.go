package rollout

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/store/releases"
)

// namesInWhy is how many nodes the reason of a halt names.
const namesInWhy = 5

// joinTime is how long a wave that has nodes takes others in. Who comes later is let in with the next wave: else a channel with ever more
// nodes would never be through with a wave of so many percent of them. It is longer than a gateway needs after a start to hear its nodes.
const joinTime = 15 * time.Minute

// round is one look at a rollout.
type round struct {
	View
	o       releases.Rollout // as it becomes
	changed map[string]releases.Node
	told    []Told
}

func (r *round) outcome() Outcome {
	return Outcome{Rollout: r.o, Rows: slices.Collect(maps.Values(r.changed)), Told: r.told}
}

// judge looks at every node that was let in.
func (r *round) judge() {
	waits := Stagger(r.count().let) // not of those alone that are not through: who has the last share was told it when all were there
	for id, row := range r.Rows {
		was := row
		r.become(&row, r.judged(row, waits))
		r.examine(&row)
		if row != was {
			r.changed[id] = row
		}
	}
}

// become gives a row another state.
func (r *round) become(row *releases.Node, state string) {
	if state == row.State {
		return
	}
	switch state {
	case Admitted:
		row.AdmittedAt = r.Now
	case Committed:
		row.Crashes = r.Nodes[row.NodeID].Crashes
	}
	row.State = state
	row.ChangedAt = r.Now
}

// examine looks how a node does that has the release. How much memory its agent takes is learnt where it was not known before.
func (r *round) examine(row *releases.Node) {
	n := r.Nodes[row.NodeID]
	if !r.watches(*row) || !n.Belongs || !n.Heard || !n.Runs {
		return
	}
	if row.MemoryKiB == 0 {
		row.MemoryKiB = n.MemoryKiB
	}
	if row.Why = ill(*row, n); row.Why == "" {
		return
	}
	r.become(row, Unwell)
	r.told = append(r.told, Told{Kind: ToldUnwell, Wave: row.Wave, Why: row.Why, Node: row.NodeID})
}

// judged is what a node's row becomes by itself. What a node said has changed it already.
func (r *round) judged(row releases.Node, stagger time.Duration) string {
	n, known := r.Nodes[row.NodeID]
	switch {
	case !known || !n.Belongs:
		if Open(row.State) {
			return Out
		}
	case Open(row.State) && n.Online && n.Runs && !n.Trying:
		return Committed
	case row.State == Silent && n.Online && n.Trying:
		return Begun
	case row.State == Silent && n.Online:
		return Admitted
	case !n.Online && (Active(row.State) || r.soaks(row)):
		return Silent
	case row.State == Admitted && n.Shut:
		return Out
	case r.overdue(row, n, stagger):
		return Late
	}
	return row.State
}

// soaks tells whether a node has the release, and is still watched for how it does with it.
func (r *round) soaks(row releases.Node) bool {
	return row.State == Committed && row.Wave == r.o.Wave && r.o.State != releases.Done
}

// overdue tells whether a node had all the time that it needs. While the rollout is held, nobody can begin.
func (r *round) overdue(row releases.Node, n Standing, stagger time.Duration) bool {
	if !Active(row.State) || !Watched(r.o) {
		return false
	}
	since := row.AdmittedAt
	patience := stagger + Span(n.Interval) + fairTime
	if row.State == Begun {
		since = row.ChangedAt
	}
	if row.State == Begun || n.Busy {
		patience = longTime
	}
	if since.Before(r.Since) {
		since = r.Since
	}
	return r.Now.Sub(since) > patience
}

// rows gives each row as this round leaves it.
func (r *round) rows(yield func(string, releases.Node) bool) {
	for id, row := range r.Rows {
		if _, again := r.changed[id]; !again && !yield(id, row) {
			return
		}
	}
	for id, row := range r.changed {
		if !yield(id, row) {
			return
		}
	}
}

// tally counts the rows of a rollout.
type tally struct {
	let     int // in all waves, without those that left
	active  int
	fallen  int    // that count against going on
	unheard int    // of the wave that is under way: through, and not heard since the gateway is at work
	waves   []loss // by wave
}

// loss is how many nodes a wave has, and how many of them count as failed: of an earlier wave those alone that failed since the present
// one began. Those before were within bounds, or a person has accepted them.
type loss struct{ size, fallen int }

func (r *round) count() tally {
	t := tally{waves: make([]loss, max(r.Waves.Count(), r.o.Wave+1))}
	for _, row := range r.rows {
		if row.State == Out {
			continue
		}
		t.let++
		if Active(row.State) {
			t.active++
		}
		wave := &t.waves[row.Wave]
		wave.size++
		if r.counts(row) {
			wave.fallen++
			t.fallen++
		}
		if n := r.Nodes[row.NodeID]; row.Wave == r.o.Wave && row.State == Committed && n.Belongs && !n.Heard {
			t.unheard++
		}
	}
	return t
}

// counts tells whether a node counts as failed now. A node of an earlier wave that is not heard counts no more.
func (r *round) counts(row releases.Node) bool {
	if row.Wave == r.o.Wave {
		return Fallen(row.State)
	}
	return Fallen(row.State) && !Open(row.State) && row.ChangedAt.After(r.o.WaveAt)
}

// move lets nodes in, ends waves, and halts, as far as it goes now.
func (r *round) move() {
	for r.o.State == releases.Running && r.o.EndedAt == nil {
		if r.halt() {
			return
		}
		candidates, expected, shut, missed := r.candidates()
		t := r.count()
		if t.let == 0 {
			expected += shut // without this, nobody would try the release before all of them get it
		}
		reach := t.let
		size := t.waves[r.o.Wave].size
		if size == 0 {
			expected += missed // without this, an outage of the network would end all waves, and then all nodes come at once
		}
		joins := size == 0 || r.Now.Sub(r.o.WaveAt) < joinTime
		if joins {
			reach = r.Waves.reach(r.o.Wave, t.let+len(candidates)+expected)
		}
		if more := min(reach-t.let, len(candidates)); more > 0 {
			r.admit(candidates[:more])
			t = r.count()
		}
		if t.active > 0 || t.let < reach {
			if joins { // later, a node that is silent and comes back again and again does not hold the wave up
				r.o.StillAt = nil
			}
			return
		}
		if t.unheard > 0 || !r.through(t.waves[r.o.Wave].size) { // each of them is heard soon, or counts as silent
			return
		}
	}
}

// follow lets in who comes to the release after the last wave was through.
func (r *round) follow() {
	if r.halt() {
		return
	}
	candidates, _, _, _ := r.candidates()
	r.admit(candidates)
}

// halt stops the rollout if too many of a wave have failed.
func (r *round) halt() bool {
	t := r.count()
	for wave, l := range t.waves {
		limit := r.Waves.limit(wave, l.size)
		if l.fallen-r.o.Forgiven <= limit {
			continue
		}
		r.o.State = releases.Halted
		r.o.EndedAt = nil
		r.o.Why = r.why(wave, l, limit)
		r.tell(ToldHalted, r.o.Why)
		return true
	}
	return false
}

func (r *round) why(wave int, l loss, limit int) string {
	of := "the wave's"
	if wave != r.o.Wave {
		of = fmt.Sprintf("wave %d's", wave+1)
	}
	text := fmt.Sprintf("%d of %s %d nodes failed, fell silent or did not get on, and %d may", l.fallen, of, l.size, limit)
	if r.o.Forgiven > 0 {
		text += fmt.Sprintf(" beyond the %d that were accepted", r.o.Forgiven)
	}
	text += r.names(wave, Silent, "not heard any more")
	text += r.names(wave, Late, "online, and not through in time")
	return text + r.names(wave, Unwell, "not well with it")
}

// names names the nodes of a wave that are in a state which they do not tell of themselves, with what is known of the first.
func (r *round) names(wave int, state, meaning string) string {
	var names, reasons []string
	for id, row := range r.rows {
		if row.State == state && row.Wave == wave && r.counts(row) {
			names = append(names, cmp.Or(r.Nodes[id].Name, id))
			reasons = append(reasons, row.Why)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	text := "; " + meaning + ": " + strings.Join(names[:min(len(names), namesInWhy)], ", ")
	if more := len(names) - namesInWhy; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if why := slices.Max(reasons); why != "" {
		text += " (" + why + ")"
	}
	return text
}

// through ends the wave when its nodes have been well for long enough, and tells whether the next one begins. An empty wave and the last
// one wait for nothing.
func (r *round) through(size int) bool {
	last := r.o.Wave == r.Waves.Count()-1
	if r.o.StillAt == nil {
		at := r.Now
		r.o.StillAt = &at
	}
	if !last && size > 0 && r.Now.Sub(*r.o.StillAt) < r.Waves.soak {
		return false
	}
	if last {
		at := r.Now
		r.o.State = releases.Done
		r.o.Why = ""
		r.o.EndedAt = &at
		r.tell(ToldDone, "")
		return false
	}
	r.o.Wave++
	r.o.WaveAt = r.Now
	r.o.StillAt = nil
	r.o.Forgiven = 0
	r.tell(ToldWave, "")
	return true
}

// Next returns when the wave after the present one begins. It is nil in three cases: nodes of the present wave are on their way, the
// present wave is the last one, or the rollout does not run.
func (w Waves) Next(o releases.Rollout) *time.Time {
	if o.State != releases.Running || o.StillAt == nil || o.Wave >= w.Count()-1 {
		return nil
	}
	at := o.StillAt.Add(w.soak)
	return &at
}

func (r *round) tell(kind, why string) {
	r.told = append(r.told, Told{Kind: kind, Wave: r.o.Wave, Why: why})
}

// candidates are the nodes that may be let in now, in an order that looks random and stays the same. expected counts those that would be
// among them, and that have not been heard since a start that was only just now. shut counts those whose window is closed, and missed those
// that have just fallen silent: they are let in when they are heard again.
func (r *round) candidates() (ids []string, expected, shut, missed int) {
	for id, n := range r.Nodes {
		if !n.Belongs || !n.Takes || !n.Online || n.Runs || !r.mayCome(id) {
			continue
		}
		switch {
		case n.Heard && n.Missed: // it would count as silent, for nothing that the release did
			missed++
		case n.Shut:
			shut++
		case n.Heard:
			ids = append(ids, id)
		default:
			expected++
		}
	}
	keys := make(map[string][]byte, len(ids))
	for _, id := range ids {
		sum := sha256.Sum256([]byte(r.o.Digest + " " + id))
		keys[id] = sum[:]
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(bytes.Compare(keys[a], keys[b]), cmp.Compare(a, b)) })
	return ids, expected, shut, missed
}

// mayCome tells whether a node can be let in. When the rollout is done, also one that was in it before and runs another release again.
func (r *round) mayCome(id string) bool {
	row, let := r.changed[id]
	if !let {
		row, let = r.Rows[id]
	}
	return !let || row.State == Out || r.o.State == releases.Done && !Open(row.State)
}

func (r *round) admit(ids []string) {
	for _, id := range ids {
		r.changed[id] = releases.Node{Rollout: r.o.Number, NodeID: id, Wave: r.o.Wave, State: Admitted, AdmittedAt: r.Now, ChangedAt: r.Now,
			MemoryKiB: r.Nodes[id].MemoryKiB}
	}
}
