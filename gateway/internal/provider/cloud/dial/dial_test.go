package dial_test

import (
	"testing"

	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/dial"
	"muster/gateway/internal/provider/market"
)

// TestCompany: each kind of company has its client, and another kind has none.
func TestCompany(t *testing.T) {
	t.Parallel()
	for _, kind := range cloud.Kinds() {
		if c, err := dial.Company(kind, market.Dial{Key: "0123456789"}); err != nil || c == nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := dial.Company("other", market.Dial{Key: "0123456789"}); err == nil {
		t.Error("another kind was taken")
	}
}
