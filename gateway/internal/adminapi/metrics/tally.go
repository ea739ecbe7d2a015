package metrics

import (
	"cmp"
	"context"
	"maps"
	"strconv"
	"strings"
	"sync"

	"muster/store"
)

// mostHappenings bounds the counters of events. Kinds and outcomes are words of the gateway, so there are far fewer.
const mostHappenings = 300

// other is the kind of events for which there is no room.
const other = "other"

// happening is what events have in common that are counted together.
type happening struct{ kind, outcome string }

func (h happening) compare(with happening) int {
	return cmp.Or(strings.Compare(h.kind, with.kind), strings.Compare(h.outcome, with.outcome))
}

// Tally counts the events of the log since the gateway started. The zero value is ready. It is safe for concurrent use.
type Tally struct {
	mu    sync.Mutex
	count map[happening]int64
}

// Take counts events. An event that stands for many, because there were too many to record each, says for how many.
func (t *Tally) Take(_ context.Context, events []store.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == nil {
		t.count = map[happening]int64{}
	}
	for _, e := range events {
		n, err := strconv.ParseInt(e.Detail["more"], 10, 64)
		if err != nil || n < 1 {
			n = 1
		}
		h := happening{e.Kind, e.Outcome}
		if _, known := t.count[h]; !known && len(t.count) >= mostHappenings {
			h = happening{kind: other}
		}
		t.count[h] += n
	}
}

func (t *Tally) all() map[happening]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.count)
}
