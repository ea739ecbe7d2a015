package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/gateway/internal/datadir"
	"muster/store"
)

// TestBackupLost: where the disk has lost or damaged a blob, there is a backup all the same. The command names the blob and the release
// that needs it, says what to do, and fails; the file stays, and the next backup says it too until the blob is there again.
func TestBackupLost(t *testing.T) {
	for name, harm := range map[string]func(path string, content []byte) error{
		"lost": func(path string, _ []byte) error { return os.Remove(path) },
		"damaged": func(path string, content []byte) error {
			changed := bytes.Clone(content)
			changed[len(changed)/2] ^= 1
			return os.WriteFile(path, changed, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReleased(t)
			file, _ := r.agent("the one that is " + name)
			r.muster("release", "push", "linux/amd64="+file, "--version", "0.4.0")
			content, err := os.ReadFile(file)
			r.must(err)
			digest := programDigest(content)
			r.must(harm(filepath.Join(r.data, datadir.Registry, "blobs", strings.Replace(digest, ":", "/", 1)), content))
			to := filepath.Join(t.TempDir(), "backup.tar")
			code, stdout, stderr := r.command("backup", to)
			if code != exitFailed || !strings.Contains(stderr, digest) || !strings.Contains(stderr, " help backup") ||
				!strings.Contains(stderr, "release 0.4.0 (linux/amd64)") || !strings.Contains(stdout, to) {
				t.Errorf("exit %d\n%s%s", code, stdout, stderr)
			}
			if info, err := os.Stat(to); err != nil || info.Size() == 0 {
				t.Errorf("the backup is not kept: %v", err)
			}
			events, err := r.gateway.store.Events(t.Context(), store.EventQuery{Kind: "backup.incomplete"})
			if err != nil || len(events) != 1 || events[0].Detail["first"] != digest || events[0].Detail["lacks"] != "1" ||
				events[0].Detail["needed"] != "release 0.4.0 (linux/amd64)" {
				t.Errorf("the log has %+v, %v", events, err)
			}
			r.muster("release", "push", "linux/amd64="+file, "--version", "0.4.0") // the same build again
			r.muster("backup", filepath.Join(t.TempDir(), "whole.tar"))
		})
	}
}
