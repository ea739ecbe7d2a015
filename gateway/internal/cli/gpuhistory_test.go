package cli_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"muster/gateway/api"
	"muster/store"
	slots "muster/store/placement"
)

// used puts a use of a node's GPU into the database, from and until so long ago.
func (h *house) used(node, user, program string, from, until time.Duration, memory *int64) {
	h.t.Helper()
	u := slots.Use{UseKey: slots.UseKey{NodeID: node, GPU: "GPU-0", User: user, Program: program}, Since: h.now.Add(-from),
		Until: h.now.Add(-until), MemoryMiB: memory}
	if user == "ada" {
		u.Container, u.Allocation, u.Owner = "3f1c2a90beef", "7f2kq3xw5dhz6m4a", "ada@example.org"
	}
	if err := slots.New(h.store.Records()).SaveUses(h.t.Context(), []slots.Use{u}, nil); err != nil {
		h.t.Fatal(err)
	}
}

// TestGPUHistory: who has worked on the GPUs of a node, the newest first, as a table and as JSON. What is not known is -.
func TestGPUHistory(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "box", Tenant: "x"}, 0, h.devices(device(0, 0, 0)))
	node := strings.TrimSpace(h.done("node", "show", "box", "-o", "json"))
	var shown struct{ ID string }
	if err := json.Unmarshal([]byte(node), &shown); err != nil {
		t.Fatal(err)
	}
	h.done("gpu", "ls") // the picture is read
	h.used(shown.ID, "ada", "python3", 26*time.Hour, 2*time.Hour, new(int64(71680)))
	h.used(shown.ID, "", "a\x1b[2Jb", 49*time.Hour, 48*time.Hour, nil)
	const want = `GPU  USER  PROGRAM    CONTAINER     FROM    UNTIL   MEMORY    ALLOCATION        OWNER
0    ada   python3    3f1c2a90beef  1d ago  2h ago  70.0 GiB  7f2kq3xw5dhz6m4a  ada@example.org
0    -     a\x1b[2Jb  -             2d ago  2d ago  -         -                 -
2 uses
`
	if got := h.done("gpu", "history", "box"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	for args, want := range map[string]string{
		"gpu history box --since 3h":   "\n1 use\n",
		"gpu history box --limit 1":    "\n1 use; there are 2: --limit N shows more\n",
		"gpu history box --since 1h":   "\n0 uses\n",
		"gpu history box -o wide":      "UUID",
		"gpu history box --limit 2000": "",
		"gpu history":                  "",
		"gpu history nobody":           "",
	} {
		code, out, errs := h.muster(strings.Fields(args)...)
		if (code == 0) != (want != "") || !strings.Contains(out, want) {
			t.Errorf("%s: code %d, %s%s", args, code, out, errs)
		}
	}
	var list api.GPUUseList
	if err := json.Unmarshal([]byte(h.done("gpu", "history", "box", "-o", "json")), &list); err != nil || list.Total != 2 ||
		list.Uses[0].Owner != "ada@example.org" || *list.Uses[0].Index != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, h.screen = range []int{40, 80, 100} {
		for line := range strings.Lines(h.done("gpu", "history", "box")) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > h.screen {
				t.Errorf("%s has %d columns of %d", fmt.Sprintf("%q", line), n, h.screen)
			}
		}
	}
}
