package release_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/artifact/executable"
	"muster/gateway/internal/release"
)

// withRegistry is a hall with the gateway's own registry.
func withRegistry(t testing.TB, nodes ...string) *hall {
	t.Helper()
	h := newHall(t, nodes...)
	var err error
	h.config.Artifacts, err = artifact.Open(context.Background(), artifact.Config{Folder: filepath.Join(t.TempDir(), "registry"),
		Records: h.store.Records(), Now: h.clock.Now})
	must(t, err)
	h.open()
	return h
}

// built is a release that a test makes. Its parts can be changed before they are pushed.
type built struct {
	layers   map[string][]byte // by architecture
	kind     string            // media type of the layers
	manifest func(arch string, m map[string]any)
	index    func(m map[string]any)
}

func good() built {
	return built{kind: wire.MediaProgram, layers: map[string][]byte{
		"amd64": executable.Least("amd64", "one"), "arm64": executable.Least("arm64", "one")}}
}

// push puts a release into a repository and gives its digest.
func (h *hall) push(repository string, b built) string {
	h.t.Helper()
	var manifests []any
	for _, arch := range []string{"amd64", "arm64", "s390x"} {
		layer, ok := b.layers[arch]
		if !ok {
			continue
		}
		m := map[string]any{"schemaVersion": 2, "mediaType": wire.MediaManifest, "artifactType": wire.ArtifactAgent,
			"config": h.blob(repository, wire.MediaEmpty, []byte("{}")), "layers": []any{h.blob(repository, b.kind, layer)}}
		if b.manifest != nil {
			b.manifest(arch, m)
		}
		entry := h.document(repository, wire.MediaManifest, m)
		entry["platform"] = map[string]string{"os": "linux", "architecture": arch}
		manifests = append(manifests, entry)
	}
	m := map[string]any{"schemaVersion": 2, "mediaType": wire.MediaIndex, "manifests": manifests,
		"annotations": map[string]string{"org.opencontainers.image.version": "1.2.3"}}
	if b.index != nil {
		b.index(m)
	}
	return h.document(repository, wire.MediaIndex, m)["digest"].(string)
}

func (h *hall) blob(repository, mediaType string, content []byte) map[string]any {
	h.t.Helper()
	digest := artifact.DigestOf(content)
	must(h.t, h.config.Artifacts.Put(context.Background(), repository, digest, int64(len(content)), bytes.NewReader(content)))
	return map[string]any{"mediaType": mediaType, "digest": digest, "size": len(content)}
}

func (h *hall) document(repository, mediaType string, m map[string]any) map[string]any {
	h.t.Helper()
	body, err := json.Marshal(m)
	must(h.t, err)
	digest := artifact.DigestOf(body)
	_, err = h.config.Artifacts.PutManifest(context.Background(), repository, artifact.PutManifest{Reference: digest, MediaType: mediaType,
		Body: body, By: operator})
	must(h.t, err)
	return map[string]any{"mediaType": mediaType, "digest": digest, "size": len(body)}
}

func tarOf(name string, content []byte) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(content)), Mode: 0o755}); err != nil {
		panic(err)
	}
	w.Write(content)
	w.Close()
	return out.Bytes()
}

// TestAdd makes releases of what is pushed, from its own repository and from another one.
func TestAdd(t *testing.T) {
	h := withRegistry(t)
	digest := h.push(wire.AgentRepository, good())
	r, err := h.Add(t.Context(), api.NewRelease{Digest: digest}, operator)
	must(t, err)
	if r.Version != "1.2.3" || r.Reference != "" || r.CreatedBy != operator.Name || len(r.Platforms) != 2 || r.Carried {
		t.Fatalf("got %+v", r)
	}
	one := executable.Least("arm64", "one")
	program := artifact.DigestOf(one)
	if p := r.Programs[1]; p.OS != "linux" || p.Arch != "arm64" || p.Digest != program || p.Program != program ||
		p.Size != int64(len(one)) || p.ProgramSize != p.Size || p.MediaType != wire.MediaProgram {
		t.Errorf("got %+v", p)
	}
	again, err := h.Add(t.Context(), api.NewRelease{Digest: digest, Version: "other"}, operator)
	if err != nil || again.Version != "1.2.3" || len(h.events("release.added")) != 1 {
		t.Errorf("again: %+v, %v", again, err)
	}
	b := good()
	b.kind = wire.MediaTar
	two := executable.Least("amd64", "two")
	b.layers = map[string][]byte{"amd64": tarOf("bin/muster-agent", two)}
	other := h.push("team/agent", b)
	r, err = h.Add(t.Context(), api.NewRelease{Reference: "team/agent@" + other, Version: "2.0"}, operator)
	must(t, err)
	if p := r.Programs[0]; r.Reference != "team/agent" || r.Version != "2.0" || p.Program != artifact.DigestOf(two) ||
		p.ProgramSize != int64(len(two)) || p.Size != int64(len(b.layers["amd64"])) || p.MediaType != wire.MediaTar {
		t.Errorf("got %+v", r)
	}
	if err := h.config.Artifacts.DeleteManifest(t.Context(), "team/agent", other, operator); !artifact.Is(err, artifact.CodeDenied) {
		t.Errorf("a release's manifest is deleted: %v", err)
	}
	must(t, h.Drop(t.Context(), other, operator))
	must(t, h.config.Artifacts.DeleteManifest(t.Context(), "team/agent", other, operator))
	for _, name := range []string{digest, "1.2.3", strings.TrimPrefix(digest, "sha256:")[:12], digest[:20]} {
		if r, err := h.Release(t.Context(), name); err != nil || r.Digest != digest {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	for _, name := range []string{"", "1.2", "sha256:", sum("none"), other} {
		_, err := h.Release(t.Context(), name)
		wantCode(t, err, wire.CodeReleaseUnknown)
	}
}

// TestAddManifest: one manifest alone is a release too, and its program says for which machine.
func TestAddManifest(t *testing.T) {
	h := withRegistry(t)
	m := map[string]any{"schemaVersion": 2, "mediaType": wire.MediaManifest,
		"config": h.blob(wire.AgentRepository, wire.MediaEmpty, []byte("{}")),
		"layers": []any{h.blob(wire.AgentRepository, wire.MediaProgram, executable.Least("arm64", ""))}}
	digest := h.document(wire.AgentRepository, wire.MediaManifest, m)["digest"].(string)
	_, err := h.Add(t.Context(), api.NewRelease{Digest: digest}, operator)
	wantCode(t, err, wire.CodeBadRequest) // it says no version
	r, err := h.Add(t.Context(), api.NewRelease{Digest: digest, Version: "1"}, operator)
	must(t, err)
	if len(r.Platforms) != 1 || r.Programs[0].Arch != "arm64" {
		t.Errorf("got %+v", r)
	}
}

// TestAddRefused: each thing that a node could not install is refused by name, and nothing of it stays held.
func TestAddRefused(t *testing.T) {
	config := `{"os":"linux","architecture":"arm64"}`
	for name, c := range map[string]struct {
		change func(*hall, *built)
		want   string
	}{
		"another machine": {func(_ *hall, b *built) { b.layers["amd64"] = executable.Least("arm64", "x") }, "another machine"},
		"no program":      {func(_ *hall, b *built) { b.layers["arm64"] = []byte("#!/bin/sh\n") }, "no 64-bit ELF"},
		"half a program":  {func(_ *hall, b *built) { b.layers["arm64"] = b.layers["arm64"][:122] }, "cut off or damaged"},
		"media type":      {func(_ *hall, b *built) { b.kind = "application/zip" }, "cannot open"},
		"platform":        {func(_ *hall, b *built) { b.layers["s390x"] = executable.Least("s390x", "x") }, "there is no agent"},
		"two layers": {func(_ *hall, b *built) {
			b.manifest = func(_ string, m map[string]any) { m["layers"] = append(m["layers"].([]any), m["layers"].([]any)[0]) }
		}, "2 layers"},
		"no layer": {func(_ *hall, b *built) {
			b.manifest = func(_ string, m map[string]any) { m["layers"] = []any{} }
		}, "0 layers"},
		"twice": {func(_ *hall, b *built) {
			b.index = func(m map[string]any) { m["manifests"] = append(m["manifests"].([]any), m["manifests"].([]any)[0]) }
		}, "two manifests for linux/amd64"},
		"no manifest": {func(_ *hall, b *built) {
			b.index = func(m map[string]any) { m["manifests"] = []any{} }
		}, "no manifest"},
		"a missing manifest": {func(_ *hall, b *built) {
			b.index = func(m map[string]any) {
				none := map[string]any{"mediaType": wire.MediaManifest, "digest": sum("none"), "size": 5}
				m["manifests"] = append(m["manifests"].([]any), none)
			}
		}, "this registry"},
		"a size": {func(_ *hall, b *built) {
			b.index = func(m map[string]any) { m["manifests"].([]any)[0].(map[string]any)["size"] = 5 }
		}, "the index says 5"},
		"a config": {func(h *hall, b *built) {
			b.manifest = func(_ string, m map[string]any) {
				m["config"] = h.blob(wire.AgentRepository, "application/vnd.oci.image.config.v1+json", []byte(config))
			}
		}, "its config says linux/arm64"},
		"an odd config": {func(h *hall, b *built) {
			b.manifest = func(_ string, m map[string]any) {
				m["config"] = h.blob(wire.AgentRepository, "application/vnd.oci.image.config.v1+json", []byte("no"))
			}
		}, "is no JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			h := withRegistry(t)
			b := good()
			c.change(h, &b)
			digest := h.push(wire.AgentRepository, b)
			_, err := h.Add(t.Context(), api.NewRelease{Digest: digest}, operator)
			wantCode(t, err, wire.CodeReleaseUnusable)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			must(t, h.config.Artifacts.DeleteManifest(t.Context(), wire.AgentRepository, digest, operator))
		})
	}
	h := withRegistry(t)
	for _, digest := range []string{"", "sha256:ab", "stable", "sha512:" + strings.Repeat("a", 128), strings.ToUpper(sum("x"))} {
		_, err := h.Add(t.Context(), api.NewRelease{Digest: digest}, operator)
		wantCode(t, err, wire.CodeBadRequest)
	}
	_, err := h.Add(t.Context(), api.NewRelease{Digest: sum("a"), Reference: "team/agent@" + sum("b")}, operator)
	wantCode(t, err, wire.CodeBadRequest)
	_, err = h.Add(t.Context(), api.NewRelease{Digest: sum("a"), Reference: "Team/../agent"}, operator)
	wantCode(t, err, wire.CodeBadRequest)
	_, err = h.Add(t.Context(), api.NewRelease{Digest: sum("a")}, operator)
	wantCode(t, err, wire.CodeReleaseUnusable)
	digest := h.push(wire.AgentRepository, good())
	_, err = h.Add(t.Context(), api.NewRelease{Digest: digest, Version: "one two"}, operator)
	wantCode(t, err, wire.CodeBadRequest)
}

// TestImport: the carried agents are the first release, always under the same digest, and the default channel points at it once.
func TestImport(t *testing.T) {
	h := withRegistry(t, "n")
	agents := fstest.MapFS{"linux-amd64/muster-agent": {Data: executable.Least("amd64", "carried")},
		"linux-arm64/muster-agent": {Data: executable.Least("arm64", "carried")}}
	r, err := h.Import(t.Context(), agents, "1.0")
	must(t, err)
	if !r.Carried || r.Version != "1.0" || len(r.Platforms) != 2 || len(r.Channels) != 1 || r.SignedBy == "" {
		t.Fatalf("got %+v", r)
	}
	c := h.shown()
	if c.Sequence != 1 || c.State != "" || c.Digest != r.Digest {
		t.Errorf("got %+v", c)
	}
	h.open()
	pushed := func() int { return len(h.events("artifact.pushed")) }
	before := pushed()
	again, err := h.Import(t.Context(), agents, "1.0")
	if after := pushed(); after != before || before == 0 {
		t.Errorf("%d artifacts were pushed, and %d after another start", before, after)
	}
	if err != nil || again.Digest != r.Digest || len(h.events("release.added")) != 1 {
		t.Errorf("got %+v, %v", again, err)
	}
	if wanted := h.beat("n"); wanted != r.Digest {
		t.Errorf("a node is offered %s", wanted)
	}
	agents["linux-amd64/muster-agent"].Data = executable.Least("amd64", "newer")
	newer, err := h.Import(t.Context(), agents, "1.1")
	if err != nil || newer.Digest == r.Digest || h.shown().Digest != r.Digest {
		t.Errorf("a new gateway moves the channel: %+v, %v", newer, err)
	}
	if r, err := withRegistry(t).Import(t.Context(), fstest.MapFS{}, "1.0"); err != nil || r.Digest != "" {
		t.Errorf("without agents: %+v, %v", r, err)
	}
	other := withRegistry(t)
	agents["linux-amd64/muster-agent"].Data = executable.Least("amd64", "carried")
	if same, err := other.Import(t.Context(), agents, "1.0"); err != nil || same.Digest != r.Digest {
		t.Errorf("on another gateway: %+v, %v", same, err)
	}
	offline := withRegistry(t)
	offline.key = nil
	if r, err := offline.Import(t.Context(), agents, "1.0"); err != nil || len(r.Channels) != 0 {
		t.Errorf("where operators keep the keys: %+v, %v", r, err)
	}
}

// TestAttached: the signed pointer lies beside its release, and stays as long.
func TestAttached(t *testing.T) {
	h := withRegistry(t)
	digest := h.push(wire.AgentRepository, good())
	_, err := h.Add(t.Context(), api.NewRelease{Digest: digest}, operator)
	must(t, err)
	h.point(digest, nil)
	found, err := h.config.Artifacts.Referrers(t.Context(), wire.AgentRepository, digest, wire.ArtifactPointer)
	if err != nil || len(found) != 1 {
		t.Fatalf("got %+v, %v", found, err)
	}
	m, err := h.config.Artifacts.Manifest(t.Context(), wire.AgentRepository, found[0].Digest)
	must(t, err)
	document, err := artifact.Parse(m.MediaType, m.Body)
	must(t, err)
	blob, err := h.config.Artifacts.Blob(t.Context(), wire.AgentRepository, document.Layers[0].Digest)
	must(t, err)
	defer blob.Close()
	envelope, err := io.ReadAll(blob)
	must(t, err)
	p, _, err := sign.OpenRelease(envelope, h.keys())
	if err != nil || p.Digest != digest || p.Sequence != 1 {
		t.Errorf("got %+v, %v", p, err)
	}
}

// TestLayers: a node gets the layers of what its channel or its pin names, and no others.
func TestLayers(t *testing.T) {
	h := withRegistry(t, "a", "b")
	add := func(text string) (digest, layer string) {
		b := good()
		b.layers = map[string][]byte{"amd64": executable.Least("amd64", text)}
		digest = h.push(wire.AgentRepository, b)
		_, err := h.Add(t.Context(), api.NewRelease{Digest: digest, Version: text}, operator)
		must(t, err)
		return digest, artifact.DigestOf(executable.Least("amd64", text))
	}
	v1, one := add("one")
	v2, two := add("two")
	v3, three := add("three")
	h.point(v1, nil)
	h.point(v2, nil)
	h.beat("a")
	h.beat("b")
	must(t, h.Pin(t.Context(), []release.Ref{{ID: "id-b", Name: "b"}}, v3, nil, operator))
	for _, c := range []struct {
		node, layer string
		ok          bool
	}{{"a", one, true}, {"a", two, true}, {"a", three, false}, {"b", three, true}, {"a", v1, false}, {"nobody", one, false},
		{"a", artifact.DigestOf([]byte("{}")), false}, {"a", "", false}} {
		blob, err := h.Layer(t.Context(), "id-"+c.node, c.layer)
		if c.ok != (err == nil) {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			content, failed := io.ReadAll(blob)
			if failed != nil || artifact.DigestOf(content) != c.layer {
				t.Errorf("%+v: %d bytes, %v", c, len(content), failed)
			}
			blob.Close()
			continue
		}
		var refused *wire.ErrorDetail
		if !errors.As(err, &refused) || refused.Code != wire.CodeNotFound {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
