package api

import "time"

// SeriesQuery asks for one metric of a node. The gateway chooses the value of a zero field.
type SeriesQuery struct {
	Metric string    `json:"metric,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	Step   int64     `json:"step,omitempty" most:"31536000"` // in seconds
	Value  string    `json:"value,omitempty"`                // mean, least or most
}

// Series answers GET nodes/{node}/series.
type Series struct {
	Metric      string        `json:"metric"`
	Unit        string        `json:"unit"`
	StepSeconds int64         `json:"step_seconds"`
	Series      []SeriesTrack `json:"series"`
}

// SeriesTrack is one line of a plot: of one GPU, or of the node itself if GPU is empty.
type SeriesTrack struct {
	GPU    string        `json:"gpu"`
	Points []SeriesPoint `json:"points"`
}

// SeriesPoint is [unix seconds, value]. The value is null if nothing was heard: a gap, never 0.
type SeriesPoint [2]*float64
