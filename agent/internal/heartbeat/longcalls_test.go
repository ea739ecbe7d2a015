package heartbeat_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/internal/heartbeat"
	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
)

// patience bounds a run that does not get there.
const patience = 10 * time.Minute

// beatInterval is short, so that the certificate is renewed on time.
const beatInterval = 300 * time.Millisecond

// TestLongCalls is an agent for a test of the gateway, which runs this test binary. Beside its heartbeats it makes calls that take seconds,
// in both directions, while its certificate is renewed. It ends when the certificate is of the wanted generation and calls of each kind
// were done under it. Then it writes in JSON how many calls were done, cut, refused or lost. Variables say what it works with.
func TestLongCalls(t *testing.T) {
	result := os.Getenv("LONG_CALLS")
	if result == "" {
		t.Skip("the test of the gateway runs it")
	}
	generation, err := strconv.Atoi(os.Getenv("GENERATION"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // no deadline: curl would take its own limit from it
	time.AfterFunc(patience, cancel)
	tally, err := longCalls(ctx, cancel, os.Getenv("GATEWAY"), t.TempDir(), transport.Way(os.Getenv("WAY")), generation)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(tally)
	if err == nil {
		err = os.WriteFile(result, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// longCalls enrols and makes calls until enough is done, or ctx is.
func longCalls(ctx context.Context, enough func(), gateway, path string, way transport.Way, generation int) (*tally, error) {
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

// The routes are those of the test that runs this program.
const (
	size  = 2 << 20               // bytes of a body, more than wire.MaxBody
	piece = 64 << 10              // bytes until the next pause
	pause = 40 * time.Millisecond // in which nothing is written
)

// calls are the loops beside the heartbeat.
type calls struct {
	client     *transport.Client
	node       string
	generation func() int // of the certificate that is in use
	until      int        // the generation under which a call of each kind is to be done
	enough     func()     // is called then

	mu    sync.Mutex
	tally tally
	last  map[string]bool // kinds of calls that were done under that generation
}

// kinds is how many kinds of calls there are.
const kinds = 3

func (c *calls) path(name string) string { return "/test/" + c.node + "/" + name }

// wait asks for something that takes its time.
func (c *calls) wait(ctx context.Context) error {
	_, err := c.client.Do(ctx, transport.Request{Path: c.path("wait"), Timeout: time.Minute})
	return err
}

// upload sends a body, which the gateway takes slowly. It answers with its digest.
func (c *calls) upload(ctx context.Context) error {
	data := bytes.Repeat([]byte("upload! "), size/8)
	answer, err := c.client.Do(ctx,
		transport.Request{Path: c.path("upload"), Kind: "application/octet-stream", Body: data, Timeout: time.Minute})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	var got string
	if err := json.Unmarshal(answer.Body, &got); err != nil || got != hex.EncodeToString(sum[:]) {
		return errors.New("the gateway has other bytes than were sent")
	}
	return nil
}

// download takes a large answer slowly.
func (c *calls) download(ctx context.Context) error {
	into := &slowWriter{}
	content := `"` + strings.Repeat("x", size) + "\"\n"
	sum := sha256.Sum256([]byte(content))
	download := &transport.Download{To: into, Digest: hex.EncodeToString(sum[:])}
	_, err := c.client.Do(ctx, transport.Request{Path: c.path("download"), Into: download, Timeout: time.Minute})
	if err != nil {
		return err
	}
	if into.String() != content {
		return errors.New("other bytes arrived than were sent")
	}
	return nil
}

// slowWriter writes like a file on a slow disk. Without the pauses a call would end before the certificate is renewed.
type slowWriter struct {
	bytes.Buffer
	last int
}

func (s *slowWriter) Write(data []byte) (int, error) {
	if s.Len()-s.last >= piece {
		s.last = s.Len()
		time.Sleep(pause)
	}
	return s.Buffer.Write(data)
}
