package shape

import (
	"time"

	"muster/gateway/internal/client"
	"muster/gateway/internal/history"
)

// Series is what was said of one metric.
func Series(s history.Series) client.Series {
	out := client.Series{Metric: s.Metric.Name, Unit: s.Metric.Unit, StepSeconds: int64(s.Step / time.Second),
		Series: make([]client.SeriesTrack, 0, len(s.Tracks))}
	for _, t := range s.Tracks {
		track := client.SeriesTrack{GPU: t.GPU, Points: make([]client.SeriesPoint, 0, len(t.Points))}
		for _, p := range t.Points {
			at := float64(p.At.Unix())
			track.Points = append(track.Points, client.SeriesPoint{&at, p.Value})
		}
		out.Series = append(out.Series, track)
	}
	return out
}
