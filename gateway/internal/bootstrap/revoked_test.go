package bootstrap_test

import (
	"testing"

	"muster/gateway/api"
)

// TestRevokedAtOnce: a token that was read a moment ago is read again once it is revoked.
func TestRevokedAtOnce(t *testing.T) {
	d := newFixture(t)
	_, row, err := d.MintToken(t.Context(), api.TokenRequest{}, operator)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := d.Credential(t.Context(), row.ID); err != nil || got.RevokedAt != nil {
		t.Fatalf("got %+v, %v", got, err)
	}
	if err := d.RevokeToken(t.Context(), "", row.ID, operator); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Credential(t.Context(), row.ID); err != nil || got.RevokedAt == nil {
		t.Errorf("got %+v, %v, want it revoked", got, err)
	}
}
