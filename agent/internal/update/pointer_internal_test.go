package update

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/task"
	"muster/agent/sign"
	"muster/agent/wire"
)

func asked(f *fleet) asks {
	r := Record{Floors: map[string]int64{"stable": 7, "edge": 99}, Failed: []Failure{
		{Channel: "stable", Digest: failedBefore, Sequence: 8}, {Channel: "edge", Digest: digestPrefix + hexOf([]byte("index")), Sequence: 8},
	}}
	return asks{state: f.state(), channel: "stable", now: time.Now(), record: &r}
}

// failedBefore is a release that has failed on the node under number 8.
const failedBefore = digestPrefix + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestPointer: each thing that is wrong with a pointer has its code.
func TestPointer(t *testing.T) {
	f := newFleet(t)
	ours := func(change func(*wire.ReleasePlatform)) func(*wire.ReleasePointer) {
		return func(p *wire.ReleasePointer) { change(&p.Platforms[1]) }
	}
	for name, c := range map[string]struct {
		change func(*wire.ReleasePointer)
		code   string
	}{
		"good":                     {func(*wire.ReleasePointer) {}, ""},
		"a higher number":          {func(p *wire.ReleasePointer) { p.Sequence = 1 << 40 }, ""},
		"another channel":          {func(p *wire.ReleasePointer) { p.Channel = "edge"; p.Sequence = 100 }, wire.UpdateUnsigned},
		"no channel":               {func(p *wire.ReleasePointer) { p.Channel = "" }, wire.UpdateUnsigned},
		"an older release":         {func(p *wire.ReleasePointer) { p.Sequence = 6 }, wire.UpdateOlder},
		"a negative number":        {func(p *wire.ReleasePointer) { p.Sequence = -1 }, wire.UpdateOlder},
		"no digest":                {func(p *wire.ReleasePointer) { p.Digest = "" }, wire.UpdateUnsigned},
		"a climbing digest":        {func(p *wire.ReleasePointer) { p.Digest = "sha256:../../x" }, wire.UpdateUnsigned},
		"too early":                {func(p *wire.ReleasePointer) { p.NotBefore = time.Now().Add(time.Minute) }, wire.UpdateNotNow},
		"expired":                  {func(p *wire.ReleasePointer) { p.Expires = time.Now().Add(-time.Second) }, wire.UpdateNotNow},
		"without dates":            {func(p *wire.ReleasePointer) { p.Expires = time.Time{} }, wire.UpdateNotNow},
		"for other platforms":      {func(p *wire.ReleasePointer) { p.Platforms = p.Platforms[:1] }, wire.UpdateNoPlatform},
		"for none":                 {func(p *wire.ReleasePointer) { p.Platforms = nil }, wire.UpdateNoPlatform},
		"failed before":            {func(p *wire.ReleasePointer) { p.Digest = failedBefore }, wire.UpdateTaken},
		"failed under that number": {func(p *wire.ReleasePointer) { p.Digest = failedBefore; p.Sequence = 8 }, wire.UpdateTaken},
		"failed, ordered again":    {func(p *wire.ReleasePointer) { p.Digest = failedBefore; p.Sequence = 9 }, ""},
		"a climbing layer":         {ours(func(p *wire.ReleasePlatform) { p.Digest = "sha256:../x" }), wire.UpdateUnsigned},
		"a layer in capitals":      {ours(func(p *wire.ReleasePlatform) { p.Digest = strings.ToUpper(p.Digest) }), wire.UpdateUnsigned},
		"no program":               {ours(func(p *wire.ReleasePlatform) { p.Program = "" }), wire.UpdateUnsigned},
		"an empty layer":           {ours(func(p *wire.ReleasePlatform) { p.Size = 0 }), wire.UpdateBadContent},
		"a huge layer":             {ours(func(p *wire.ReleasePlatform) { p.Size = wire.MaxLayer + 1 }), wire.UpdateBadContent},
		"a huge program":           {ours(func(p *wire.ReleasePlatform) { p.ProgramSize = wire.MaxProgram + 1 }), wire.UpdateBadContent},
		"another kind of layer":    {ours(func(p *wire.ReleasePlatform) { p.MediaType = "text/html" }), wire.UpdateBadContent},
		"two sizes of one file":    {ours(func(p *wire.ReleasePlatform) { p.ProgramSize++ }), wire.UpdateBadContent},
		"an archive":               {ours(func(p *wire.ReleasePlatform) { p.MediaType = wire.MediaTarGzip; p.ProgramSize++ }), ""},
	} {
		w, err := asked(f).check(f.release([]byte(program), c.change).Pointer)
		if got := codeOf(err, "none"); (c.code == "") != (err == nil) || c.code != "" && got != c.code {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err == nil && (w.program != hexOf([]byte(program)) || w.layer == "") {
			t.Errorf("%s: %+v", name, w)
		}
	}
}

// TestPointerInTime: a pointer counts from its first moment on, and not in its last.
func TestPointerInTime(t *testing.T) {
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	p := wire.ReleasePointer{NotBefore: at, Expires: at.Add(time.Hour)}
	for now, counts := range map[time.Time]bool{at.Add(-1): false, at: true, p.Expires.Add(-1): true, p.Expires: false} {
		if err := (asks{now: now}).inTime(p); (err == nil) != counts {
			t.Errorf("at %s: %v", now.Format(time.RFC3339Nano), err)
		}
	}
}

// TestPointerKeys: only a release key that the pinned set names counts, and only for releases.
func TestPointerKeys(t *testing.T) {
	f := newFleet(t)
	p := f.pointer([]byte(program))
	payload, _ := json.Marshal(p)
	envelope := func(change func(*sign.Envelope)) json.RawMessage {
		e := sign.Seal(f.key, sign.RoleRelease, payload)
		change(&e)
		raw, _ := json.Marshal(e)
		return raw
	}
	for name, c := range map[string]struct {
		pointer json.RawMessage
		unknown bool
	}{
		"an unknown key":      {f.seal(f.unknown, sign.RoleRelease, p), true},
		"a key of the trust":  {f.seal(f.trust, sign.RoleRelease, p), true},
		"signed as a task":    {f.seal(f.key, sign.RoleTask, p), true},
		"renamed":             {json.RawMessage(bytes.Replace(f.seal(f.key, sign.RoleTask, p), []byte(`"task"`), []byte(`"release"`), 1)), true},
		"changed":             {envelope(func(e *sign.Envelope) { e.Payload = bytes.Replace(e.Payload, []byte(`:7`), []byte(`:9`), 1) }), true},
		"no signature":        {envelope(func(e *sign.Envelope) { e.Signature = nil }), true},
		"nothing":             {nil, true},
		"a page":              {json.RawMessage(`"<html>"`), true},
		"signed, and no JSON": {f.seal(f.key, sign.RoleRelease, "x"), false},
		"with another field":  {f.seal(f.key, sign.RoleRelease, map[string]any{"channel": "stable", "Seq": 9}), false},
	} {
		_, err := asked(f).check(c.pointer)
		if codeOf(err, "none") != wire.UpdateUnsigned || errors.Is(err, identity.ErrUnknownKey) != c.unknown {
			t.Errorf("%s: %v", name, err)
		}
	}
	a := asked(f)
	a.state = f.state(f.other) // the key was struck since
	if _, err := a.check(f.release([]byte(program), nil).Pointer); !errors.Is(err, identity.ErrUnknownKey) {
		t.Errorf("a struck key: %v", err)
	}
	a.state.Gateway.Trust = nil
	if _, err := a.check(f.release([]byte(program), nil).Pointer); !errors.Is(err, identity.ErrUnknownKey) {
		t.Errorf("no set: %v", err)
	}
}

func TestPointerPolicy(t *testing.T) {
	f := newFleet(t)
	for text, want := range map[string]string{
		`{"release_keys":["` + encode(f.key) + `"]}`:   "",
		`{"release_keys":["` + encode(f.other) + `"]}`: wire.UpdateForbidden,
		`{"operator_keys":{"*":[]}}`:                   wire.UpdateForbidden,
		`{`:                                            wire.UpdateForbidden,
	} {
		a := asked(f)
		path := filepath.Join(t.TempDir(), task.PolicyFile)
		os.Chmod(filepath.Dir(path), 0o700)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a.policies = []string{path}
		if _, err := a.check(f.release([]byte(program), nil).Pointer); codeOf(err, "") != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzPointer(f *testing.F) {
	fleet := newFleet(f)
	f.Add([]byte(fleet.release([]byte(program), nil).Pointer))
	f.Add([]byte(`{"role":"release","payload":"e30=","signature":""}`))
	a := asked(fleet)
	f.Fuzz(func(t *testing.T, raw []byte) {
		w, err := a.check(raw)
		if err == nil && w.program != hexOf([]byte(program)) {
			t.Errorf("%q is taken", raw)
		}
	})
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"node":"n1","floors":{"stable":7},"last":{"phase":"trial","to":"../x","trial":{"at":-1}},"failed":[{}]}`))
	f.Add([]byte(`{"last":{"phase":7}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := decode(RecordFile, raw)
		if err != nil {
			return
		}
		for _, build := range []string{r.Last.From, r.Last.To} {
			if strings.Contains(build, "/") {
				t.Errorf("a build %q", build)
			}
		}
		if l := r.Last.Trial; l != nil && (l.window() < 0 || l.left(systemClock) > wire.TrialTime) {
			t.Errorf("%+v", l)
		}
		if len(r.Last.Log) > wire.MaxUpdateLog || r.floor("stable") < 0 {
			t.Errorf("%+v", r)
		}
		raised := r.floor("stable") + 1
		if raised > 0 && (!r.raise("stable", raised) || r.floor("stable") != raised || r.raise("stable", raised)) {
			t.Errorf("the floor is %d", r.floor("stable"))
		}
		r.fail("stable", "x", 1)
		if len(r.Failed) > maxFailures || r.failedAt("stable", "x") != 1 {
			t.Errorf("%d failures", len(r.Failed))
		}
	})
}
