package api

import "time"

// MaxSecret is how many bytes the value of a secret has at most. Most are for one variable of a process, which takes no more on Linux.
const MaxSecret = 64 << 10

// Secret is what the gateway shows of a value that tasks use. The value itself is never shown.
type Secret struct {
	Name      string    `json:"name"` // by which the params of a task name it
	Tenant    string    `json:"tenant"`
	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at"`
	ChangedBy string    `json:"changed_by"`
}

// SecretList answers GET secrets.
type SecretList struct {
	Secrets []Secret `json:"secrets"`
}

// SecretRequest gives a secret its value.
type SecretRequest struct {
	Value string `json:"value"`
}
