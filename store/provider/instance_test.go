package provider_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/store"
	"muster/store/engine"
	"muster/store/provider"
)

// listed are the instances of an account that are not gone.
func listed(t testing.TB, r provider.Records, account string) (all []provider.Instance) {
	t.Helper()
	for i, err := range r.Instances(t.Context(), account) {
		must(t, err)
		all = append(all, i)
	}
	return all
}

// shown are the instances of account a that are not gone: id, tenant, state, running price, body, when they were seen, and missing views.
func shown(t testing.TB, r provider.Records) string {
	t.Helper()
	list := listed(t, r, "a")
	var text []string
	for _, i := range list {
		price := "?"
		if i.Running != nil {
			price = fmt.Sprint(*i.Running)
		}
		text = append(text, fmt.Sprintf("%s %s %s %s %s %v-%v %d", i.ID, i.Tenant, i.State, price, i.Body, i.FirstAt.Sub(start),
			i.SeenAt.Sub(start), i.Missing))
	}
	return strings.Join(text, "; ")
}

func viewAt(t testing.TB, r provider.Records, d time.Duration, all ...provider.Instance) string {
	t.Helper()
	missing, err := r.SaveView(t.Context(), "a", after(d), all)
	must(t, err)
	return strings.Join(missing, " ")
}

// TestSaveView: views follow each other; what is missing is not gone before the company has said so of it.
func TestSaveView(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "a", "b")
	view(t, r, "b", instance("1", "running", 1))
	one, two := instance("1", "running", 10), instance("2", "running", 20)
	wantSame(t, "missing of the first", viewAt(t, r, time.Minute, one, two), "")
	wantSame(t, "the first", shown(t, r), `1 platform running 10 {"ID":"1"} 1m0s-1m0s 0; 2 platform running 20 {"ID":"2"} 1m0s-1m0s 0`)

	two.State, two.Running, two.Body = "stopped", nil, "{}"
	wantSame(t, "missing of the second", viewAt(t, r, 2*time.Minute, two), "")
	wantSame(t, "the second", shown(t, r), `1 platform running 10 {"ID":"1"} 1m0s-1m0s 1; 2 platform stopped ? {} 1m0s-2m0s 0`)
	wantError(t, "gone after one view", r.Gone(t.Context(), "a", "1", start), store.ErrConflict)

	wantSame(t, "missing of the third", viewAt(t, r, 3*time.Minute, two), "1")
	wantSame(t, "the third", shown(t, r), `1 platform running 10 {"ID":"1"} 1m0s-1m0s 2; 2 platform stopped ? {} 1m0s-3m0s 0`)
	wantError(t, "gone of another", r.Gone(t.Context(), "a", "2", start), store.ErrConflict)
	wantError(t, "gone of none", r.Gone(t.Context(), "a", "3", start), store.ErrConflict)
	wantError(t, "gone of another account", r.Gone(t.Context(), "b", "1", start), store.ErrConflict)

	must(t, r.Gone(t.Context(), "a", "1", after(4*time.Minute), store.Event{At: start, Kind: "provider.finding"}))
	gone, err := r.WhenGone(t.Context(), "vast_ai", []string{"1", "2", "9"})
	if at := gone["1"].GoneAt; err != nil || len(gone) != 1 || gone["1"].Account != "a" || at == nil || !at.Equal(after(4*time.Minute)) {
		t.Errorf("when it was gone: %+v, %v", gone, err)
	}
	if gone, err := r.WhenGone(t.Context(), "runpod", []string{"1"}); err != nil || len(gone) != 0 {
		t.Errorf("gone at another company: %+v, %v", gone, err)
	}
	wantError(t, "gone again", r.Gone(t.Context(), "a", "1", start), store.ErrConflict)
	wantSame(t, "missing after that", viewAt(t, r, 5*time.Minute, two), "")
	wantSame(t, "after that", shown(t, r), `2 platform stopped ? {} 1m0s-5m0s 0`)

	wantSame(t, "missing when it is back", viewAt(t, r, 6*time.Minute, one), "")
	wantSame(t, "when it is back", shown(t, r), `1 platform running 10 {"ID":"1"} 1m0s-6m0s 0; 2 platform stopped ? {} 1m0s-5m0s 1`)
	wantSame(t, "missing of an empty view", viewAt(t, r, 7*time.Minute), "2")
	wantSame(t, "missing when the other is back", viewAt(t, r, 8*time.Minute, two), "1")
	wantSame(t, "at the end", shown(t, r), `1 platform running 10 {"ID":"1"} 1m0s-6m0s 2; 2 platform stopped ? {} 1m0s-8m0s 0`)
}

// TestDropGone: only what is gone for long goes.
func TestDropGone(t *testing.T) {
	t.Parallel()
	r, s := open(t, "a")
	var all []provider.Instance
	for i := range 5 {
		all = append(all, instance(fmt.Sprint(i), "running", 1))
	}
	viewAt(t, r, 0, all...)
	viewAt(t, r, 1)
	viewAt(t, r, 2)
	for i := range 4 {
		must(t, r.Gone(t.Context(), "a", fmt.Sprint(i), after(time.Duration(i)*time.Hour)))
	}
	for _, want := range []int{2, 1, 0} {
		if n, err := r.DropGone(t.Context(), after(3*time.Hour), 2); err != nil || n != want {
			t.Errorf("%d went, %v: want %d", n, err, want)
		}
	}
	rows, err := s.Records().Query(t.Context(), engine.Do("SELECT json_group_array(id) FROM provider_instances"))
	must(t, err)
	wantSame(t, "left", rows, `[[["3","4"]]]`)
}

// counting is an engine that counts the bytes of the JSON lists that it is given to write, and the batches.
type counting struct {
	store.Engine
	batches, longest, bytes int
	before                  func()
}

func (c *counting) Batch(ctx context.Context, statements []engine.Statement) ([]engine.Result, error) {
	if c.before != nil {
		c.before()
	}
	c.batches++
	for _, st := range statements {
		for _, arg := range st.Args {
			if text, ok := arg.(string); ok {
				c.bytes += len(text)
				c.longest = max(c.longest, len(text))
			}
		}
	}
	return c.Engine.Batch(ctx, statements)
}

// large is a view of a large account, whose instances have long bodies.
func large() []provider.Instance {
	var all []provider.Instance
	for i := range 5000 {
		one := instance(fmt.Sprint(10_000_000+i), "running", 1_990_000)
		one.Body = `{"ID":"` + one.ID + `","Why":"` + strings.Repeat("x", 600) + `"}`
		all = append(all, one)
	}
	return all
}

// TestLargeView: it is written in pieces, and of the next one only what has changed.
func TestLargeView(t *testing.T) {
	t.Parallel()
	_, s := open(t, "a")
	c := &counting{Engine: s.Records().Engine}
	r := provider.New(store.Records{Engine: c})
	all := large()
	viewAt(t, r, time.Minute, all...)
	if c.batches != 10 || c.longest > 500*1000 {
		t.Errorf("the first view: %d batches, of %d bytes at most", c.batches, c.longest)
	}
	list := listed(t, r, "a")
	wantSame(t, "instances", len(list), 5000)

	*c = counting{Engine: c.Engine}
	viewAt(t, r, 2*time.Minute, all...)
	if c.batches != 1 || c.bytes > 1000 {
		t.Errorf("the same again: %d batches, %d bytes", c.batches, c.bytes)
	}
	*c = counting{Engine: c.Engine}
	all[7].State = "stopped"
	viewAt(t, r, 3*time.Minute, all[:4999]...)
	if c.batches != 1 || c.bytes > 2000 {
		t.Errorf("with two changes: %d batches, %d bytes", c.batches, c.bytes)
	}
	list = listed(t, r, "a")
	wantSame(t, "the changes", []any{list[7].State, list[4999].Missing, list[4998].Missing}, []any{"stopped", 1, 0})
}

// TestViewsMeet: of two views of an account at once, one is stored.
func TestViewsMeet(t *testing.T) {
	t.Parallel()
	r, s := open(t, "a")
	c := &counting{Engine: s.Records().Engine}
	c.before = func() {
		c.before = nil
		viewAt(t, r, 2*time.Minute, instance("1", "running", 1))
	}
	missing, err := provider.New(store.Records{Engine: c}).SaveView(t.Context(), "a", after(time.Minute), nil)
	wantError(t, "the slower one", err, store.ErrConflict)
	wantSame(t, "missing", missing, "[]")
	wantSame(t, "stored", shown(t, r), `1 platform running 1 {"ID":"1"} 2m0s-2m0s 0`)

	c.before = func() {
		c.before = nil
		must(t, r.RemoveAccount(t.Context(), "a"))
	}
	_, err = provider.New(store.Records{Engine: c}).SaveView(t.Context(), "a", after(time.Minute), large())
	wantError(t, "of an account that goes", err, store.ErrNotFound)
}

// BenchmarkSaveView is a view of 5,000 instances, in which nothing has changed.
func BenchmarkSaveView(b *testing.B) {
	r, _ := open(b, "a")
	all := large()
	for i := 0; b.Loop(); i++ {
		viewAt(b, r, time.Duration(i)*time.Minute, all...)
	}
}

// BenchmarkFirstView is one in which all of them are new.
func BenchmarkFirstView(b *testing.B) {
	r, _ := open(b)
	all := large()
	for i := 0; b.Loop(); i++ {
		name := fmt.Sprint("a", i)
		must(b, r.AddAccount(b.Context(), account(name)))
		view(b, r, name, all...)
	}
}
