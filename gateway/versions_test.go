package main

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// oldVersions are the versions whose databases this gateway takes over. README.md in that folder says how they are made.
const oldVersions = "../testdata/versions"

// shownCommands show what a database holds.
func shownCommands() []string {
	return []string{"node ls --all", "token ls --all", "task ls", "events", "account ls", "ca show"}
}

// passing tells whether a member depends on when somebody asks. A node's certificate expires meanwhile, and takes it out of work.
func passing(member string, was any) bool {
	switch member {
	case "status", "last_used_at", "renewal_overdue", "state_reasons", "state_details", "state_since":
		return true
	case "state":
		return was == "active"
	}
	return false
}

// TestVersionsMigrate starts this gateway on the database of an older one. It shows all that the older one showed, and goes on with it.
func TestVersionsMigrate(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(oldVersions, "*", "muster.db.gz"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no old version: %v", err)
	}
	for _, file := range folders {
		folder := filepath.Dir(file)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			h := inherit(t, folder)
			h.open()
			h.showsAll(folder)
			h.agent("newcomer", h.token(), "--no-gpu")
			h.until("a new node joins", func() bool { return h.online("newcomer") })
			h.muster("node", "resume", "drained")
			backup := filepath.Join(t.TempDir(), "backup")
			h.muster("backup", backup)
			h.gateway.stop()
			h.muster("restore", backup, "--force")
			h.open()
			if _, ok := h.node("drained"); !ok {
				t.Error("a node is gone")
			}
		})
	}
}

// inherit is a house with the data of a version.
func inherit(t *testing.T, folder string) *house {
	t.Helper()
	h := &house{t: t, data: t.TempDir(), env: []string{withAgents + "=" + t.TempDir()}, args: []string{"--listen", "127.0.0.1:0"}}
	packed, err := os.Open(filepath.Join(folder, "muster.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	r, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	database, err := io.ReadAll(r)
	key, errKey := os.ReadFile(filepath.Join(folder, "master.key"))
	if err := errors.Join(err, errKey, os.WriteFile(filepath.Join(h.data, "muster.db"), database, 0o600),
		os.WriteFile(filepath.Join(h.data, "master.key"), key, 0o600)); err != nil {
		t.Fatal(err)
	}
	return h
}

// showsAll compares what the command line says now with what the version's own one said.
func (h *house) showsAll(folder string) {
	h.t.Helper()
	var shown map[string]string
	raw, err := os.ReadFile(filepath.Join(folder, "shown.json"))
	if err == nil {
		err = json.Unmarshal(raw, &shown)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	for _, command := range shownCommands() {
		if shown[command] == "" {
			h.t.Errorf("the version did not show %s", command)
		}
		now := decodeAll(h.t, h.muster(append(strings.Fields(command), "-o", "json")...))
		for _, was := range decodeAll(h.t, shown[command]) {
			if !someHolds(now, was) {
				text, _ := json.Marshal(was)
				present, _ := json.Marshal(now)
				h.t.Errorf("muster %s does not show this any more:\n%s\nbut this:\n%s", command, text, present)
			}
		}
	}
}

// decodeAll reads one JSON value after the other.
func decodeAll(t *testing.T, text string) (values []any) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var v any
		err := d.Decode(&v)
		if err == io.EOF {
			return values
		}
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		values = append(values, v)
	}
}

func someHolds(all []any, was any) bool {
	for _, now := range all {
		if holds(now, was) {
			return true
		}
	}
	return false
}

// holds tells whether a value has all that it had, in whatever order and with whatever is new.
func holds(now, was any) bool {
	switch was := was.(type) {
	case map[string]any:
		members, ok := now.(map[string]any)
		for name, value := range was {
			got, there := members[name]
			ok = ok && there && (passing(name, value) || holds(got, value))
		}
		return ok
	case []any:
		list, ok := now.([]any)
		for _, value := range was {
			ok = ok && someHolds(list, value)
		}
		return ok
	}
	return reflect.DeepEqual(now, was)
}
