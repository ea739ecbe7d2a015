package artifact_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/artifact"
)

func TestHold(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	config := f.put("a", "{}")
	layer := f.put("a", "layer")
	platform := f.push("a", "amd64", image("{}", "layer"))
	release := f.push("a", "v1", index(image("{}", "layer")))
	f.must(f.Hold(ctx, "a", release, "release v1"))
	f.must(f.Hold(ctx, "a", release, "release v1"))
	for what, err := range map[string]error{
		"the index": f.DeleteManifest(ctx, "a", release, by), "the manifest": f.DeleteManifest(ctx, "a", platform, by),
		"the config": f.DeleteBlob(ctx, "a", config, by), "the layer": f.DeleteBlob(ctx, "a", layer, by),
	} {
		f.want(what, err, artifact.CodeDenied)
		if err != nil && !strings.Contains(err.Error(), "release v1") {
			t.Errorf("%s: %v does not say who holds it", what, err)
		}
	}
	f.must(errors.Join(f.DeleteManifest(ctx, "a", "v1", by), f.DeleteManifest(ctx, "a", "amd64", by)))
	f.pass(10 * artifact.Grace)
	f.must(f.Sweep(ctx))
	if f.read("a", layer) != "layer" {
		t.Error("a held layer was changed")
	}
	f.must(f.Release(ctx, "release v1"))
	f.must(errors.Join(f.DeleteManifest(ctx, "a", release, by), f.DeleteManifest(ctx, "a", platform, by), f.DeleteBlob(ctx, "a", layer, by)))
	f.want("hold what is gone", f.Hold(ctx, "a", release, "x"), artifact.CodeManifestUnknown)
	f.want("hold by a bad digest", f.Hold(ctx, "a", "x", "x"), artifact.CodeDigestInvalid)
}

// TestHoldTooMany refuses to hold an index that leads to more manifests than anybody would walk.
func TestHoldTooMany(t *testing.T) {
	f := newFixture(t)
	list := func(first int) []byte {
		text := `{"schemaVersion":2,"mediaType":"` + wire.MediaIndex + `","manifests":[`
		for i := range artifact.MaxNames/2 + 1 {
			text += fmt.Sprintf(`{"digest":"sha256:%064x"},`, first+i)
		}
		return []byte(text[:len(text)-1] + "]}")
	}
	one, two := list(0), list(artifact.MaxNames)
	f.push("a", "one", one)
	f.push("a", "two", two)
	digest := f.push("a", "both", index(one, two))
	f.want("too many", f.Hold(t.Context(), "a", digest, "x"), artifact.CodeDenied)
	f.want("half", f.Hold(t.Context(), "a", artifact.DigestOf(one), "x"), "")
}

func TestReferrers(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.put("a", "{}")
	subject := digestOf("subject")
	refer := func(change map[string]any) string {
		m := map[string]any{"schemaVersion": 2, "mediaType": wire.MediaManifest, "config": descriptor(wire.MediaEmpty, "{}"), "layers": []any{},
			"subject": map[string]any{"mediaType": wire.MediaManifest, "digest": subject, "size": 7}, "annotations": map[string]string{"k": "<v>"}}
		for key, value := range change {
			m[key] = value
			if value == nil {
				delete(m, key)
			}
		}
		done, err := f.PutManifest(ctx, "a", artifact.PutManifest{Reference: artifact.DigestOf(encode(m)), Body: encode(m), By: by})
		f.must(err)
		if done.Subject != subject {
			t.Errorf("pushed as %+v", done)
		}
		return done.Digest
	}
	want := map[string]string{
		refer(map[string]any{"artifactType": "text/one"}): "text/one",
		refer(nil): wire.MediaEmpty, // the config's
		refer(map[string]any{"mediaType": wire.MediaIndex, "config": nil, "layers": nil, "manifests": []any{}}): "",
	}
	refer(nil)
	list, err := f.Referrers(ctx, "a", subject, "")
	f.must(err)
	byDigest := func(a, b artifact.Descriptor) int { return strings.Compare(a.Digest, b.Digest) }
	if len(list) != len(want) || !slices.IsSortedFunc(list, byDigest) {
		t.Errorf("listed: %+v", list)
	}
	for _, d := range list {
		kind, ok := want[d.Digest]
		m, err := f.Manifest(ctx, "a", d.Digest)
		f.must(err)
		if !ok || d.ArtifactType != kind || d.Annotations["k"] != "<v>" || d.Size != int64(len(m.Body)) || d.MediaType != m.MediaType {
			t.Errorf("%+v, want type %q", d, kind)
		}
	}
	list, err = f.Referrers(ctx, "a", subject, "text/one")
	f.same("of one type", err, len(list), 1)
	for _, repository := range []string{"a", "b"} {
		list, err = f.Referrers(ctx, repository, digestOf("unknown"), "")
		if err != nil || list == nil || len(list) != 0 {
			t.Errorf("of an unknown digest in %s: %v, %v", repository, list, err)
		}
	}
	_, err = f.Referrers(ctx, "a", "sha256:bad", "")
	f.want("of a bad digest", err, artifact.CodeDigestInvalid)
	for i := range 3 {
		refer(map[string]any{"annotations": map[string]string{"k": strings.Repeat("x", artifact.MaxManifest/2-1000), "i": fmt.Sprint(i)}})
	}
	list, err = f.Referrers(ctx, "a", subject, "")
	f.must(err)
	size := 0
	for _, d := range list {
		size += len(d.Annotations["k"])
	}
	if len(list) != len(want)+3 || size == 0 || size > artifact.MaxManifest {
		t.Errorf("%d referrers with %d bytes of annotations", len(list), size)
	}
}

// TestReferrersInMemory: a list that leaves annotations away does not read them all first.
func TestReferrersInMemory(t *testing.T) {
	f := newFixture(t)
	config := f.put("a", "{}")
	subject := digestOf("subject")
	const many = 12
	for i := range many {
		f.push("a", fmt.Sprint("v", i), encode(map[string]any{"schemaVersion": 2, "mediaType": wire.MediaManifest,
			"config": map[string]any{"mediaType": wire.MediaEmpty, "digest": config, "size": 2}, "layers": []any{},
			"subject":     map[string]any{"mediaType": wire.MediaManifest, "digest": subject, "size": 7},
			"annotations": map[string]string{"k": strings.Repeat("x", artifact.MaxManifest/2), "i": fmt.Sprint(i)}}))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	list, err := f.Referrers(t.Context(), "a", subject, "")
	runtime.ReadMemStats(&after)
	f.must(err)
	if took := after.TotalAlloc - before.TotalAlloc; len(list) != many || took > 6*artifact.MaxManifest {
		t.Errorf("%d referrers took %d bytes", len(list), took)
	}
}
