package registry_test

import (
	"testing"
	"time"

	"muster/store/registry"
	"muster/store/storetest"
)

// TestDropBlobLost: whether the record of a blob went, and its file has to, is known also if the answer to the write is lost.
func TestDropBlobLost(t *testing.T) {
	s := storetest.OpenLost(t, func() time.Time { return start })
	r := registry.On(s.Records())
	ctx := t.Context()
	for _, digest := range []string{"held", "free"} {
		if err := r.AddBlob(ctx, "a", registry.Blob{Digest: digest, Size: 1}, start.Add(-2*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := r.Collect(ctx, start); err != nil { // nothing names them
		t.Fatal(err)
	}
	if err := r.AddBlob(ctx, "a", registry.Blob{Digest: "held", Size: 1}, start); err != nil {
		t.Fatal(err)
	}
	for digest, want := range map[string]bool{"held": false, "free": true} {
		if got, err := r.DropBlob(ctx, digest); err != nil || got != want {
			t.Errorf("%s: got %v, %v", digest, got, err)
		}
	}
}
