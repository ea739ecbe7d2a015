package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// table is what the benchmark prints.
type table struct{ rows []tableRow }

type tableRow struct {
	figure, value, peer, ratio, budget, verdict string
	without                                     string // what the figure leaves out
}

// pairs are what was measured by turns: ours, theirs, ours, theirs. The ratio is the median of the rounds' ratios. A machine that is
// slow for a while slows both sides of a round, and does not change the ratio.
type pairs struct{ ours, theirs []float64 }

func (p *pairs) add(ours, theirs float64) {
	p.ours = append(p.ours, ours)
	p.theirs = append(p.theirs, theirs)
}

func (p *pairs) ratio() float64 {
	ratios := make([]float64, len(p.ours))
	for i := range ratios {
		ratios[i] = p.ours[i] / p.theirs[i]
	}
	return median(ratios)
}

// inTurn measures ours and theirs by turns.
func inTurn(ours, theirs func() float64) (p pairs) {
	for range benchRounds {
		p.add(ours(), theirs())
	}
	return p
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	if len(sorted) == 0 {
		return 0
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// limit is a budget for a ratio. The zero value is none.
type limit struct {
	least, most float64
}

// compare adds a figure beside its peer.
func (t *table) compare(figure, unit string, p pairs, peer string, l limit, without string) {
	ratio := p.ratio()
	r := tableRow{figure: figure, value: amount(median(p.ours)) + unit, peer: amount(median(p.theirs)) + unit + " " + peer,
		ratio: fmt.Sprintf("%.2f", ratio), budget: "-", verdict: "no budget", without: without}
	switch {
	case l.least > 0:
		r.judge(fmt.Sprintf("at least %.2f x", l.least), ratio >= l.least)
	case l.most > 0:
		r.judge(fmt.Sprintf("at most %.2f x", l.most), ratio <= l.most)
	}
	t.rows = append(t.rows, r)
}

func (r *tableRow) judge(budget string, met bool) {
	r.budget = budget
	r.verdict = "MISSED"
	if met {
		r.verdict = "ok"
	}
}

// bound adds a figure that has a fixed limit.
func (t *table) bound(figure, unit string, value, most float64, beside, without string) {
	t.note(figure, amount(value)+unit, beside, without)
	t.rows[len(t.rows)-1].judge("at most "+amount(most)+unit, value <= most)
}

// floor adds a figure that must not be less.
func (t *table) floor(figure, unit string, value, least float64, beside, without string) {
	t.note(figure, amount(value)+unit, beside, without)
	t.rows[len(t.rows)-1].judge("at least "+amount(least)+unit, value >= least)
}

// note adds a figure that has no budget.
func (t *table) note(figure, value, beside, without string) {
	t.rows = append(t.rows, tableRow{figure, value, beside, "-", "-", "no budget", without})
}

// notRun adds a figure that could not be measured.
func (t *table) notRun(figure, why string) {
	t.rows = append(t.rows, tableRow{figure, "-", "-", "-", "-", "NOT RUN", "not run: " + strings.Join(strings.Fields(why), " ")})
}

func amount(v float64) string {
	switch {
	case v >= 100, v == 0:
		return fmt.Sprintf("%.0f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4f", v)
}

func (t *table) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s, %s/%s, %d cores, %s, all programs on this machine\n", time.Now().UTC().Format(time.DateOnly), runtime.GOOS,
		runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.Version())
	fmt.Fprintf(out, "Value and peer are medians of %d rounds by turns (ours, theirs, ours, ...). "+
		"The ratio is the median of the rounds' own ratios.\n\n", benchRounds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tVALUE\tPEER\tRATIO\tBUDGET\tVERDICT")
	for _, r := range t.rows {
		fmt.Fprintln(w, strings.Join([]string{r.figure, r.value, r.peer, r.ratio, r.budget, r.verdict}, "\t"))
	}
	_ = w.Flush()
	fmt.Fprintln(out, "\nWhat the figures leave out, and what was not run:")
	for _, r := range t.rows {
		if r.without != "" {
			fmt.Fprintf(out, "- %s: %s\n", r.figure, r.without)
		}
	}
	fmt.Fprintln(out)
}
