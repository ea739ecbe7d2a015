package adminapi_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/client"
	"muster/gateway/internal/session"
	"muster/gateway/internal/session/recording"
)

// TestRecordingOverHTTP: a recording is played by who may open shells, with an event, and says how much of it is there.
func TestRecordingOverHTTP(t *testing.T) {
	h := newHouse(t)
	folder := t.TempDir()
	shelf, err := recording.Open(recording.Config{Folder: folder, Key: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	h.api.Recordings = shelf
	node := h.sessionNode("n")
	c := h.client()
	s, err := client.Send[api.Session](t.Context(), c, "POST", api.At(api.PathNodeSessions, "n"), api.SessionAsk{Type: wire.SessionShell})
	if err != nil {
		t.Fatal(err)
	}
	h.api.Sessions.Aside(node)
	var frames bytes.Buffer
	if err := pipe.WriteFrame(&frames, pipe.FrameReady, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.api.Sessions.NodeSend(t.Context(), node, s.ID, pipe.Main, 0, pipe.Piece{Data: frames.Bytes()}); err != nil {
		t.Fatal(err)
	}
	if found, err := client.Get[api.Session](t.Context(), c, api.At(api.PathSession, s.ID), nil); err != nil || found.Node != "n" ||
		found.Status != api.SessionOpen {
		t.Errorf("%+v, %v", found, err)
	}
	var cast bytes.Buffer
	if _, err := c.Recording(t.Context(), s.ID, &cast); codeOf(err) != wire.CodeNotFound {
		t.Errorf("one that is not recorded: %v", err)
	}
	tape, err := shelf.Begin(recording.Meta{ID: s.ID, Node: "n", At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if err := tape.Output(time.Now(), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	state, err := c.Recording(t.Context(), s.ID, &cast)
	if err != nil || state != api.RecordingLive || !strings.Contains(cast.String(), `"hello"`) {
		t.Errorf("%s, %v: %s", state, err, &cast)
	}
	if err := tape.End(time.Now(), ""); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, s.ID+".cast")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(raw)
	bad[len(bad)-1] ^= 1
	for want, file := range map[string][]byte{api.RecordingComplete: raw, api.RecordingCutOff: raw[:len(raw)-1],
		api.RecordingDamaged: bad} {
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		cast.Reset()
		state, err := c.Recording(t.Context(), s.ID, &cast)
		if err != nil || state != want || !strings.Contains(cast.String(), `"hello"`) {
			t.Errorf("%s, want %s, %v: %s", state, want, err, &cast)
		}
	}
	events, err := client.Get[api.EventList](t.Context(), c, api.PathEvents, api.EventFilter{Kind: "session.played", Limit: 100})
	if err != nil || len(events.Events) != 4 || events.Events[0].Detail["session"] != s.ID || !events.Events[0].Security {
		t.Errorf("%+v, %v", events, err)
	}
}

// TestRecordingRefusals: who may not open shells plays none, and a tenant none of another's.
func TestRecordingRefusals(t *testing.T) {
	h := newHouse(t)
	h.sessionNode("n")
	shells := h.account("shells", "", api.ScopePart(api.ScopeSessions, wire.OpenerShell))
	programs := h.account("programs", "", api.ScopePart(api.ScopeSessions, wire.OpenerExec))
	other := h.account("other", "other", api.ScopeSessions)
	made, err := h.api.Sessions.Open(t.Context(), session.Caller{Account: "msa_other"}, session.Ask{Node: "n", Type: wire.SessionShell})
	if err != nil {
		t.Fatal(err)
	}
	shelf, err := recording.Open(recording.Config{Folder: t.TempDir(), Key: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	h.api.Recordings = shelf
	tape, err := shelf.Begin(recording.Meta{ID: made.ID, At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	defer tape.End(time.Now(), "")
	at := "sessions/" + made.ID
	for _, c := range []struct{ who, path, code string }{
		{programs, at + "/recording", wire.CodeForbidden}, {programs, at, wire.CodeForbidden}, {other, at + "/recording", wire.CodeNotFound},
		{other, at, wire.CodeNotFound}, {shells, "sessions/x/recording", wire.CodeBadRequest},
		{shells, at + "/recording?x=1", wire.CodeBadRequest},
	} {
		status, body := h.ask("GET", c.path, c.who, "")
		var refused wire.Error
		if err := json.Unmarshal(body, &refused); err != nil || refused.Error.Code != c.code {
			t.Errorf("%s: got %d %.200s, want %s", c.path, status, body, c.code)
		}
	}
	if status, body := h.ask("GET", at+"/recording", shells, ""); status != 200 || !bytes.Contains(body, []byte(`"version":2`)) {
		t.Errorf("got %d %s", status, body)
	}
}
