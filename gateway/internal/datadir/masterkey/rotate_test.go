package masterkey

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/gateway/internal/datadir"
	"muster/store"
)

func nothing(string) string { return "" }

// TestRotation: after each step of a rotation, as after a crash there, the gateway's own way of opening finds everything, and
// the next rotation works.
func TestRotation(t *testing.T) {
	for stop := 0; stop <= 5; stop++ {
		data := t.TempDir()
		var said strings.Builder
		s := Source{Data: data, Getenv: nothing, Say: &said}
		before := sealed(t, s, "token of before")
		r := &rotation{database: s.database(), file: s.own(), before: before, key: []byte(strings.Repeat("k", size))}
		steps := r.steps()
		if len(steps) != 5 {
			t.Fatalf("%d steps", len(steps))
		}
		for _, step := range steps[:stop] {
			if err := step.run(t.Context()); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		said.Reset()
		for range 2 {
			opened, err := s.Open(t.Context())
			if err != nil {
				t.Fatalf("after %d steps: %v", stop, err)
			}
			if value, err := opened.Secret(t.Context(), "kept"); err != nil || string(value) != "token of before" {
				t.Errorf("after %d steps: %q, %v", stop, value, err)
			}
			if err := opened.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if ended := strings.Contains(said.String(), "finished a rotation"); ended != (stop == 3) {
			t.Errorf("after %d steps: said %q", stop, said.String())
		}
		afterRotation(t, s, stop)
	}
}

// sealed makes a database with a secret in it and gives its master key.
func sealed(t *testing.T, s Source, secret string) []byte {
	t.Helper()
	opened, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := opened.SetSecret(t.Context(), "kept", []byte(secret)); err != nil {
		t.Fatal(err)
	}
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	key, err := Read(s.own())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// rotated changes the key, and looks for what it leaves.
func afterRotation(t *testing.T, s Source, stop int) {
	t.Helper()
	before, _ := os.ReadFile(s.own())
	if file, err := s.Rotate(t.Context(), ""); err != nil || file != s.own() {
		t.Fatalf("after %d steps: %q, %v", stop, file, err)
	}
	after, _ := os.ReadFile(s.own())
	changed := string(before) != string(after)
	if want := stop < 3 || stop == 5; changed != want { // after 3 and 4 there is a rotation to end instead
		t.Errorf("after %d steps: the key changed: %t, want %t", stop, changed, want)
	}
	entries, err := os.ReadDir(s.Data)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), datadir.MasterKey) && entry.Name() != datadir.MasterKey {
			t.Errorf("after %d steps: %s is left", stop, entry.Name())
		}
	}
	opened, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if value, err := opened.Secret(t.Context(), "kept"); err != nil || string(value) != "token of before" {
		t.Errorf("after the rotation: %q, %v", value, err)
	}
}

// TestRotateInto: a key that is not a file of the gateway's is changed into a new file, also when that was cut off.
func TestRotateInto(t *testing.T) {
	s := Source{Data: t.TempDir(), Getenv: nothing, Say: io.Discard}
	sealed(t, s, "x")
	text, err := os.ReadFile(s.own())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.own()); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{variable: strings.TrimSpace(string(text))}
	s.Getenv = func(name string) string { return env[name] }
	if _, err := s.Rotate(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "--master-key-out FILE") {
		t.Errorf("without a file: %v", err)
	}
	file := filepath.Join(t.TempDir(), "new.key")
	for try := range 3 {
		if out, err := s.Rotate(t.Context(), file); err != nil || out != file {
			t.Fatalf("try %d: %q, %v", try, out, err)
		}
		if try == 1 { // as if the crash had come between the new file and the database
			key, err := Read(file)
			if err != nil {
				t.Fatal(err)
			}
			before, err := s.Key()
			if err := errors.Join(err, reseal(t.Context(), s.database(), key, before)); err != nil {
				t.Fatal(err)
			}
		}
	}
	named := Source{Data: s.Data, Named: file, Getenv: nothing, Say: io.Discard}
	opened, err := named.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	opened.Close()
	if _, err := s.Open(t.Context()); !errors.Is(err, store.ErrWrongMasterKey) {
		t.Errorf("the key before: %v", err)
	}
}
