package region_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas/region"
)

// Test22Tags: a tag that is there is not made twice, and strangers to MAAS's admins set none. Ids that MAAS has not are passed over: the
// counts are of those that it has, tagged or not. What is added to a tag with a definition does not last.
func Test22Tags(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	ctx, one, two := t.Context(), l.ready(), l.ready()
	if err := l.client.CreateTag(ctx, "muster-gpu", "set by muster"); err != nil {
		t.Error(err)
	}
	refused(t, l.client.CreateTag(ctx, "muster-gpu", ""), region.Refused, 400, "name: Tag with this Name already exists.")
	for range 2 {
		if err := l.client.Retag(ctx, "muster-gpu", []string{one, two, "nosuch"}, []string{two}); err != nil {
			t.Error(err)
		}
	}
	has := func(id string, tags ...string) {
		t.Helper()
		if m := l.is(id, 4); !slices.Equal(m.Tags, tags) {
			t.Errorf("%s has the tags %q, want %q", id, m.Tags, tags)
		}
	}
	has(one, "muster-gpu")
	has(two)
	counts, err := l.client.Ask(ctx, "tags/muster-gpu/", "update_nodes", nil, url.Values{"add": {one, two, "nosuch"}, "remove": {two}})
	if counts != `{"added":2,"removed":1}` || err != nil {
		t.Errorf("%s, %v", counts, err)
	}
	if tagged, err := l.client.Ask(ctx, "tags/muster-gpu/", "machines", nil, nil); err != nil ||
		strings.Count(tagged, `"system_id"`) != 1 || !strings.Contains(tagged, `"system_id":"`+one+`"`) {
		t.Errorf("tagged are %s, %v", tagged, err)
	}
	_, err = l.client.Ask(ctx, "tags/muster-gpu/", "update_nodes", nil, url.Values{"definition": {"//a"}})
	refused(t, err, region.Conflict, 409, "Definition supplied '//a' doesn't match current definition ''")
	refused(t, l.client.Retag(ctx, "nosuch", []string{one}, nil), region.NoSuch, 404, "No Tag matches the given query.")
	refused(t, l.as(l.AddUser("ann", false)).Retag(ctx, "muster-gpu", []string{two}, nil), region.Forbidden, 403, "")

	l.Define("nvidia", "//node[vendor='NVIDIA']", one)
	if err := l.client.Retag(ctx, "nvidia", []string{two}, nil); err != nil {
		t.Error(err)
	}
	has(two, "nvidia")
	l.pass(time.Minute) // the definition is looked at
	has(one, "muster-gpu", "nvidia")
	has(two)
	var names []string
	err = l.client.Tags(ctx, func(t region.Tag) error { names = append(names, t.Name+t.Definition); return nil })
	if want := []string{"muster-gpu", "nvidia//node[vendor='NVIDIA']"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v", names, err)
	}
}

// TestRetagAnswer: what does not say how many is no answer of MAAS, and the change may have been made.
func TestRetagAnswer(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "OK", "{}", `{"added":1}`, `{"added":1,"removed":"0"}`, `{"added":1,"removed":0`} {
		c := served(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
		})
		refused(t, c.Retag(t.Context(), "gpu", []string{"abc"}, nil), region.Unclear, 200, "")
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

// Test25Second: between any two calls somebody else may act. Events tell it, the newest first.
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
	between = func(op, _ string) {
		if op != "allocate" {
			t.Errorf("it is %s", op)
		}
		l.good(ann.Acquire(ctx, id, "ann-1", ""))
	}
	_, err := l.client.Acquire(ctx, id, "muster-1", "")
	refused(t, err, region.NoMachine, 409, "")
	between = func(string, string) { l.good(ann.Release(ctx, id, false, "")) }
	if _, err = l.client.Release(ctx, id, false, ""); err != nil {
		t.Error(err)
	}
	l.is(id, 4)
	events := l.events(0)
	var texts []string
	for _, e := range events {
		if e.Type != "Node changed status" || e.Node != id || e.Level != "DEBUG" || e.Created != "Sun, 29 Nov. 2026 12:00:00" {
			t.Errorf("%+v", e)
		}
		texts = append(texts, e.Description)
	}
	want := []string{"From 'Releasing' to 'Ready'", "From 'Allocated' to 'Releasing'", "From 'Ready' to 'Allocated' (to ann)"}
	if !slices.Equal(texts, want) {
		t.Fatalf("%q", texts)
	}
	if rest := l.events(events[2].ID); len(rest) != 2 || rest[1] != events[1] {
		t.Errorf("%v", rest)
	}
	_, err = l.client.Ask(ctx, "events/", "query", url.Values{"limit": {"1001"}}, nil)
	refused(t, err, region.Refused, 400, "Requested number of events 1001 is greater than limit: 1000")
}

// event is what MAAS tells of its log.
type event struct {
	ID                                      int
	Node, Level, Created, Type, Description string
}

// events are those that follow one; after 0, the newest.
func (l *lab) events(after int) []event {
	l.t.Helper()
	query := url.Values{"level": {"DEBUG"}, "limit": {"1000"}}
	if after > 0 {
		query.Set("after", strconv.Itoa(after))
	}
	text, err := l.client.Ask(l.t.Context(), "events/", "query", query, nil)
	var page struct{ Events []event }
	if err == nil {
		err = json.Unmarshal([]byte(text), &page)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return page.Events
}

// TestEventPages: a thousand events come at once, and the next thousand follows them.
func TestEventPages(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	id := l.Add(maassim.Machine{})
	for i := range 2500 {
		l.Change(id, func(m *maassim.Machine) { m.Status = 3 * ((i + 1) % 2) })
	}
	last := 1
	for _, size := range []int{1000, 1000, 499, 0} {
		page := l.events(last)
		if len(page) != size {
			t.Fatalf("%d events follow %d, want %d", len(page), last, size)
		}
		for _, e := range slices.Backward(page) {
			if last++; e.ID != last {
				t.Fatalf("event %d is in the place of %d", e.ID, last)
			}
		}
	}
}

// TestAbout: what MAAS is, its settings, and who is asking. What can be no name is not sent.
func TestAbout(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	if v, err := l.client.Version(t.Context()); v != "3.6.1" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	setting := func(name string) (string, error) {
		return l.client.Ask(t.Context(), "maas/", "get_config", url.Values{"name": {name}}, nil)
	}
	l.Set("enable_disk_erasing_on_release", true)
	if v, err := setting("enable_disk_erasing_on_release"); v != "true" || err != nil {
		t.Errorf("%s, %v", v, err)
	}
	_, err := setting("nosuch")
	refused(t, err, region.Refused, 400, "nosuch: nosuch is not a valid config setting.")
	if u, err := l.as(l.AddUser("ann", false)).WhoAmI(t.Context()); u != (region.User{Name: "ann"}) || err != nil {
		t.Errorf("%+v, %v", u, err)
	}
	for _, name := range []string{"", "a b", "../x", strings.Repeat("x", 257)} {
		refused(t, l.client.Retag(t.Context(), name, nil, nil), region.Unreached, 0, "")
		_, err := l.client.Machine(t.Context(), name)
		refused(t, err, region.Unreached, 0, "this is no system_id")
	}
}
