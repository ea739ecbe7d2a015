package rqlite

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// least is the oldest version of rqlite that is asked: before it, a linearizable read could be answered by a leader of the past (its
// changelog, 8.32.3).
const least = "8.32.3"

// tooOld is an error if the node that sent these headers has an older version than least. A version in another form is that of somebody who
// has built it: it passes.
func tooOld(headers http.Header) error {
	version := headers.Get("X-RQLITE-VERSION")
	if numbers, ok := numbered(version); ok {
		if wanted, _ := numbered(least); slices.Compare(numbers, wanted) < 0 {
			return fmt.Errorf("this node of rqlite is of version %.20s: upgrade it to %s or newer", version, least)
		}
	}
	return nil
}

func numbered(version string) (numbers []int, ok bool) {
	for part := range strings.SplitSeq(strings.TrimPrefix(version, "v"), ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	return numbers, true
}
