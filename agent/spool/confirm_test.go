package spool_test

import "testing"

// TestConfirmAhead: a number that no record has yet confirms no later record.
func TestConfirmAhead(t *testing.T) {
	s := open(t, t.TempDir(), 1<<20)
	put(t, s)
	must(t, s.Confirm(100))
	want := put(t, s)
	r := s.Untaken()
	defer r.Close()
	got, err := r.Next(1 << 20)
	must(t, err)
	if len(got) != 1 || got[0].Number != want {
		t.Errorf("not taken yet: %+v, want number %d", got, want)
	}
}
