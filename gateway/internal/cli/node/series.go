package node

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

const formatCSV = "csv"

func seriesCommand() cli.Command {
	return cli.Command{Name: "node series", Args: "NODE METRIC", Least: 1, Most: 2,
		Flags: []string{"since", "until", "step", "value", "output"}, Run: cli.With(nodeSeries),
		Forms:   []string{cli.FormTable, cli.FormJSON, formatCSV},
		Summary: "plot what a node and its GPUs said",
		Text: metricsText + "\n\n" +
			"The plot has a bar for each piece of the time, and " + plotGap + " if nothing was heard. The output is table, json or csv. " +
			"A step of less than a minute gives the samples themselves; muster help history says how long they are kept.",
		Examples: []string{"muster node series gpu-1 gpu_power_watts", "muster node series gpu-1 gpu_utilization_percent --since 7d --step 1h",
			"muster node series gpu-1 gpu_temperature_celsius --value most -o csv > gpu-1.csv"}}
}

const metricsText = "Metrics of GPUs are gpu_utilization_percent, gpu_memory_used_mib, gpu_temperature_celsius, gpu_power_watts and gpu_sm_mhz. " +
	"Those of a node are load1, memory_used_mib, disk_used_mib, agent_rss_kib, agent_cpu_percent, probe_ms and heard."

// seriesFlags are those of node series.
type seriesFlags struct{ Since, Until, Step time.Duration }

func nodeSeries(ctx context.Context, s *cli.Session, o seriesFlags) error {
	if len(s.Words) < 2 {
		return cli.Usagef("write muster node series "+s.Words[0]+" gpu_utilization_percent. "+metricsText, "of which metric?")
	}
	q, err := seriesQuery(s, o)
	if err != nil {
		return err
	}
	answer, err := cli.Get[api.Series](ctx, s, api.At(api.PathSeries, s.Words[0]), q)
	switch {
	case err != nil:
		return err
	case s.Form == cli.FormJSON:
		return s.WriteJSON(answer)
	case s.Form == formatCSV:
		return seriesCSV(s, answer)
	}
	return seriesTable(s, q, answer)
}

// seriesQuery reads the flags. Times are written from now backwards.
func seriesQuery(s *cli.Session, o seriesFlags) (api.SeriesQuery, error) {
	o.Since = cmp.Or(o.Since, time.Hour)
	if o.Until >= o.Since {
		return api.SeriesQuery{}, cli.Usagef("--until is nearer to now than --since", "this time ends before it begins")
	}
	if o.Step > 0 && o.Step < time.Second {
		return api.SeriesQuery{}, cli.Usagef("at least 1s", "--step is too short")
	}
	value, err := s.Flags.OneOf("value", "", "mean", "least", "most")
	now := s.Now().Truncate(time.Second)
	return api.SeriesQuery{Metric: s.Words[1], Since: now.Add(-o.Since), Until: now.Add(-o.Until), Step: int64(o.Step / time.Second),
		Value: value}, err
}

// seriesCSV writes a row for each point. The cell of a missing value is empty.
func seriesCSV(s *cli.Session, answer api.Series) error {
	w := csv.NewWriter(s.Stdout)
	err := w.Write([]string{"time", "gpu", answer.Metric})
	for _, t := range answer.Series {
		for _, p := range t.Points {
			row := []string{pointTime(p).Format(time.RFC3339), screen.Printable(t.GPU), ""}
			if p[1] != nil {
				row[2] = strconv.FormatFloat(*p[1], 'f', -1, 64)
			}
			err = errors.Join(err, w.Write(row))
		}
	}
	w.Flush()
	return errors.Join(err, w.Error())
}

func pointTime(p api.SeriesPoint) time.Time {
	if p[0] == nil {
		return time.Time{}
	}
	return time.Unix(int64(*p[0]), 0).UTC()
}

// seriesTable writes a line with a plot for each track. All plots have one scale.
func seriesTable(s *cli.Session, q api.SeriesQuery, answer api.Series) error {
	columns := []screen.Column{{Name: "GPU", Least: 12, Rank: 5}, {Name: "LAST"}, {Name: "MEAN", Rank: 3}, {Name: "LEAST", Rank: 2},
		{Name: "MOST", Rank: 1}, {Name: "PLOT"}}
	scale := scaleOf(answer)
	rows := make([][]string, 0, len(answer.Series))
	for _, t := range answer.Series {
		f := figuresOf(t)
		rows = append(rows, []string{t.GPU, figure(f.last), figure(f.mean), figure(f.least), figure(f.most),
			plot(t, q.Since, q.Until, plotWidth(s.Screen()), scale)})
	}
	if err := s.List(columns).Write(rows); err != nil {
		return err
	}
	unit := answer.Unit
	if unit != "" {
		unit = " in " + unit
	}
	fmt.Fprintf(s.Stdout, "%s%s, %s to %s, a value each %s", answer.Metric, unit, screen.Stamp(&q.Since), screen.Stamp(&q.Until),
		screen.Age(time.Duration(answer.StepSeconds)*time.Second))
	switch {
	case scale.known && scale.least == scale.most:
		fmt.Fprintf(s.Stdout, "; it was always %s, %s is a gap", figure(&scale.least), plotGap)
	case scale.known:
		fmt.Fprintf(s.Stdout, "; ▁ is %s, █ is %s, %s is a gap", figure(&scale.least), figure(&scale.most), plotGap)
	}
	fmt.Fprintln(s.Stdout)
	if len(answer.Series) == 0 || !scale.known {
		fmt.Fprintln(s.Stderr, "nothing was heard in that time; muster help history says how long samples are kept")
	}
	return nil
}
