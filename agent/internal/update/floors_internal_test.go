package update

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"muster/agent/disk/disktest"
	"muster/agent/internal/service"
	"muster/agent/wire"
)

// obeyed makes a state directory whose node has obeyed number 9, and gives what runs there.
func obeyed(t *testing.T, f *fleet) (files, string) {
	t.Helper()
	n := newFilesWith(t)
	r := Record{Node: "n1", Channel: "stable", Floors: map[string]int64{"stable": 9, "edge": 4}}
	if err := n.save(r); err != nil {
		t.Fatal(err)
	}
	return n, n.Current()
}

func newFilesWith(t *testing.T) files {
	t.Helper()
	n := newFiles(t.TempDir())
	old := build(t, n, oldScript)
	for _, err := range []error{n.SetCurrent(old), n.SetGood(old)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestFloorsSurviveDamage: an older pointer is refused, whatever happens to one of the two files, and a damaged file is named for as long
// as the agent runs.
func TestFloorsSurviveDamage(t *testing.T) {
	f := newFleet(t)
	release := f.release([]byte(program), nil) // number 7
	torn := func(path string) { os.WriteFile(path, []byte(`{"node":"n1","floors":{"sta`), 0o600) }
	empty := func(path string) { os.WriteFile(path, nil, 0o600) }
	pipe := func(path string) { os.Remove(path); syscall.Mkfifo(path, 0o600) }
	gone := func(path string) { os.Remove(path) }
	low := func(path string) { os.WriteFile(path, []byte(`{"node":"n1","floors":{"stable":5}}`), 0o600) }
	for name, c := range map[string]struct {
		damage        func(path string)
		record, other bool   // which of the files
		names         string // what the notice names
		floor         int64
	}{
		"a torn record":            {torn, true, false, RecordFile + " is damaged", 9},
		"an empty record":          {empty, true, false, RecordFile + " is damaged", 9},
		"a pipe as the record":     {pipe, true, false, RecordFile + " is not", 9},
		"no record":                {gone, true, false, "", 9},
		"an older record":          {low, true, false, "", 9},
		"a torn second copy":       {torn, false, true, service.FloorsFile + " is damaged", 9},
		"a pipe as the other copy": {pipe, false, true, service.FloorsFile + " is not", 9},
		"an older second copy":     {low, false, true, "", 9},
		"no second copy":           {gone, false, true, "", 9},
		"both":                     {torn, true, true, RecordFile + " is damaged", 3}, // the enrolment's own number
	} {
		n, old := obeyed(t, f)
		if c.record {
			c.damage(n.recordPath())
		}
		if c.other {
			c.damage(n.floorsPath())
		}
		u := New(Config{Folder: n.Base, State: f.state(), Digest: digestPrefix + old})
		if got := u.record.floor("stable"); got != c.floor {
			t.Errorf("%s: the floor is %d", name, got)
		}
		older := asks{state: f.state(), channel: "stable", record: &u.record, now: f.pointer(nil).NotBefore}
		if _, err := older.check(release.Pointer); (codeOf(err, "") == wire.UpdateOlder) != (c.floor > 7) {
			t.Errorf("%s: an older pointer: %v", name, err)
		}
		for range 2 {
			said := strings.Join(u.Notices(), "\n")
			if (said == "") != (c.names == "") || !strings.Contains(said, c.names) {
				t.Errorf("%s: the notices are %q", name, said)
			}
			u.dirty = true
			if c.names == "" || !strings.Contains(name, "pipe") {
				u.flush()
			}
		}
		if r, err := n.load(); !strings.Contains(name, "pipe") && (err != nil || r.floor("stable") != c.floor) {
			t.Errorf("%s: then %+v, %v", name, r, err)
		}
	}
}

// TestFloorsOfAnother: what another enrolment has obeyed does not count, in neither file.
func TestFloorsOfAnother(t *testing.T) {
	f := newFleet(t)
	n, old := obeyed(t, f)
	state := f.state()
	state.NodeID = "another"
	u := New(Config{Folder: n.Base, State: state, Digest: digestPrefix + old})
	u.dirty = true
	u.flush()
	r, err := n.load()
	kept, unread := n.loadFloors()
	if err != nil || unread != nil || r.floor("stable") != 3 || r.floor("edge") != 0 || kept.Node != "another" || kept.floor("stable") != 3 {
		t.Errorf("%+v, %v, %+v, %v", r, err, kept, unread)
	}
	if err := os.Rename(n.recordPath(), n.recordPath()+".x"); err != nil {
		t.Fatal(err)
	}
	if err := n.save(Record{Node: "third"}); err != nil {
		t.Fatal(err)
	}
	if r, err := n.load(); err != nil || r.Node != "third" || len(r.Floors) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestFloorsAreWrittenFirst, and only if they change: a start that is counted writes one file.
func TestFloorsAreWrittenFirst(t *testing.T) {
	n := newFilesWith(t)
	var told []string
	n.Steps = disktest.Named(func(step string) error { told = append(told, step); return nil })
	r := Record{Node: "n1", Floors: map[string]int64{"stable": 1}}
	for range 2 {
		if err := n.save(r); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.Join(told, "|")
	if strings.Count(text, "open "+service.FloorsFile) != 1 || strings.Count(text, "open "+RecordFile) != 2 ||
		strings.Index(text, "rename "+service.FloorsFile) > strings.Index(text, "open "+RecordFile) {
		t.Errorf("%s", text)
	}
	n.Steps = disktest.Named(fullDisk)
	r.raise("stable", 2)
	if err := n.save(r); err == nil {
		t.Error("saved without room for the second copy")
	}
}

// TestFloorsAreNotForgotten: however many channels a gateway names, the numbers that this node has obeyed stay, and rise.
func TestFloorsAreNotForgotten(t *testing.T) {
	u := New(Config{Folder: t.TempDir(), State: newFleet(t).state()})
	u.record.raise("stable", 9)
	for i := range 3 * maxFloors {
		u.learnChannel(wire.HeartbeatAnswer{Channel: fmt.Sprintf("c%d", i), ChannelSequence: 1})
	}
	u.learnChannel(wire.HeartbeatAnswer{Channel: "stable", ChannelSequence: 1})
	if r := u.record; r.floor("stable") != 9 || len(r.Floors) != maxFloors || r.Channel != "stable" {
		t.Errorf("%d floors, %+v", len(r.Floors), r)
	}
	if !u.record.raise("stable", 10) || u.record.floor("stable") != 10 || len(u.record.Floors) != maxFloors {
		t.Errorf("%+v", u.record.Floors)
	}
}

// TestReplaced: the record names the builds that updates took the place of, each once, and the newest of very many.
func TestReplaced(t *testing.T) {
	p := newPlace(t)
	p.amend(func(r *Record) { r.Node = "n1" })
	if err := p.SetGood(p.new); err != nil {
		t.Fatal(err)
	}
	u := New(Config{Folder: p.Base, State: newFleet(t).state(), Digest: digestPrefix + p.new})
	u.flush()
	r, err := p.load()
	if err != nil || len(r.Replaced) != 1 || r.Replaced[0] != p.old {
		t.Errorf("%v, %v", r.Replaced, err)
	}
	for i := range 2 * maxReplaced {
		for range 2 {
			r.Last.From = fmt.Sprintf("%064x", i)
			r.end(wire.UpdateCommitted, "", "")
		}
		r.end(wire.UpdateFailed, wire.UpdateNotFetched, "")
	}
	if n := len(r.Replaced); n != maxReplaced || r.Replaced[n-1] != fmt.Sprintf("%064x", 2*maxReplaced-1) ||
		r.Replaced[n-2] == r.Replaced[n-1] {
		t.Errorf("%d are named: %v", n, r.Replaced)
	}
}
