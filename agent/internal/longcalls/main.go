// Command longcalls is an agent for tests. Beside its heartbeats it makes calls that take seconds, in both directions, while its
// certificate is renewed. At the end it prints in JSON how many calls were done, cut, refused or lost.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"muster/agent/internal/heartbeat"
	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
)

// patience bounds a run that does not get there.
const patience = 10 * time.Minute

// beatInterval is short, so that the certificate is renewed on time.
const beatInterval = 300 * time.Millisecond

func main() {
	gateway := flag.String("gateway", "", "the gateway's URL")
	state := flag.String("state", "", "the state directory")
	way := flag.String("transport", "direct", "direct or curl")
	generation := flag.Int("generation", 2, "go on until the certificate is of this generation and calls of each kind were done under it")
	flag.Parse()
	ctx, cancel := context.WithCancel(context.Background()) // no deadline: curl would take its own limit from it
	time.AfterFunc(patience, cancel)
	tally, err := run(ctx, cancel, *gateway, *state, transport.Way(*way), *generation)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(tally) // a test that reads nothing fails
}

// run enrols and makes calls until enough is done, or ctx is.
func run(ctx context.Context, enough func(), gateway, path string, way transport.Way, generation int) (*tally, error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	client, err := transport.New(transport.Config{Gateway: gateway, Version: "test", Way: way, Logger: logger})
	if err != nil {
		return nil, err
	}
	directory, err := identity.Open(path)
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	credential, err := identity.ParseCredential(os.Getenv("MUSTER_TOKEN"))
	if err != nil {
		return nil, err
	}
	name := os.Getenv("NAME")
	state, err := identity.Enrol(ctx, identity.State{}, identity.Enrolment{Client: client, Directory: directory, Credential: credential, Name: name})
	if err != nil {
		return nil, err
	}
	loop, err := heartbeat.New(heartbeat.Config{Client: client, Directory: directory, State: state, Interval: beatInterval, Logger: logger})
	if err != nil {
		return nil, err
	}
	calls := &calls{client: client, node: state.NodeID, enough: enough, until: generation, generation: func() int {
		now, err := identity.Read(path)
		if err != nil || now.Current == nil {
			return 0
		}
		return now.Current.Generation
	}}
	calls.last = map[string]bool{}
	calls.tally = tally{Modes: map[string]int{}, Done: map[string]int{}, Refused: map[string]int{}}
	var group sync.WaitGroup
	group.Go(func() { _ = loop.Run(ctx) }) // always nil
	for kind, call := range map[string]func(context.Context) error{"wait": calls.wait, "upload": calls.upload, "download": calls.download} {
		group.Go(func() { calls.repeat(ctx, kind, call) })
	}
	group.Wait()
	end, err := directory.Load()
	calls.tally.Generation = end.Current.Generation
	return &calls.tally, err
}

// tally is what became of the calls.
type tally struct {
	Modes      map[string]int `json:"modes"`      // how the calls that were done proved the node
	Generation int            `json:"generation"` // of the certificate in use at the end
	Done       map[string]int `json:"done"`
	Cut        int            `json:"cut"`     // because the identity changed
	Refused    map[string]int `json:"refused"` // by code
	Lost       []string       `json:"lost"`    // other errors
}

func (c *calls) repeat(ctx context.Context, kind string, call func(context.Context) error) {
	for ctx.Err() == nil {
		err := call(ctx)
		if ctx.Err() == nil {
			c.count(kind, err)
		}
	}
}

func (c *calls) count(kind string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var refusal *transport.Refusal
	switch {
	case err == nil:
		c.tally.Done[kind]++
		c.tally.Modes[c.client.Mode()]++
		if c.generation() >= c.until {
			c.last[kind] = true
		}
		if len(c.last) == kinds {
			c.enough()
		}
	case errors.Is(err, transport.ErrIdentityChanged):
		c.tally.Cut++
	case errors.As(err, &refusal):
		c.tally.Refused[refusal.Code]++
	case len(c.tally.Lost) < 10:
		c.tally.Lost = append(c.tally.Lost, kind+": "+err.Error())
	}
}
