package store

import "time"

// ClaimableQuery finds a node's next task.
const ClaimableQuery = claimable

// TaskSweepQueries find the tasks that are overdue.
func TaskSweepQueries() []string {
	var all []string
	for _, e := range (TaskSweep{Silent: time.UnixMilli(1)}).endings() {
		all = append(all, e.numbers())
	}
	return all
}
