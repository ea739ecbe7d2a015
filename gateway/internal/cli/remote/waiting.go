package remote

import (
	"fmt"
	"sync"
	"time"

	"muster/agent/pipe"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// soon is how long a node may take before a line says that it is waited for.
const soon = time.Second

// begin waits until a session has begun. say is told where that takes a while.
func begin(s *cli.Session, a *Session, say func(string)) (pipe.Ready, error) {
	stop := s.After(soon, func() { say("waiting for " + a.Node + "; ^C gives up") })
	defer stop()
	return a.Begin()
}

// sayer prints lines of muster's own on standard error. It is safe for concurrent use.
func sayer(s *cli.Session) func(string) {
	var mu sync.Mutex
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(s.Stderr, "muster: %s\n", screen.Printable(line))
	}
}
