package shape

import (
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/history"
)

// Series is what was said of one metric.
func Series(s history.Series) api.Series {
	out := api.Series{Metric: s.Metric.Name, Unit: s.Metric.Unit, StepSeconds: int64(s.Step / time.Second),
		Series: make([]api.SeriesTrack, 0, len(s.Tracks))}
	for _, t := range s.Tracks {
		track := api.SeriesTrack{GPU: t.GPU, Points: make([]api.SeriesPoint, 0, len(t.Points))}
		for _, p := range t.Points {
			at := float64(p.At.Unix())
			track.Points = append(track.Points, api.SeriesPoint{&at, p.Value})
		}
		out.Series = append(out.Series, track)
	}
	return out
}
