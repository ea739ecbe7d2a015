package screen

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Unknown is printed for a value that is not known: never a zero.
const Unknown = "-"

// OrUnknown returns the text made safe to print, or - if there is none.
func OrUnknown(s string) string {
	if s == "" {
		return Unknown
	}
	return Printable(s)
}

// Model returns the name of a GPU's model. The maker NVIDIA is left out.
func Model(name string) string { return OrUnknown(strings.TrimPrefix(name, "NVIDIA ")) }

// Number returns a number, or - if it is not known.
func Number[N int | int64](n *N) string { return Figure("%d", n) }

// Figure returns a number in a format, or - if it is not known.
func Figure[N int | int64 | float64](format string, n *N) string {
	if n == nil {
		return Unknown
	}
	return fmt.Sprintf(format, *n)
}

// Money returns an amount in the currency of the prices, or - if it is not known.
func Money(m *float64) string { return Figure("%.2f", m) }

// Price returns what an hour costs, with two to four decimals, or - if it is not known.
func Price(p *float64) string {
	if p == nil {
		return Unknown
	}
	text := strings.TrimRight(strconv.FormatFloat(*p, 'f', 4, 64), "0")
	return text + strings.Repeat("0", max(0, 2-(len(text)-1-strings.IndexByte(text, '.'))))
}

// Stamp returns a time in UTC, or - if it is not known.
func Stamp(at *time.Time) string {
	if at == nil {
		return Unknown
	}
	return at.UTC().Format(time.RFC3339)
}

// Age returns a duration as people say it: 12s, 4m, 3h, 2d.
func Age(d time.Duration) string {
	switch {
	case d < time.Second:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// Ago returns how long ago a time was: "3h ago".
func Ago(now, at time.Time) string { return Age(now.Sub(at)) + " ago" }

// Since returns how long ago a time was, or - if it is not known.
func Since(now time.Time, at *time.Time) string {
	if at == nil {
		return Unknown
	}
	return Ago(now, *at)
}

// YesNo returns "yes" or "no".
func YesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// When says how far off a time is that may be past or still to come: "in 3h" or "2d ago".
func When(now, end time.Time) string {
	if now.Before(end) {
		return "in " + Age(upward(end.Sub(now)))
	}
	return Ago(now, end)
}

// upward rounds up to the next smaller unit than Age writes, so that an end in two hours is not "in 1h" a moment later.
func upward(d time.Duration) time.Duration {
	unit := time.Second
	switch {
	case d > 24*time.Hour:
		unit = time.Hour
	case d > time.Hour:
		unit = time.Minute
	}
	return (d + unit - 1).Truncate(unit)
}

// Plural returns "1 node" or "3 nodes".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Labels returns a node's labels in one line, or - if there are none.
func Labels(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for key, value := range labels {
		pairs = append(pairs, Printable(key+"="+value))
	}
	sort.Strings(pairs)
	return OrUnknown(strings.Join(pairs, ","))
}
