package picture_test

import (
	"testing"

	"muster/gateway/internal/picture"
)

func TestAmount(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 0.126: "0.13", 9.999: "10", 12.34: "12.3", 812.6: "813", -3.456: "-3.46"} {
		if got := picture.Amount(value); got != want {
			t.Errorf("%g: got %s, want %s", value, got, want)
		}
	}
}
