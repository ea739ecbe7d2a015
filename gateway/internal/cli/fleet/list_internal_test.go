package fleet

import "testing"

func TestParseMemory(t *testing.T) {
	for text, want := range map[string]int64{
		"40GiB": 40960, "40g": 40960, "40 GB": 40960, "0.5TiB": 524288, "500MiB": 500, "1.0001GiB": 1025,
		"": 0, "40": 0, "GiB": 0, "-1GiB": 0, "0GiB": 0, "NaNGiB": 0, "1e30TiB": 0, "40KiB": 0, "40GiBs": 0, "4g0": 0, "InfG": 0,
	} {
		if got, err := parseMemory(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
}

func FuzzParseMemory(f *testing.F) {
	f.Add("40GiB")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := parseMemory(text); err == nil && (n <= 0 || n > 1<<40) {
			t.Errorf("%q: %d", text, n)
		}
	})
}
