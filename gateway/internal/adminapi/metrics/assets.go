package metrics

import _ "embed"

// dashboard is a dashboard that Grafana imports. It asks for the data source.
//
//go:embed dashboard.json
var dashboard string

// alerts are alerting rules that Prometheus reads.
//
//go:embed alerts.yaml
var alerts string
