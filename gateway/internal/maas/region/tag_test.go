package region_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas/region"
)

// Test22Tags: the counts are of ids that MAAS has, tagged or not. A tag that is there is not made twice, and strangers to MAAS's admins
// make none. What is added to a tag with a definition does not last.
func Test22Tags(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	ctx, one, two := t.Context(), l.ready(), l.ready()
	made, err := l.client.CreateTag(ctx, "muster-gpu", "set by muster")
	if want := (region.Tag{Name: "muster-gpu", Comment: "set by muster"}); err != nil || made != want {
		t.Errorf("%+v, %v", made, err)
	}
	_, err = l.client.CreateTag(ctx, "muster-gpu", "")
	refused(t, err, region.Refused, 400, "name: Tag with this Name already exists.")
	if got, err := l.client.Tag(ctx, "muster-gpu"); err != nil || got.Definition != "" {
		t.Errorf("%+v, %v", got, err)
	}
	for range 2 {
		added, removed, err := l.client.Retag(ctx, "muster-gpu", []string{one, two, "nosuch"}, []string{two})
		if added != 2 || removed != 1 || err != nil {
			t.Errorf("added %d, removed %d, %v", added, removed, err)
		}
	}
	tagged := func(name string) (ids []string) {
		if err := l.client.Tagged(ctx, name, func(m region.Machine) error { ids = append(ids, m.ID); return nil }); err != nil {
			t.Error(err)
		}
		return ids
	}
	if got := tagged("muster-gpu"); !slices.Equal(got, []string{one}) || !slices.Equal(l.is(one, 4).Tags, []string{"muster-gpu"}) {
		t.Errorf("tagged are %q", got)
	}
	_, _, err = l.client.Retag(ctx, "nosuch", []string{one}, nil)
	refused(t, err, region.NoSuch, 404, "No Tag matches the given query.")
	_, _, err = l.as(l.AddUser("ann", false)).Retag(ctx, "muster-gpu", []string{two}, nil)
	refused(t, err, region.Forbidden, 403, "")
	_, err = l.client.Ask(ctx, "tags/muster-gpu/", "update_nodes", nil, url.Values{"definition": {"//a"}})
	refused(t, err, region.Conflict, 409, "Definition supplied '//a' doesn't match current definition ''")

	l.Define("nvidia", "//node[vendor='NVIDIA']", one)
	if _, _, err := l.client.Retag(ctx, "nvidia", []string{two}, nil); err != nil || !slices.Equal(tagged("nvidia"), []string{two}) {
		t.Errorf("%v", err)
	}
	l.pass(time.Minute)
	if got := tagged("nvidia"); !slices.Equal(got, []string{one}) {
		t.Errorf("after the definition was looked at, tagged are %q", got)
	}
	var names []string
	err = l.client.Tags(ctx, func(t region.Tag) error { names = append(names, t.Name+t.Definition); return nil })
	if want := []string{"muster-gpu", "nvidia//node[vendor='NVIDIA']"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v", names, err)
	}
}

// Test23Again: a machine that is enlisted again is another one. Of two with one UUID, MAAS believes none.
func Test23Again(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	first := l.Add(maassim.Machine{UUID: "u-1", Status: 4, Tags: []string{"gpu"}})
	if m := l.is(first, 4); m.UUID != "u-1" {
		t.Errorf("%+v", m)
	}
	l.Remove(first)
	again := l.Add(maassim.Machine{UUID: "u-1"})
	if m := l.is(again, 0); m.UUID != "u-1" || len(m.Tags) != 0 || m.ID == first {
		t.Errorf("%+v", m)
	}
	_, err := l.client.Machine(t.Context(), first)
	refused(t, err, region.NoSuch, 404, "")
	twin := l.Add(maassim.Machine{UUID: "u-1"})
	if a, b := l.is(again, 0), l.is(twin, 0); a.UUID != "" || b.UUID != "" {
		t.Errorf("%q and %q", a.UUID, b.UUID)
	}
}

// Test25Second: between any two calls somebody else may act. Events tell it, the oldest first.
func Test25Second(t *testing.T) {
	t.Parallel()
	var between func(op, id string)
	l := newLab(t, maassim.Config{Between: func(op, id string) {
		if act := between; act != nil {
			between = nil
			act(op, id)
		}
	}})
	ann := l.as(l.AddUser("ann", false))
	id, ctx := l.ready(), t.Context()
	start, err := l.client.Events(ctx, 0)
	if err != nil || len(start) != 0 {
		t.Fatalf("%v, %v", start, err)
	}
	between = func(op, _ string) {
		if op != "allocate" {
			t.Errorf("it is %s", op)
		}
		l.good(ann.Acquire(ctx, id, "ann-1", ""))
	}
	_, err = l.client.Acquire(ctx, id, "muster-1", "")
	refused(t, err, region.NoMachine, 409, "")
	between = func(string, string) { l.good(ann.Release(ctx, id, region.EraseNot, "")) }
	_, err = l.client.Release(ctx, id, region.EraseNot, "")
	if err != nil {
		t.Error(err)
	}
	events, err := l.client.Events(ctx, 0)
	var texts []string
	for _, e := range events {
		if e.Type != region.Changed || e.Machine != id || e.At != l.clock.Now() || e.Level != "DEBUG" {
			t.Errorf("%+v", e)
		}
		texts = append(texts, e.Text)
	}
	want := []string{"From 'Ready' to 'Allocated' (to ann)", "From 'Allocated' to 'Releasing'", "From 'Releasing' to 'Ready'"}
	if !slices.Equal(texts, want) || err != nil {
		t.Errorf("%q, %v", texts, err)
	}
	rest, err := l.client.Events(ctx, events[0].ID)
	if err != nil || len(rest) != 2 || rest[0] != events[1] {
		t.Errorf("%v, %v", rest, err)
	}
	_, err = l.client.Ask(ctx, "events/", "query", url.Values{"limit": {"1001"}}, nil)
	refused(t, err, region.Refused, 400, "Requested number of events 1001 is greater than limit: 1000")
}

// TestEventPages: a thousand events come at once, and the next thousand follows them.
func TestEventPages(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	id := l.Add(maassim.Machine{})
	for i := range 2500 {
		l.Change(id, func(m *maassim.Machine) { m.Status = 3 * ((i + 1) % 2) })
	}
	var last int64 = 1
	var sizes []int
	for {
		events, err := l.client.Events(t.Context(), last)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.ID != last+1 {
				t.Fatalf("event %d follows %d", e.ID, last)
			}
			last = e.ID
		}
		if sizes = append(sizes, len(events)); len(events) < region.MostEvents {
			break
		}
	}
	if !slices.Equal(sizes, []int{1000, 1000, 499}) {
		t.Errorf("the pages have %v", sizes)
	}
}

// TestAbout: what MAAS is, and its settings.
func TestAbout(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	if v, err := l.client.Version(t.Context()); v != "3.6.1" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	l.Set("enable_disk_erasing_on_release", true)
	if v, err := l.client.Setting(t.Context(), "enable_disk_erasing_on_release"); string(v) != "true" || err != nil {
		t.Errorf("%s, %v", v, err)
	}
	_, err := l.client.Setting(t.Context(), "nosuch")
	refused(t, err, region.Refused, 400, "nosuch: nosuch is not a valid config setting.")
	if u, err := l.as(l.AddUser("ann", false)).WhoAmI(t.Context()); u != (region.User{Name: "ann"}) || err != nil {
		t.Errorf("%+v, %v", u, err)
	}
	for _, name := range []string{"", "a b", "../x", strings.Repeat("x", 257)} {
		_, err := l.client.Tag(t.Context(), name)
		refused(t, err, region.Unreached, 0, "")
		_, err = l.client.Machine(t.Context(), name)
		refused(t, err, region.Unreached, 0, "this is no system_id")
	}
}
