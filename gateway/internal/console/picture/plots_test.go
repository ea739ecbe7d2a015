package picture_test

import (
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/console/picture"
)

// TestTurns: lines that go the same way to a pixel are seen by turns, and another one is whole.
func TestTurns(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	var answer api.Series
	for _, values := range [][]float64{{50, 60}, {20, 60}, {50.1, 60}, {50, 59.9}, nil, nil} {
		track := api.SeriesTrack{GPU: "GPU"}
		for i, v := range values {
			at := float64(begin.Unix() + int64(i)*60)
			track.Points = append(track.Points, api.SeriesPoint{&at, &v})
		}
		answer.Series = append(answer.Series, track)
	}
	f := picture.FigureOf(picture.Chart{Scale: 1, Percent: true}, picture.Asked{Since: begin, Until: begin.Add(time.Hour)}, answer)
	for i, want := range []picture.Line{{Dash: "6 12"}, {}, {Dash: "6 12", Shift: -6}, {Dash: "6 12", Shift: -12}, {}, {}} {
		if got := f.Lines[i]; got.Dash != want.Dash || got.Shift != want.Shift {
			t.Errorf("line %d: %q from %d", i, got.Dash, got.Shift)
		}
	}
}

func TestAmount(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 0.126: "0.13", 9.999: "10", 12.34: "12.3", 812.6: "813", -3.456: "-3.46"} {
		if got := picture.Amount(value); got != want {
			t.Errorf("%g: got %s, want %s", value, got, want)
		}
	}
}
