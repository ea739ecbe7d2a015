package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/internal/identity"
	"muster/agent/wire"
)

// TestStatusSaysHowTheUpdateWent: the channel and its number, the last update, and why it failed.
func TestStatusSaysHowTheUpdateWent(t *testing.T) {
	t.Parallel()
	const about = `"release":"sha256:0123456789abcdef","about":7`
	const version = `"version":"2.0",` + about
	last := func(rest string) string { return `{"last":{` + rest + `}}` }
	for record, want := range map[string]string{
		`{"channel":"edge","floors":{"edge":7,"stable":9}}`:                       "channel       edge, at number 7\n",
		last(version + `,"phase":"held","code":"tasks_run","detail":"1 task"`):    "update        2.0 is wanted, and waits: tasks_run: 1 task\n",
		last(version + `,"phase":"fetching"`):                                     "update        2.0 is being fetched\n",
		last(about + `,"phase":"trial"`):                                          "update        sha256:0123456789ab... is on trial\n",
		last(version + `,"phase":"committed"`):                                    "update        2.0 was taken\n",
		last(version + `,"phase":"rolled_back","code":"hung","detail":"no word"`): "update        went back from 2.0, hung: no word\n",
		last(version + `,"phase":"failed","code":"no_room","detail":"full"`):      "update        2.0 was not taken, no_room: full\n",
		last(version + `,"phase":"blessed"`):                                      "update        2.0: blessed\n",
		`{`:                                                                       "what is known of updates cannot be read",
	} {
		state := t.TempDir()
		if err := mustOpen(t, state).SaveStatus(identity.Status{Phase: identity.PhaseOnline}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(state, "update.json"), []byte(record), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := agent(t, environment("HOME", t.TempDir()), "", nil, "status", "--state", state)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d\n%s%s", record, code, out, errs)
		}
	}
}

// TestStatusHasWordsForEachPhase: none is printed as a bare word, and JSON has it as a heartbeat would say it.
func TestStatusHasWordsForEachPhase(t *testing.T) {
	t.Parallel()
	for _, phase := range wire.UpdatePhases() {
		state := t.TempDir()
		if err := mustOpen(t, state).SaveStatus(identity.Status{Phase: identity.PhaseOnline}); err != nil {
			t.Fatal(err)
		}
		record := `{"channel":"stable","floors":{"stable":7},"last":{"version":"2.0","phase":"` + phase + `"}}`
		if err := os.WriteFile(filepath.Join(state, "update.json"), []byte(record), 0o600); err != nil {
			t.Fatal(err)
		}
		_, out, _ := agent(t, environment("HOME", t.TempDir()), "", nil, "status", "--state", state)
		if strings.Contains(out, "2.0: "+phase) {
			t.Errorf("%s has no words:\n%s", phase, out)
		}
		_, out, _ = agent(t, environment("HOME", t.TempDir()), "", nil, "status", "--state", state, "-o", "json")
		var said struct{ Update wire.Update }
		if err := json.Unmarshal([]byte(out), &said); err != nil || said.Update.Phase != phase || said.Update.Sequence != 7 {
			t.Errorf("%v in %s", err, out)
		}
	}
}
