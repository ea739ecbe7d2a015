package shipping_test

import (
	"slices"
	"testing"

	"muster/store/shipping"
	"muster/store/storetest"
)

// TestRules: the rules are listed by name, and other secrets are not.
func TestRules(t *testing.T) {
	s := storetest.Open(t, nil)
	for _, name := range []string{shipping.SecretName("prod"), "another", shipping.SecretName("lab")} {
		if err := s.SetSecret(t.Context(), name, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	names, err := shipping.New(s.Records()).Rules(t.Context())
	if err != nil || !slices.Equal(names, []string{"lab", "prod"}) {
		t.Errorf("%v, error %v", names, err)
	}
}
