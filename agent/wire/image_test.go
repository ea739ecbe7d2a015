package wire_test

import (
	"strings"
	"testing"

	"muster/agent/wire"
)

// TestTagged: a short name means the image that docker's own commands would take, and one with a digest is left as it is.
func TestTagged(t *testing.T) {
	for name, want := range map[string]string{
		"python":                       "docker.io/library/python:latest",
		"python:3.12":                  "docker.io/library/python:3.12",
		"ada/llm:1":                    "docker.io/ada/llm:1",
		"docker.io/python:3.12":        "docker.io/library/python:3.12",
		"docker.io/library/python":     "docker.io/library/python:latest",
		"localhost/a:1":                "localhost/a:1",
		"registry.example:5000/a/b":    "registry.example:5000/a/b:latest",
		"registry.example:5000/a/b:1":  "registry.example:5000/a/b:1",
		"":                             "",
		"-v":                           "",
		"a b":                          "",
		"registry.example/A:1":         "",
		"registry.example/a:1:2":       "",
		"registry.example/a/../b:1":    "",
		"registry.example:port/a:1":    "",
		"registry.example/a:1@sha256:": "",
		goodImage:                      "",
	} {
		image, ok := (&wire.WorkloadLaunch{Image: name}).Tagged()
		if got := image.String(); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %s, %v", name, got, ok)
		}
	}
	image, ok := wire.ParseImage(strings.Replace(goodImage, "@", ":1@", 1))
	if !ok || image.Tag != "1" || image.Pinned() != goodImage {
		t.Errorf("%+v, %v", image, ok)
	}
}

// FuzzImage: what is taken for the name of an image is the same when it is written again, and can be no option and no path.
func FuzzImage(f *testing.F) {
	f.Add(goodImage)
	f.Add("a/b:c")
	f.Fuzz(func(t *testing.T, text string) {
		image, ok := wire.ParseImage(text)
		if ok && (image.String() != text || strings.HasPrefix(text, "-") || strings.Contains(text, "..") && strings.Contains(text, "/../")) {
			t.Errorf("%q: %+v", text, image)
		}
	})
}
