package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/client"
	"muster/gateway/internal/kit/cloudsim/guest"
)

// rented is a house with one rented node of 8 GPUs, whose stand-in for nvidia-smi reads its values from a file (see guest.NvidiaSMI).
type rented struct {
	*house
	control string
	node    *process          // the agent
	env     map[string]string // of the commands; nil: they are the operator's
}

func newRented(t *testing.T, args ...string) *rented {
	t.Helper()
	l := &rented{house: newHouse(t, args...), control: filepath.Join(t.TempDir(), "control")}
	l.set("")
	if err := os.WriteFile(l.nvidiaSMI(), []byte(guest.NvidiaSMI), 0o755); err != nil {
		t.Fatal(err)
	}
	l.join(l.token())
	l.until("the node proposes its slots", func() bool { return l.states()[api.SlotProposed] == 9 })
	return l
}

func (l *rented) nvidiaSMI() string { return filepath.Join(filepath.Dir(l.control), "nvidia-smi") }

// join starts the agent, or starts it again, without a token.
func (l *rented) join(token string) {
	l.t.Helper()
	l.node = l.agent("gpu-1", token, "--provider", "vast_ai", "--instance-id", "39467543", "--nvidia-smi", l.nvidiaSMI(),
		"--interval", "2s") // on a busy machine a node that has to report more often is soon stale, and gets no claims
}

// set says what nvidia-smi says from now on. The file appears whole.
func (l *rented) set(values string) {
	l.t.Helper()
	next := l.control + ".next"
	if err := os.WriteFile(next, []byte(values+"\n"), 0o600); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Rename(next, l.control); err != nil {
		l.t.Fatal(err)
	}
}

// muster runs a command; a failure ends the test.
func (l *rented) muster(args ...string) string {
	l.t.Helper()
	code, out, errs := l.try(args...)
	if code != 0 {
		l.t.Fatalf("muster %s: exit %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

func (l *rented) try(args ...string) (code int, stdout, stderr string) {
	if l.env == nil {
		return l.house.try(args...)
	}
	var out, errs bytes.Buffer
	code = run(l.t.Context(), args, func(name string) string { return l.env[name] }, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// slots lists slots.
func (l *rented) slots() []api.Slot {
	l.t.Helper()
	return answerOf[api.SlotList](l, "slot", "ls", "-o", "json").Slots
}

// states counts the slots by their states.
func (l *rented) states() map[string]int {
	l.t.Helper()
	counts := map[string]int{}
	for _, one := range l.slots() {
		counts[one.State]++
	}
	return counts
}

// answerOf is what a command answers in JSON.
func answerOf[T any](l *rented, args ...string) (out T) {
	l.t.Helper()
	text := l.muster(args...)
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		l.t.Fatalf("muster %s: %v in %s", strings.Join(args, " "), err, text)
	}
	return out
}

func (l *rented) approve() {
	l.t.Helper()
	l.muster("slot", "approve", "-l", "provider=vast_ai", "--yes")
}

// create allocates GPUs.
func (l *rented) create(args ...string) api.Allocation {
	l.t.Helper()
	return answerOf[api.Allocation](l, append([]string{"alloc", "create", "--gpu", "h100", "-o", "json"}, args...)...)
}

// post asks for an allocation with an id of the caller's own.
func (l *rented) post(ask api.NewAllocation) api.Allocation {
	l.t.Helper()
	return posted[api.Allocation](l, api.PathAllocations, ask)
}

// posted is what the gateway answers to a request.
func posted[T any](l *rented, path string, ask any) T {
	l.t.Helper()
	c, err := client.Dial(l.t.Context(), client.Target{DataDir: l.data})
	if err != nil {
		l.t.Fatal(err)
	}
	answer, err := client.Send[T](l.t.Context(), c, "POST", path, ask)
	if err != nil {
		l.t.Fatal(err)
	}
	return answer
}

func (l *rented) show(id string) api.Allocation {
	l.t.Helper()
	return answerOf[api.Allocation](l, "alloc", "show", id, "-o", "json")
}

// refused checks that a command is refused, with a word of the reason.
func (l *rented) refused(word string, args ...string) {
	l.t.Helper()
	if code, out, errs := l.try(args...); code == 0 || !strings.Contains(errs, word) {
		l.t.Errorf("muster %s: exit %d, and no %q in\n%s%s", strings.Join(args, " "), code, word, out, errs)
	}
}

// clean waits until an allocation is released and its GPUs are free.
func (l *rented) clean(id string) {
	l.t.Helper()
	l.until("the GPUs are clean", func() bool { return l.show(id).State == api.AllocationReleased })
	l.until("the slots can be taken again", func() bool { return l.states()[api.SlotApproved] == 9 }) // they are read again just after that
}
