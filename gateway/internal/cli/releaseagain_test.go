package cli_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"muster/gateway/api"
)

// TestReleaseOrders: the release that a channel has already can be ordered anew, as status and help say if it failed or its pointer
// ends; and a rollout is ended also if the channel has nothing to go back to.
func TestReleaseOrders(t *testing.T) {
	h := newHouse(t)
	now := api.Channel{Channel: "stable", Digest: digestOf("4"), Version: "0.4.0", Sequence: 3, State: "halted", Wave: 1, Waves: 2}
	asked := map[string]int{}
	mux := http.NewServeMux()
	answer := func(pattern string, body any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			asked[pattern]++
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(body)
		})
	}
	const base = "/api/v1/admin/"
	answer("GET "+base+"node-agent-releases/0.4.0", sampleReleases(h.now)[0])
	answer("GET "+base+"channels/stable", now)
	answer("PATCH "+base+"channels/stable", now)
	answer("POST "+base+"channels/stable/abort", now)
	h.dir = listen(t, mux)
	h.done("release", "promote", "0.4.0", "--yes")
	h.done("release", "abort", "--yes")
	if asked["PATCH "+base+"channels/stable"] != 1 || asked["POST "+base+"channels/stable/abort"] != 1 {
		t.Errorf("asked: %v", asked)
	}
	before := now
	before.Channel = "beta"
	before.Previous = digestOf("3")
	answer("GET "+base+"channels/beta", before)
	answer("GET "+base+"node-agent-releases/"+digestOf("3"), sampleReleases(h.now)[1])
	h.interactive = true
	h.stdin = "n\n"
	for args, says := range map[string]string{
		"release promote 0.4.0": "order anew on the channel stable 0.4.0",
		"release abort":         "The nodes that have it keep it.",
		"release abort --channel beta": "the nodes that have it 0.3.0 (sha256:333333333333): 0 nodes; now it has 0.4.0. They get it at once. " +
			"Maintenance windows do not",
	} {
		if _, _, stderr := h.muster(strings.Fields(args)...); !strings.Contains(stderr, says) {
			t.Errorf("%s asks: %s", args, stderr)
		}
	}
	if code, _, _ := h.muster("release", "rollback", "--yes"); code == 0 {
		t.Error("a channel with nothing to go back to went back")
	}
	ended := before
	ended.Channel = "edge"
	ended.State = "done"
	answer("GET "+base+"channels/edge", ended)
	answer("PATCH "+base+"channels/edge", ended)
	if code, _, stderr := h.muster("release", "abort", "--channel", "edge"); code != 1 || strings.Contains(stderr, "[y/N]") ||
		!strings.Contains(stderr, "is done: there is nothing to end") || !strings.Contains(stderr, "muster release rollback --channel edge") {
		t.Errorf("a rollout that is done: code %d\n%s", code, stderr)
	}
	if out := h.done("release", "promote", "0.4.0", "--channel", "edge", "--yes"); !strings.Contains(out, "muster node label NODE channel=edge") {
		t.Errorf("a channel without nodes: %s", out)
	}
}

// TestSoak: what --soak says is sent, also that a wave need not wait.
func TestSoak(t *testing.T) {
	h := newHouse(t)
	var got api.Promotion
	mux := http.NewServeMux()
	const base = "/api/v1/admin/"
	mux.HandleFunc("GET "+base+"node-agent-releases/0.4.0", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(sampleReleases(h.now)[0])
	})
	mux.HandleFunc(base+"channels/stable", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPatch {
			got = api.Promotion{}
			_ = json.NewDecoder(r.Body).Decode(&got)
		}
		_ = json.NewEncoder(w).Encode(api.Channel{Channel: "stable", Digest: digestOf("4"), Version: "0.4.0", Sequence: 3})
	})
	h.dir = listen(t, mux)
	for args, want := range map[string]string{"": "", " --soak 0": `"soak_seconds":0`, " --soak 0s": `"soak_seconds":0`,
		" --soak 30m": `"soak_seconds":1800`} {
		h.done(strings.Fields("release promote 0.4.0 --yes" + args)...)
		if wave := string(got.Wave); (wave == "") != (want == "") || !strings.Contains(wave, want) {
			t.Errorf("%q sends the wave %q", args, wave)
		}
	}
}
