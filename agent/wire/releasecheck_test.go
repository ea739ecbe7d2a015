package wire_test

import (
	"strings"
	"testing"

	"muster/agent/wire"
)

func TestIsDigest(t *testing.T) {
	good := "sha256:" + strings.Repeat("0a", 32)
	for text, want := range map[string]bool{
		good: true, "": false, "sha256:": false, good + "0": false, good[:len(good)-1]: false, strings.ToUpper(good): false,
		"sha512:" + strings.Repeat("0a", 32): false, "sha256:" + strings.Repeat("0g", 32): false, good[len("sha256:"):]: false,
	} {
		if got := wire.IsDigest(text); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestCheckChannel(t *testing.T) {
	for name, want := range map[string]bool{
		"stable": true, "a": true, "canary-2.x_y": true, "": false, "-a": false, "a/b": false, "a b": false,
		strings.Repeat("a", wire.MaxChannel): true, strings.Repeat("a", wire.MaxChannel+1): false,
	} {
		if got := wire.CheckChannel(name) == nil; got != want {
			t.Errorf("%q: got %v", name, got)
		}
	}
}

// TestCheckUpdate: what an agent says of its updates is bounded. Every phase and code of this version passes, and those of a newer one.
func TestCheckUpdate(t *testing.T) {
	full := func(change func(*wire.Update)) *wire.Update {
		u := &wire.Update{Channel: "stable", Sequence: 3, Release: "sha256:" + strings.Repeat("ab", 32), About: 4, Phase: wire.UpdateTrial,
			Code: wire.UpdateCrashed, Detail: strings.Repeat("d", wire.MaxUpdateDetail), Log: strings.Repeat("l", wire.MaxUpdateLog)}
		change(u)
		return u
	}
	for what, change := range map[string]func(*wire.Update){
		"as usual": func(*wire.Update) {}, "nothing": func(u *wire.Update) { *u = wire.Update{} },
		"a newer phase": func(u *wire.Update) { u.Phase = "phase_of_2027" },
	} {
		if err := wire.CheckUpdate(full(change)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, change := range map[string]func(*wire.Update){
		"channel": func(u *wire.Update) { u.Channel = "a b" }, "seq": func(u *wire.Update) { u.Sequence = -1 },
		"about": func(u *wire.Update) { u.About = -1 }, "release": func(u *wire.Update) { u.Release = "latest" },
		"phase":  func(u *wire.Update) { u.Phase = "a\x1b[31m" },
		"code":   func(u *wire.Update) { u.Code = strings.Repeat("c", wire.MaxUpdateWord+1) },
		"detail": func(u *wire.Update) { u.Detail += "d" }, "log": func(u *wire.Update) { u.Log += "l" },
	} {
		if wire.CheckUpdate(full(change)) == nil {
			t.Errorf("a bad %s passes", what)
		}
	}
	for _, phase := range wire.UpdatePhases() {
		for _, code := range wire.UpdateCodes() {
			if err := wire.CheckUpdate(&wire.Update{Phase: phase, Code: code}); err != nil {
				t.Errorf("%s, %s: %v", phase, code, err)
			}
		}
	}
}
