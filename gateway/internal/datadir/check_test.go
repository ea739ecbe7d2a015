package datadir_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/gateway/internal/datadir"
)

// TestCheck: a directory of other things is not taken for a gateway's data.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		mode  os.FileMode
		files string // a name that ends in / is a directory
		want  string // "": it is taken
	}{
		"not there":                      {0, "-", ""},
		"empty":                          {0o755, "", ""},
		"a new volume":                   {0o755, "lost+found/", ""},
		"prepared for a restore":         {0o755, "master.key", ""},
		"a gateway's":                    {0o755, "muster.db muster.db-wal chain.pem www/", ""},
		"what a gateway left":            {0o755, "muster.lock recordings/ registry/ backup-1/ before-restore-20261122T011323.744/", ""},
		"the owner's alone":              {0o700, "chain.pem", ""},
		"another's files":                {0o755, "www/", `"www" is in it`},
		"a file beside":                  {0o750, "muster.lock chain.pem", `"chain.pem" is in it`},
		"for everybody":                  {0o777 | os.ModeSticky, "", "everybody may write there"},
		"a gateway's, in everybody's":    {0o777 | os.ModeSticky, "muster.db", ""},
		"everybody's, with other things": {0o777 | os.ModeSticky, "x", `"x" is in it`},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if c.files != "-" {
			makeFolder(t, dir, c.mode, strings.Fields(c.files))
		}
		err := datadir.Check(dir)
		if c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "chmod 700 "+dir)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := datadir.Check(file); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a file: %v", err)
	}
}

func makeFolder(t *testing.T, dir string, mode os.FileMode, files []string) {
	t.Helper()
	err := os.Mkdir(dir, 0o700)
	for _, file := range files {
		if name, folder := strings.CutSuffix(file, "/"); folder {
			err = errors.Join(err, os.Mkdir(filepath.Join(dir, name), 0o700))
		} else {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, file), nil, 0o600))
		}
	}
	if err = errors.Join(err, os.Chmod(dir, mode)); err != nil {
		t.Fatal(err)
	}
}

// TestExposed: a file with a secret is its owner's alone, or there is a warning. What is no plain file has no mode of its own.
func TestExposed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, []byte("k"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{0o600: "", 0o400: "", 0o640: "(mode 0640)", 0o604: "(mode 0604)", 0o620: "(mode 0620)"} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if said := datadir.Exposed(file); (said == "") != (want == "") || !strings.Contains(said, want) {
			t.Errorf("mode %04o: it says %q", mode, said)
		}
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	datadir.WarnExposed(slog.New(slog.NewTextHandler(&log, nil)), "", file, dir)
	if strings.Count(log.String(), "level=WARN") != 1 || !strings.Contains(log.String(), file) {
		t.Errorf("the log says %s", &log)
	}
	for _, other := range []string{dir, filepath.Join(dir, "none"), "-", "", os.DevNull} {
		if said := datadir.Exposed(other); said != "" {
			t.Errorf("%q: it says %q", other, said)
		}
	}
}
