package account

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"muster/agent/internal/child"
)

// TestCutOff: wherever a run ends, the next one completes it.
func TestCutOff(t *testing.T) {
	whole := newBox(t)
	whole.made(ada(nil))
	want := lasting(whole)
	steps := 0
	for n := 1; ; n++ {
		b := newBox(t)
		if !b.cutAt(n, func() { _, _ = b.provision(ada(nil)) }) {
			break
		}
		steps++
		b.made(ada(nil))
		if got := lasting(b); !slices.Equal(got, want) {
			t.Errorf("cut off at step %d: %q, not %q", n, only(got, want), only(want, got))
		}
		if done := b.made(ada(nil)); done.Changed {
			t.Errorf("cut off at step %d: the third run changes something: %q", n, b.calls)
		}
	}
	if steps < 12 {
		t.Errorf("only %d steps", steps)
	}
	for _, where := range []string{"useradd passwd", "useradd tables", "useradd home"} {
		b := newBox(t)
		b.cut = where
		if !b.cutAt(1000, func() { _, _ = b.provision(ada(nil)) }) {
			t.Fatalf("not cut off at %s", where)
		}
		b.made(ada(nil))
		if got := lasting(b); len(got) != len(want) || !strings.Contains(strings.Join(got, "\n"), "ada:*:") {
			t.Errorf("cut off at %s:\n%s", where, strings.Join(got, "\n"))
		}
		if done := b.made(ada(nil)); done.Changed {
			t.Errorf("cut off at %s: the third run changes something: %q", where, b.calls)
		}
	}
}

// cutAt ends a run before its nth step. It tells whether there was one.
func (b *box) cutAt(n int, run func()) (cut bool) {
	defer func() {
		if reason := recover(); reason != nil {
			if _, ours := reason.(crash); !ours {
				panic(reason)
			}
			cut = true
		}
		b.accounts = b.agent()
	}()
	b.accounts.step = func(string) {
		n--
		if n == 0 {
			panic(crash{})
		}
	}
	if os.Geteuid() == 0 {
		b.accounts.become = becomeAndCrash
	}
	run()
	return false
}

// becomeAndCrash brings a panic back from the goroutine that has the user's rights.
func becomeAndCrash(uid, gid int, work func() error) error {
	var reason any
	err := child.As(uid, gid, nil, func() error {
		defer func() { reason = recover() }()
		return work()
	})
	if reason != nil {
		panic(reason)
	}
	return err
}

// lasting is what of a box does not depend on chance. A half-made account gets another UID, so numbers are not in it.
func lasting(b *box) []string {
	var all []string
	for name, text := range b.tree() {
		switch {
		case strings.HasPrefix(name, "/state"), name == "/etc/passwd", name == "/proc":
			continue
		case strings.HasPrefix(name, "/home"):
			mode, _, _ := strings.Cut(text, " ")
			_, rest, _ := strings.Cut(text, "\n")
			text = mode + rest
		}
		all = append(all, name+": "+text)
	}
	for _, e := range parsePasswd([]byte(b.read("etc/passwd"))) {
		all = append(all, fmt.Sprint("passwd ", e.name, " ", e.home, " ", e.shell, " ", e.uid))
	}
	r, err := b.accounts.load()
	b.check(err)
	for _, one := range r.Accounts {
		one.Mark = ""
		all = append(all, fmt.Sprintf("record %+v", one))
	}
	slices.Sort(all)
	return all
}

// only is what the first list has and the second has not.
func only(one, other []string) []string {
	return slices.DeleteFunc(slices.Clone(one), func(text string) bool { return slices.Contains(other, text) })
}
