package artifact_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/artifact"
)

// TestManifestsTaken pushes all that a registry has to take, byte by byte.
func TestManifestsTaken(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.put("a", "{}")
	f.put("a", "layer")
	with := func(key string, value any, keys ...any) []byte {
		m := map[string]any{"schemaVersion": 2, "mediaType": wire.MediaManifest, "config": descriptor(wire.MediaEmpty, "{}"), "layers": []any{}}
		m[key] = value
		for i := 0; i < len(keys); i += 2 {
			m[keys[i].(string)] = keys[i+1]
		}
		return encode(m)
	}
	foreign := descriptor("application/vnd.oci.image.layer.nondistributable.v1.tar", "never pushed")
	foreign["urls"] = []string{"https://elsewhere.example/layer"}
	data := descriptor(wire.MediaEmpty, "{}")
	data["data"] = []byte("{}")
	by512 := descriptor(wire.MediaEmpty, "{}")
	by512["digest"] = digest512("{}")
	f.must(f.Put(ctx, "a", digest512("{}"), 2, strings.NewReader("{}")))
	const dockerList = "application/vnd.docker.distribution.manifest.list.v2+json"
	large := map[string]string{"a": strings.Repeat("x", artifact.MaxManifest-400)}
	for what, c := range map[string]struct {
		mediaType string
		body      []byte
	}{
		"an image":                     {wire.MediaManifest, image("{}", "layer")},
		"a media type in it alone":     {"", image("{}", "layer")},
		"a media type beside it alone": {wire.MediaManifest, with("mediaType", "")},
		"docker's":                     {"application/vnd.docker.distribution.manifest.v2+json", with("mediaType", "")},
		"no layers":                    {wire.MediaManifest, with("layers", []any{})},
		"null layers":                  {wire.MediaManifest, with("layers", nil)},
		"white space and order kept":   {wire.MediaManifest, append([]byte(" \n"), append(image("{}"), "\n\t "...)...)},
		"unknown fields":               {wire.MediaManifest, with("org.example", map[string]any{"a": []any{1, "<&>", nil}})},
		"a layer never pushed":         {wire.MediaManifest, with("layers", []any{foreign})},
		"a sparse image":               {wire.MediaManifest, with("layers", []any{descriptor(wire.MediaProgram, "away")})},
		"a subject not there":          {wire.MediaManifest, with("subject", descriptor(wire.MediaManifest, "later"))},
		"data in a descriptor":         {wire.MediaManifest, with("config", data)},
		"a config by SHA-512":          {wire.MediaManifest, with("config", by512)},
		"nearly 4 MiB":                 {wire.MediaManifest, with("annotations", large)},
		"an empty index":               {wire.MediaIndex, index()},
		"an index of an index":         {wire.MediaIndex, index(index(image("{}")), image("{}", "layer"))},
		"a sparse index":               {wire.MediaIndex, index([]byte("away"))},
		"docker's list":                {dockerList, []byte(`{"schemaVersion":2,"manifests":[]}`)},
	} {
		done, err := f.PutManifest(ctx, "a", artifact.PutManifest{Reference: "v1", MediaType: c.mediaType, Body: c.body, By: by})
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		for _, reference := range []string{"v1", done.Digest} {
			got, err := f.Manifest(ctx, "a", reference)
			if err != nil || !bytes.Equal(got.Body, c.body) || got.Digest != artifact.DigestOf(c.body) ||
				c.mediaType != "" && got.MediaType != c.mediaType {
				t.Errorf("%s: got %q of %q by %s, %v", what, got.Body, got.MediaType, reference, err)
			}
		}
	}
}

func TestManifestsRefused(t *testing.T) {
	f := newFixture(t)
	f.put("a", "{}")
	good := string(image("{}", "layer"))
	change := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%q is not in %s", old, good)
		}
		return strings.Replace(good, old, new, 1)
	}
	names := strings.Repeat(`{"digest":"`+digestOf("x")+`"},`, artifact.MaxNames) + `{"digest":"` + digestOf("x") + `"}`
	for what, c := range map[string]struct{ mediaType, body, code string }{
		"nothing":               {wire.MediaManifest, "", artifact.CodeManifestInvalid},
		"null":                  {wire.MediaManifest, "null", artifact.CodeManifestInvalid},
		"a list":                {wire.MediaManifest, "[]", artifact.CodeManifestInvalid},
		"HTML":                  {wire.MediaManifest, "<html>", artifact.CodeManifestInvalid},
		"two documents":         {wire.MediaManifest, good + good, artifact.CodeManifestInvalid},
		"a key twice":           {wire.MediaManifest, change(`"layers":`, `"layers":[],"layers":`), artifact.CodeManifestInvalid},
		"a key in another case": {wire.MediaManifest, change(`"layers":`, `"Layers":[],"layers":`), artifact.CodeManifestInvalid},
		"not UTF-8":             {wire.MediaManifest, change("application", "applic\xff"), artifact.CodeManifestInvalid},
		"nested too deeply": {wire.MediaManifest, change(`"layers":`, `"x":`+strings.Repeat("[", 40)+strings.Repeat("]", 40)+`,"layers":`),
			artifact.CodeManifestInvalid},
		"another media type":     {"text/html", change(wire.MediaManifest, "text/html"), artifact.CodeManifestInvalid},
		"no media type":          {"", change(wire.MediaManifest, ""), artifact.CodeManifestInvalid},
		"two media types":        {wire.MediaIndex, good, artifact.CodeManifestInvalid},
		"another schema":         {wire.MediaManifest, change(`"schemaVersion":2`, `"schemaVersion":1`), artifact.CodeManifestInvalid},
		"no config":              {wire.MediaManifest, change(`"config"`, `"confix"`), artifact.CodeManifestInvalid},
		"an image as an index":   {wire.MediaIndex, change(wire.MediaManifest, ""), artifact.CodeManifestInvalid},
		"an index as an image":   {wire.MediaManifest, `{"schemaVersion":2,"manifests":[]}`, artifact.CodeManifestInvalid},
		"both at once":           {wire.MediaManifest, change(`"layers":`, `"manifests":[],"layers":`), artifact.CodeManifestInvalid},
		"a bad digest":           {wire.MediaManifest, change("sha256:", "sha256:0"), artifact.CodeManifestInvalid},
		"an unknown algorithm":   {wire.MediaManifest, change("sha256:", "md5:"), artifact.CodeManifestInvalid},
		"a negative size":        {wire.MediaManifest, change(`"size":`, `"size":-`), artifact.CodeManifestInvalid},
		"a size that is a text":  {wire.MediaManifest, change(`"size":2`, `"size":"2"`), artifact.CodeManifestInvalid},
		"a bad subject":          {wire.MediaManifest, change(`"layers":`, `"subject":{"digest":"x"},"layers":`), artifact.CodeManifestInvalid},
		"too many names":         {wire.MediaIndex, `{"schemaVersion":2,"manifests":[` + names + `]}`, artifact.CodeManifestInvalid},
		"too large":              {wire.MediaManifest, good + strings.Repeat(" ", artifact.MaxManifest), artifact.CodeSizeInvalid},
		"a config never pushed":  {wire.MediaManifest, string(image("away")), artifact.CodeManifestBlobUnknown},
		"a config of another's":  {wire.MediaManifest, string(image("other")), artifact.CodeManifestBlobUnknown},
		"data that is no base64": {wire.MediaManifest, change(`"size":2`, `"size":2,"data":"!"`), artifact.CodeManifestInvalid},
	} {
		f.put("b", "other")
		_, err := f.PutManifest(t.Context(), "a", artifact.PutManifest{Reference: "v1", MediaType: c.mediaType, Body: []byte(c.body), By: by})
		f.want(what, err, c.code)
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%s: an error of %d bytes", what, len(err.Error()))
		}
	}
	_, _, err := f.Tags(t.Context(), "a", -1, "")
	f.must(err)
	if events := f.events(); len(events) != 0 {
		t.Errorf("events: %v", events)
	}
}

func TestReferences(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.put("a", "{}")
	body := image("{}")
	digest := artifact.DigestOf(body)
	many := make([]string, artifact.MaxTags+1)
	for i := range many {
		many[i] = fmt.Sprint("t", i)
	}
	for _, c := range []struct {
		name, reference string
		tags            []string
		code            string
	}{
		{"a", "sha256:baddigeststring", nil, artifact.CodeDigestInvalid}, {"a", digestOf("x"), nil, artifact.CodeDigestInvalid},
		{"a", ".v1", nil, artifact.CodeManifestInvalid}, {"a", "", nil, artifact.CodeManifestInvalid},
		{"a", digest, []string{"ok", "not ok"}, artifact.CodeManifestInvalid}, {"a", digest, many, artifact.CodeManifestInvalid},
		{"A", "v1", nil, artifact.CodeNameInvalid},
	} {
		_, err := f.PutManifest(ctx, c.name, artifact.PutManifest{Reference: c.reference, Body: body, Tags: c.tags, By: by})
		f.want(c.reference, err, c.code)
	}
	done, err := f.PutManifest(ctx, "a", artifact.PutManifest{Reference: digest512(string(body)), Body: body,
		Tags: []string{"y", "x", "y"}, By: by})
	f.same("by SHA-512 with tags", err, done, artifact.Stored{Digest: digest512(string(body)), Tags: []string{"x", "y"}})
	m, err := f.Manifest(ctx, "a", "x")
	f.same("its tag", err, m.Digest, digest512(string(body)))
	done, err = f.PutManifest(ctx, "a", artifact.PutManifest{Reference: "x", Body: body, By: by})
	f.same("a tag that moves", err, done, artifact.Stored{Digest: digest, Tags: []string{"x"}})
	m, err = f.Manifest(ctx, "a", "x")
	f.same("moved", err, m.Digest, digest)
	for reference, code := range map[string]string{
		"none": artifact.CodeManifestUnknown, digestOf("x"): artifact.CodeManifestUnknown, "/": artifact.CodeManifestUnknown,
		"sha256:bad": artifact.CodeDigestInvalid,
	} {
		_, err := f.Manifest(ctx, "a", reference)
		f.want("read "+reference, err, code)
		f.want("delete "+reference, f.DeleteManifest(ctx, "a", reference, by), code)
	}
	_, err = f.Manifest(ctx, "/", "x")
	f.want("a bad name", err, artifact.CodeNameInvalid)
	want := []string{
		fmt.Sprintf("artifact.pushed by account:ci [digest=%s media_type=%s repository=a tags=x y]", digest512(string(body)), wire.MediaManifest),
		fmt.Sprintf("artifact.pushed by account:ci [digest=%s media_type=%s repository=a tags=x]", digest, wire.MediaManifest),
	}
	if got := f.events(); !slices.Equal(got, want) {
		t.Errorf("events: %v\nwant %v", got, want)
	}
}

func TestTagPages(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.put("a", "{}")
	for _, tag := range []string{"b", "a", "B", "c"} {
		f.push("a", tag, image("{}"))
	}
	for _, c := range []struct {
		n    int
		last string
		want string
		more bool
	}{
		{-1, "", "B a b c", false}, {2, "", "B a", true}, {2, "a", "b c", false}, {4, "", "B a b c", false}, {1, "c", "", false},
		{0, "", "", false}, {1 << 62, "B", "a b c", false}, {2, "aa", "b c", false}, {-1, "b", "c", false},
	} {
		tags, more, err := f.Tags(ctx, "a", c.n, c.last)
		if err != nil || strings.Join(tags, " ") != c.want || more != c.more || tags == nil {
			t.Errorf("%d after %q: %v, %v, %v", c.n, c.last, tags, more, err)
		}
	}
	_, _, err := f.Tags(ctx, "b", 0, "")
	f.want("an unknown repository", err, artifact.CodeNameUnknown)
	_, _, err = f.Tags(ctx, "/", -1, "")
	f.want("a bad name", err, artifact.CodeNameInvalid)
	names, err := f.Repositories(ctx)
	f.same("repositories", err, names, []string{"a"})
}

// TestDelete looks at once after each deletion.
func TestDelete(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	config := f.put("a", "{}")
	digest := f.push("a", "v1", image("{}"))
	f.push("a", "v2", image("{}"))
	f.uses("a blob and a manifest", int64(2+len(image("{}"))))
	f.must(f.DeleteManifest(ctx, "a", "v1", by))
	_, err := f.Manifest(ctx, "a", "v1")
	f.want("a deleted tag", err, artifact.CodeManifestUnknown)
	f.want("delete it again", f.DeleteManifest(ctx, "a", "v1", by), artifact.CodeManifestUnknown)
	_, err = f.Manifest(ctx, "a", digest)
	f.want("its manifest", err, "")
	f.must(f.DeleteManifest(ctx, "a", digest, by))
	for _, reference := range []string{"v2", digest} {
		_, err = f.Manifest(ctx, "a", reference)
		f.want("a deleted manifest by "+reference, err, artifact.CodeManifestUnknown)
	}
	f.want("delete it again", f.DeleteManifest(ctx, "a", digest, by), artifact.CodeManifestUnknown)
	f.uses("a blob", 2)
	f.must(f.DeleteBlob(ctx, "a", config, by))
	_, err = f.Stat(ctx, "a", config)
	f.want("a deleted blob", err, artifact.CodeBlobUnknown)
	_, err = f.Blob(ctx, "a", config)
	f.want("a deleted blob", err, artifact.CodeBlobUnknown)
	f.want("delete it again", f.DeleteBlob(ctx, "a", config, by), artifact.CodeBlobUnknown)
	f.want("delete by a bad digest", f.DeleteBlob(ctx, "a", "x", by), artifact.CodeDigestInvalid)
	f.want("delete in a bad name", f.DeleteBlob(ctx, "/", config, by), artifact.CodeNameInvalid)
	events := f.events()
	want := []string{
		"artifact.deleted by account:ci [repository=a tag=v1]", "artifact.deleted by account:ci [digest=" + digest + " repository=a]",
		"artifact.deleted by account:ci [blob=" + config + " repository=a]",
	}
	if !slices.Equal(events[2:], want) {
		t.Errorf("events: %v\nwant %v", events[2:], want)
	}
	tags, _, err := f.Tags(ctx, "a", -1, "")
	f.same("the tags of an empty repository", err, tags, []string{})
}

func FuzzManifest(f *testing.F) {
	f.Add(wire.MediaManifest, image("{}", "layer"))
	f.Add(wire.MediaIndex, index(image("{}")))
	f.Add("", []byte(`{"schemaVersion":2,"mediaType":"`+wire.MediaIndex+`","manifests":null,"subject":{"digest":"`+digestOf("x")+`"}}`))
	f.Fuzz(func(t *testing.T, mediaType string, body []byte) {
		d, err := artifact.Parse(mediaType, body)
		if err != nil {
			if !artifact.Is(err, artifact.CodeManifestInvalid) && !artifact.Is(err, artifact.CodeSizeInvalid) {
				t.Errorf("refused with %v", err)
			}
			return
		}
		if mediaType != "" && d.MediaType != mediaType || d.MediaType == "" || d.Index() == (d.Config != nil) {
			t.Errorf("pushed as %q: %+v", mediaType, d)
		}
		for _, named := range slices.Concat(d.Layers, d.Manifests) {
			if !artifact.IsDigest(named.Digest) || named.Size < 0 {
				t.Errorf("names %+v", named)
			}
		}
	})
}
