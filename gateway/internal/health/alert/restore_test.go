package alert_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/health/alert"
	records "muster/store/alerts"
)

// TestRestore: after a restore, a receiver hears the end of each alert, and of none that it begins a second time.
func TestRestore(t *testing.T) {
	a, b, c := gpu("a"), gpu("b"), gpu("c")
	h := newHouse(t, a, b, c, gpu("d"), gpu("e"))
	k := newHook(t)
	h.receiver(alert.KindWebhook, "ops", k)
	stale(a)
	h.pass(2 * time.Minute)
	made := h.clock()
	h.must(h.store.NoteBackup(t.Context(), made))
	backup := filepath.Join(t.TempDir(), "backup.db")
	h.must(h.store.Backup(t.Context(), backup))
	h.back(a)
	stale(b)
	h.pass(2 * time.Minute)
	stale(c)
	h.pass(2 * time.Minute)
	h.want("before the restore", "node_stale b, node_stale c")
	h.must(h.store.Close())

	told, err := records.Told(t.Context(), h.path, made)
	h.must(err)
	h.path = backup
	h.openStore()
	h.must(records.New(h.store.Records()).Replace(t.Context(), *told))
	h.nodes = h.nodes[:2] // c joined after the backup
	h.open()
	h.pass(5 * time.Minute)
	h.want("after it", "node_stale b")
	h.back(b)
	h.pass(2 * time.Minute)
	h.want("all are back", "")
	if got := k.states(); strings.Count(got, "firing") != 3 || strings.Count(got, "resolved") != 3 {
		t.Errorf("the receiver heard %s", got)
	}
}
