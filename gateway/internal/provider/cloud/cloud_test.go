package cloud_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/provider/cloud"
)

// TestRefusal: what callers are told of each way in which a company can fail. All else stays as it is.
func TestRefusal(t *testing.T) {
	t.Parallel()
	for kind, code := range map[string]string{cloud.KeyRefused: wire.CodeProviderFailed, cloud.NoSuch: wire.CodeNotFound,
		cloud.NoOffer: wire.CodeNoCapacity, cloud.Limited: wire.CodeUnavailable, cloud.Refused: wire.CodeProviderFailed,
		cloud.Unclear: wire.CodeProviderFailed, cloud.Unreached: wire.CodeUnavailable} {
		err := cloud.Refusal(fmt.Errorf("start: %w", &cloud.Error{Kind: kind, Status: 409, Text: "no_such_ask"}), "it does not start", "wait")
		var refused *wire.ErrorDetail
		if !errors.As(err, &refused) || refused.Code != code || !strings.HasPrefix(refused.Message, "it does not start: HTTP 409: no_such_ask") ||
			refused.Hint == "" {
			t.Errorf("%s: %+v, want %s", kind, refused, code)
		}
	}
	other := errors.New("the database is closed")
	if got := cloud.Refusal(other, "x", "y"); got != other {
		t.Errorf("got %v", got)
	}
}
