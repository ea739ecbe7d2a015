package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/store"
	"muster/store/engine"
	"muster/store/registry"
	"muster/store/storetest"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// fixture is the records of a new database.
type fixture struct {
	registry.Records
	t     *testing.T
	store *store.Store
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	s := storetest.Open(t, nil)
	return fixture{registry.On(s.Records()), t, s}
}

func (f fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f fixture) want(what string, got, want error) {
	f.t.Helper()
	if !errors.Is(got, want) {
		f.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// same fails the test where two values print differently.
func (f fixture) same(what string, err error, got, want any) {
	f.t.Helper()
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		f.t.Errorf("%s: %v, %v; want %v", what, got, err, want)
	}
}

func (f fixture) blob(repository, digest string, at time.Time) {
	f.t.Helper()
	f.must(f.AddBlob(f.t.Context(), repository, registry.Blob{Digest: digest, Size: int64(len(digest))}, at))
}

// manifest stores one that names these digests.
func (f fixture) manifest(repository, digest string, names ...string) {
	f.t.Helper()
	f.must(f.PutManifest(f.t.Context(), registry.Manifest{Repository: repository, Digest: digest, Names: names, PushedAt: start}, nil))
}

func event(kind string) store.Event { return store.Event{At: start, Kind: kind} }

func (f fixture) events() (kinds []string) {
	f.t.Helper()
	events, err := f.store.Events(f.t.Context(), store.EventQuery{})
	f.must(err)
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestBlobs(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.blob("a", "d1", start)
	f.blob("a", "d1", start.Add(-time.Hour)) // used_at only moves forward
	f.blob("a", "d22", start)
	link, err := f.Blob(ctx, "a", "d1")
	f.same("a blob", err, link, registry.Link{Blob: registry.Blob{Digest: "d1", Size: 2}, UsedAt: start})
	_, err = f.Blob(ctx, "b", "d1")
	f.want("another repository's", err, store.ErrNotFound)
	f.want("mount from a repository without it", f.MountBlob(ctx, "b", "d1", "c", start), store.ErrConflict)
	f.want("mount of an unknown one", f.MountBlob(ctx, "b", "d3", "", start), store.ErrConflict)
	there, err := f.Exists(ctx, "b")
	f.same("a repository after mounts that failed", err, there, false)
	f.must(f.MountBlob(ctx, "b", "d1", "a", start))
	f.must(f.MountBlob(ctx, "c", "d1", "", start))
	names, err := f.Repositories(ctx)
	f.same("repositories", err, names, []string{"a", "b", "c"})
	size, err := f.Bytes(ctx)
	f.same("bytes, where one is in three", err, size, 5)
	page, err := f.Blobs(ctx, "", 1)
	f.same("the first page", err, page, []registry.Blob{{Digest: "d1", Size: 2}})
	page, err = f.Blobs(ctx, "d1", 9)
	f.same("the second page", err, page, []registry.Blob{{Digest: "d22", Size: 3}})

	f.must(f.DropLink(ctx, "a", "d1", event("dropped")))
	f.want("drop again", f.DropLink(ctx, "a", "d1", event("again")), store.ErrConflict)
	f.same("events", nil, f.events(), []string{"dropped"})
	_, err = f.Blob(ctx, "a", "d1")
	f.want("dropped", err, store.ErrNotFound)
	dropped, err := f.DropBlob(ctx, "d1")
	f.same("drop what others have", err, dropped, false)
	f.must(errors.Join(f.DropLink(ctx, "b", "d1"), f.DropLink(ctx, "c", "d1")))
	free, err := f.Unlinked(ctx, 9)
	f.same("what nobody has", err, free, []registry.Blob{{Digest: "d1", Size: 2}})
	dropped, err = f.DropBlob(ctx, "d1")
	f.same("drop what nobody has", err, dropped, true)
	_, err = f.Stored(ctx, "d1")
	f.want("its record", err, store.ErrNotFound)
	kept, err := f.Stored(ctx, "d22")
	f.same("the other's record", err, kept, registry.Blob{Digest: "d22", Size: 3})
}

func TestCollect(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	old := start.Add(-2 * time.Hour)
	for _, digest := range []string{"named", "old", "touched"} {
		f.blob("a", digest, old)
		f.blob("b", digest, old)
	}
	f.blob("a", "new", start)
	f.blob("empty", "old", old)
	f.manifest("a", "m", "named")
	f.must(f.TouchBlob(ctx, "a", "touched", start))
	f.must(f.TouchBlob(ctx, "a", "touched", old))
	f.want("touch what is not there", f.TouchBlob(ctx, "c", "touched", start), store.ErrConflict)
	f.manifest("a", "gone", "of gone")
	f.blob("a", "of gone", old)
	f.must(f.DropManifest(ctx, "a", "gone", start))
	blobs, repositories, err := f.Collect(ctx, start.Add(-time.Hour))
	f.same("collected", err, []int64{blobs, repositories}, []int64{5, 2}) // a: old; b: all three; empty: old
	for digest, want := range map[string]error{"named": nil, "new": nil, "touched": nil, "of gone": nil, "old": store.ErrNotFound} {
		_, err := f.Blob(ctx, "a", digest)
		f.want(digest, err, want)
	}
	names, err := f.Repositories(ctx)
	f.same("repositories", err, names, []string{"a"})
	link, err := f.Blob(ctx, "a", "named")
	f.same("a named blob", err, link.Named, true)
}

func TestManifests(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	m := registry.Manifest{Repository: "a", Digest: "m1", MediaType: "text/x", Body: []byte("{\xff}"), Config: "c", Names: []string{"c", "l"},
		Referrer: registry.Referrer{Subject: "s", ArtifactType: "t", Annotations: map[string]string{"k": "<v>"}},
		PushedAt: start, PushedBy: "account:ci"}
	f.want("without its config", f.PutManifest(ctx, m, []string{"v1"}, event("pushed")), store.ErrConflict)
	there, err := f.Exists(ctx, "a")
	f.same("the repository", err, there, false)
	f.blob("a", "c", start)
	f.must(f.PutManifest(ctx, m, []string{"v1", "v2"}, event("pushed")))
	again := m
	again.MediaType = "text/y"
	again.PushedAt = start.Add(time.Hour)
	f.must(f.PutManifest(ctx, again, []string{"v2"}, event("pushed again")))
	f.same("events", nil, f.events(), []string{"pushed again", "pushed"})

	got, err := f.Manifest(ctx, "a", "m1")
	if err != nil || !bytes.Equal(got.Body, m.Body) || got.MediaType != "text/y" || !got.PushedAt.Equal(start) || got.PushedBy != m.PushedBy ||
		got.Subject != "s" || got.ArtifactType != "t" || got.Annotations["k"] != "<v>" {
		t.Errorf("the manifest: %+v, %v", got, err)
	}
	got, err = f.Tagged(ctx, "a", "v2")
	f.same("by tag", err, got.Digest, "m1")
	size, err := f.Bytes(ctx)
	f.same("bytes", err, size, len(m.Body)+1)
	for _, repository := range []string{"a", "b"} {
		_, err = f.Manifest(ctx, repository, "m2")
		f.want("unknown in "+repository, err, store.ErrNotFound)
		_, err = f.Tagged(ctx, repository, "v3")
		f.want("unknown tag in "+repository, err, store.ErrNotFound)
	}
	f.manifest("a", "m2")
	f.must(f.PutManifest(ctx, registry.Manifest{Repository: "a", Digest: "m2"}, []string{"v2"}))
	tags, err := f.Tags(ctx, "a", "", -1)
	f.same("tags", err, tags, []string{"v1", "v2"})
	tags, err = f.Tags(ctx, "a", "v1", 1)
	f.same("tags after v1", err, tags, []string{"v2"})
	got, err = f.Tagged(ctx, "a", "v2")
	f.same("a tag that moved", err, got.Digest, "m2")
}

func TestDropManifests(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	m := registry.Manifest{Repository: "a", Digest: "m", Names: []string{"l"}}
	f.must(f.PutManifest(ctx, m, []string{"v1", "v2"}))
	f.must(f.DropTag(ctx, "a", "v1", event("untagged")))
	f.want("drop a tag again", f.DropTag(ctx, "a", "v1", event("untagged")), store.ErrConflict)
	_, err := f.Manifest(ctx, "a", "m")
	f.must(err)
	f.must(f.DropManifest(ctx, "a", "m", start, event("dropped")))
	f.want("drop again", f.DropManifest(ctx, "a", "m", start, event("dropped")), store.ErrConflict)
	f.same("events", nil, f.events(), []string{"dropped", "untagged"})
	tags, err := f.Tags(ctx, "a", "", -1)
	f.same("tags", err, tags, []string{})
	f.blob("a", "l", start)
	link, err := f.Blob(ctx, "a", "l")
	f.same("a blob that only the dropped one named", err, link.Named, false)
}

func TestReferrers(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	for digest, kind := range map[string]string{"m2": "t1", "m1": "t1", "m3": "t2", "m4": ""} {
		m := registry.Manifest{Repository: "a", Digest: digest, MediaType: "x", Body: []byte("1234")}
		m.Subject = "s"
		m.ArtifactType = kind
		m.Annotations = map[string]string{"of": digest}
		f.must(f.PutManifest(ctx, m, nil))
		f.must(f.PutManifest(ctx, m, nil))
	}
	f.manifest("a", "m5")
	digests := func(subject, kind string) []string {
		found, err := f.Referrers(ctx, "a", subject, kind, 1<<20)
		f.must(err)
		list := []string{}
		for _, m := range found {
			if m.Annotations["of"] != m.Digest || m.Size != 4 || m.MediaType != "x" {
				t.Errorf("listed as %+v", m)
			}
			list = append(list, m.Digest)
		}
		return list
	}
	for _, c := range []struct {
		subject, kind string
		want          []string
	}{
		{"s", "", []string{"m1", "m2", "m3", "m4"}}, {"s", "t1", []string{"m1", "m2"}}, {"s", "t3", nil}, {"none", "", nil}, {"", "", nil},
	} {
		if got := digests(c.subject, c.kind); !slices.Equal(got, c.want) {
			t.Errorf("referrers of %q of type %q: %v, want %v", c.subject, c.kind, got, c.want)
		}
	}
}

// TestHolds holds an index of an index. Its manifest and its layer cannot go, until the last holder lets go.
func TestHolds(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.want("hold what is not there", f.Hold(ctx, "a", "top", "h1", 4), store.ErrConflict)
	f.blob("a", "layer", start)
	f.blob("b", "layer", start)
	f.manifest("a", "top", "index", "away")
	f.manifest("a", "index", "image", "index") // no hash can name itself, but the walk must end all the same
	f.manifest("a", "image", "layer")
	f.manifest("a", "other", "top")
	f.manifest("b", "image", "layer")
	f.want("hold more than may be", f.Hold(ctx, "a", "top", "h1", 3), store.ErrConflict)
	f.must(errors.Join(f.Hold(ctx, "a", "top", "h1", 4), f.Hold(ctx, "a", "top", "h1", 4), f.Hold(ctx, "a", "index", "h2", 2)))
	for _, digest := range []string{"top", "index", "image"} {
		f.want("drop "+digest, f.DropManifest(ctx, "a", digest, start), store.ErrConflict)
	}
	f.want("drop the layer", f.DropLink(ctx, "a", "layer"), store.ErrConflict)
	holder, err := f.Holder(ctx, "a", "layer")
	f.same("the holder", err, holder, "h1")
	f.must(errors.Join(f.DropLink(ctx, "b", "layer"), f.DropManifest(ctx, "b", "image", start), f.DropManifest(ctx, "a", "other", start)))

	f.must(f.LetGo(ctx, "h1"))
	holder, err = f.Holder(ctx, "a", "layer")
	f.same("the other holder", err, holder, "h2")
	f.must(f.DropManifest(ctx, "a", "top", start))
	f.want("drop what the other holds", f.DropManifest(ctx, "a", "image", start), store.ErrConflict)
	f.must(f.LetGo(ctx, "h2"))
	_, err = f.Holder(ctx, "a", "layer")
	f.want("nobody holds it", err, store.ErrNotFound)
	f.must(errors.Join(f.DropManifest(ctx, "a", "image", start), f.DropLink(ctx, "a", "layer")))
}

// TestCanceled gives up every kind of call.
func TestCanceled(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, collect := f.Collect(ctx, start)
	_, drop := f.DropBlob(ctx, "d")
	_, stored := f.Stored(ctx, "d")
	_, repositories := f.Repositories(ctx)
	_, exists := f.Exists(ctx, "a")
	for what, err := range map[string]error{
		"collect": collect, "drop": drop, "stored": stored, "repositories": repositories, "exists": exists,
	} {
		f.want(what, err, context.Canceled)
	}
}

// TestPlans has SQLite explain queries that would be slow by another plan: one that read all names of a repository took minutes.
func TestPlans(t *testing.T) {
	f := newFixture(t)
	for query, want := range registry.Plans() {
		args := []any{"a", "b", "c", "d"}[:strings.Count(query, "?")]
		rows, err := f.store.Records().Query(t.Context(), engine.Do("EXPLAIN QUERY PLAN "+query, args...))
		f.must(err)
		if plan := fmt.Sprint(rows); !strings.Contains(plan, want) {
			t.Errorf("%s\nplan: %s\nwant %s", query, plan, want)
		}
	}
}
