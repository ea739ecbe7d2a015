package flags

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// longestDays is the longest that ParseDuration takes: a hundred years.
const longestDays = 36500

// DurationError says what is wrong with a text that should be a duration.
type DurationError struct{ Text, Problem string }

func (e *DurationError) Error() string {
	return fmt.Sprintf("%.40q %s: write 30m, 12h or 7d", e.Text, e.Problem)
}

// ParseDuration reads Go's durations, and whole days such as 7d. Its error is a *DurationError.
func ParseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil && n <= longestDays {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	return 0, &DurationError{text, problem(text)}
}

func problem(text string) string {
	const digits = "0123456789"
	number := strings.TrimRight(text, "dhms")
	switch {
	case number == "" || strings.Trim(number, digits) != "":
		return "is no duration"
	case number == text:
		return "is no duration: it has no unit"
	}
	return fmt.Sprintf("is too long: %dd is the most", longestDays)
}
