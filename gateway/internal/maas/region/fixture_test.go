package region_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas/region"
)

// lab is a simulated MAAS, a client of it, and the clock of both. In a bubble there is no server.
type lab struct {
	*maassim.Sim
	t      *testing.T
	client *region.Client
	server *httptest.Server
	clock  *clock
}

type clock struct {
	mu     sync.Mutex
	now    time.Time
	waited time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// sleep passes the time at once.
func (c *clock) sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.waited = c.now.Add(d), c.waited+d
	return ctx.Err()
}

func newLab(t *testing.T, c maassim.Config) *lab {
	t.Helper()
	l := unserved(t, c)
	l.server = httptest.NewServer(l.Sim)
	t.Cleanup(l.server.Close)
	l.client = l.as(l.Key())
	return l
}

// bubbleLab is a lab inside a bubble of synctest: the time of a context is over when nobody has anything left to do, and never before.
func bubbleLab(t *testing.T) *lab {
	t.Helper()
	l := unserved(t, maassim.Config{})
	l.client = piped(t, l.ServeHTTP, region.Config{Key: l.Key(), Now: l.clock.Now, Sleep: l.clock.sleep})
	return l
}

func unserved(t *testing.T, c maassim.Config) *lab {
	l := &lab{t: t, clock: &clock{now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}}
	c.Now = l.clock.Now
	l.Sim = maassim.New(c)
	return l
}

// as is a client with another key.
func (l *lab) as(key string) *region.Client {
	l.t.Helper()
	c, err := region.New(region.Config{URL: l.server.URL, Key: key, Now: l.clock.Now, Sleep: l.clock.sleep})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(c.Close)
	return c
}

// pass lets time pass.
func (l *lab) pass(d time.Duration) {
	_ = l.clock.sleep(context.Background(), d)
	l.Tick()
}

// ready adds a machine that is Ready, and passed its commissioning.
func (l *lab) ready() string { return l.Add(maassim.Machine{Status: 4, Passed: true}) }

// held adds a machine that is Ready, and acquires it.
func (l *lab) held() string {
	l.t.Helper()
	id := l.ready()
	l.good(l.client.Acquire(l.t.Context(), id, "muster-1", ""))
	return id
}

// deployed adds a machine, and deploys it.
func (l *lab) deployed() string {
	l.t.Helper()
	id := l.held()
	l.good(l.client.Deploy(l.t.Context(), id, script))
	l.pass(10 * time.Second)
	if _, err := l.Fetch(id); err != nil {
		l.t.Fatal(err)
	}
	return id
}

var script = region.Deployment{UserData: []byte("#!/bin/sh\nexit 0\n")}

// good is a machine that was answered without an error.
func (l *lab) good(m region.Machine, err error) region.Machine {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
	return m
}

// is checks the status that MAAS tells.
func (l *lab) is(id string, status int) region.Machine {
	l.t.Helper()
	m := l.good(l.client.Machine(l.t.Context(), id))
	if m.Status != status {
		l.t.Fatalf("machine %s has status %d, want %d", id, m.Status, status)
	}
	return m
}

// refused checks how an operation failed, and with which words of MAAS; an empty text is not looked at.
func refused(t *testing.T, err error, kind region.Kind, status int, text string) *region.Error {
	t.Helper()
	var e *region.Error
	if !errors.As(err, &e) {
		t.Fatalf("the error is %v, want one of the package", err)
	}
	if e.Kind != kind || e.Status != status || text != "" && e.Text != text {
		t.Errorf("%v\nwant HTTP %d, %s, %q", e, status, kind, text)
	}
	return e
}
