package placement

// Queries that a large fleet asks often.
const (
	TakeQuery      = take
	OverQuotaQuery = "SELECT " + overQuota
	DueQuery       = "SELECT 1 FROM holds WHERE " + dueNow
)
