package remote

import (
	"context"
	"fmt"
	"time"

	"muster/agent/pipe"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// soon is how long a node may take before a line says that it is waited for.
const soon = time.Second

// begin waits until a session has begun. say is told where that takes a while.
func begin(s *cli.Session, a *Session, say func(string)) (pipe.Ready, error) {
	waiting, stop := context.WithCancel(context.Background())
	said := make(chan struct{})
	go func() {
		defer close(said)
		if s.Pause(waiting, soon) == nil && waiting.Err() == nil {
			say("waiting for " + a.Node + "; ^C gives up")
		}
	}()
	ready, err := a.Begin()
	stop()
	<-said
	return ready, err
}

// sayer prints lines of muster's own on standard error.
func sayer(s *cli.Session) func(string) {
	return func(line string) { fmt.Fprintf(s.Stderr, "muster: %s\n", screen.Printable(line)) }
}
