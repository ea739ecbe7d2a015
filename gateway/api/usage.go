package api

import "time"

// GPUUseList answers GET nodes/{node}/gpu-uses: those that go on first, then those that were seen last.
type GPUUseList struct {
	Uses  []GPUUse `json:"uses"`
	Total int      `json:"total"` // that there are, also beyond the limit
}

// GPUUse says who worked on a GPU from when to when, to a few minutes. What the agent could not see is empty.
type GPUUse struct {
	GPU        string    `json:"gpu"`        // UUID
	Index      *int      `json:"index"`      // of the GPU on its node now; null: it is not there any more
	User       string    `json:"user"`       // on the node
	Program    string    `json:"program"`    // processes of one user and program in one container are one use
	Container  string    `json:"container"`  // the first 12 digits of its id, or its name with LXC; empty: none
	Allocation string    `json:"allocation"` // that it worked for, or that had the GPU; empty: none
	Owner      string    `json:"owner"`      // of the allocation
	From       time.Time `json:"from"`
	Until      time.Time `json:"until"`      // when it was last seen
	Now        bool      `json:"now"`        // the last look saw it
	MemoryMiB  *int64    `json:"memory_mib"` // the most that was seen; null: not known
}

// GPUUseFilter picks uses. A zero field does not count.
type GPUUseFilter struct {
	Since time.Time `json:"since,omitzero"` // those that were seen then or later
	Limit int       `json:"limit,omitempty" most:"1000" usual:"200"`
}
