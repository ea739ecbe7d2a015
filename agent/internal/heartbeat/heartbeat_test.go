package heartbeat_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/disk/disktest"
	"muster/agent/internal/heartbeat"
	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// node is one enrolled machine with its gateway, in synthetic time.
type node struct {
	g      *gatewaytest.Gateway
	pipe   *gatewaytest.Pipe
	cfg    heartbeat.Config
	secure bool
	log    bytes.Buffer
}

func newNode(t *testing.T, secure bool, change func(*gatewaytest.Gateway)) *node {
	t.Helper()
	n := &node{g: gatewaytest.New(t), secure: secure}
	if change != nil {
		change(n.g)
	}
	cfg := transport.Config{Gateway: "http://" + gatewaytest.Host}
	if secure {
		cfg.Gateway = "https://" + gatewaytest.Host
		n.pipe = gatewaytest.ServePipe(t, n.g, n.g.Serving(t))
	} else {
		n.pipe = gatewaytest.ServePipe(t, n.g, nil)
	}
	cfg.Dial = n.pipe.Dial
	client, err := transport.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	directory, err := identity.Open(disktest.Folder(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { directory.Close() })
	state := n.g.Node(t)
	if err := directory.Save(state); err != nil {
		t.Fatal(err)
	}
	n.cfg = heartbeat.Config{Client: client, Directory: directory, State: state, Logger: slog.New(slog.NewTextHandler(&n.log, nil))}
	return n
}

// run lets the agent work for this long.
func (n *node) run(t *testing.T, length time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	loop, err := heartbeat.New(n.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := loop.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func (n *node) status(t *testing.T) identity.Status {
	t.Helper()
	s, err := identity.ReadStatus(n.cfg.Directory.Path())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func decode(t *testing.T, r gatewaytest.Request) wire.HeartbeatRequest {
	t.Helper()
	var h wire.HeartbeatRequest
	if err := json.Unmarshal(r.Body, &h); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestPace(t *testing.T) {
	for _, test := range []struct {
		name     string
		wish     int // seconds, the gateway's
		interval time.Duration
		want     time.Duration
	}{
		{"default", 0, 0, 30 * time.Second}, {"the gateway's wish", 12, 0, 12 * time.Second}, {"too fast a wish", 1, 0, 5 * time.Second},
		{"too slow a wish", 86400, 0, 10 * time.Minute}, {"a wish that overflows", 1 << 40, 0, 10 * time.Minute},
		{"a negative wish", -5, 0, 30 * time.Second}, {"the operator's", 12, 100 * time.Millisecond, 100 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, false, func(g *gatewaytest.Gateway) { g.Interval = test.wish })
				n.cfg.Interval = test.interval
				started := time.Now()
				n.run(t, 40*test.want)
				got := n.g.Requests("/heartbeat")[1:] // the first one only learned the epoch
				if !got[0].At.Equal(started) {
					t.Errorf("the first beat went out after %s", got[0].At.Sub(started))
				}
				gaps := map[time.Duration]bool{}
				run := decode(t, got[0]).RunID
				for i, r := range got {
					h := decode(t, r)
					if h.RunID != run || len(run) != 32 || h.Counter != uint64(i+1) || h.IntervalSeconds != test.want.Seconds() {
						t.Errorf("beat %d: %+v", i, h)
					}
					if i > 0 {
						gap := r.At.Sub(got[i-1].At)
						gaps[gap] = true
						if gap < test.want*9/10 || gap > test.want*11/10+10*time.Millisecond {
							t.Errorf("beat %d after %s", i, gap)
						}
					}
				}
				if len(got) < 36 || len(gaps) < 10 {
					t.Errorf("%d beats, %d different gaps", len(got), len(gaps))
				}
			})
		})
	}
}

func TestWhatABeatCarries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		var reading atomic.Pointer[json.RawMessage]
		wake := make(chan struct{}, 1)
		rss := int64(7)
		n.cfg.Wake = wake
		reading.Store(new(json.RawMessage))
		n.cfg.Fill = func(r *wire.HeartbeatRequest) {
			r.Hardware = *reading.Load()
			r.Cost = wire.Cost{RSSKiB: &rss}
		}
		n.cfg.Notices = func() []string { return []string{"no disk"} }
		n.cfg.Agent = wire.AgentInfo{Version: "1.2.3"}
		go func() {
			time.Sleep(2 * time.Second)
			reading.Store(new(json.RawMessage(`{"cpus":2}`)))
			wake <- struct{}{}
		}()
		n.run(t, 5*time.Second)
		got := n.g.Requests("/heartbeat")[1:]
		if len(got) != 2 {
			t.Fatalf("%d beats, want one at once and one with the news", len(got))
		}
		first := decode(t, got[0])
		second := decode(t, got[1])
		if first.Hardware != nil || string(second.Hardware) != `{"cpus":2}` || *second.Cost.RSSKiB != 7 ||
			!slices.Equal(second.Notices, []string{"no disk"}) || second.Agent.Version != "1.2.3" {
			t.Errorf("%+v, %+v", first, second)
		}
		if s := n.status(t); s.Phase != identity.PhaseOnline || s.State != "active" || s.LastContact == nil ||
			s.Transport != "signed" || s.NodeID != gatewaytest.NodeID {
			t.Errorf("status %+v", s)
		}
	})
}

// A value that is not known goes out as null. The agent takes the gateway's number of GPUs from a proven answer alone.
func TestHealthAndWhatIsExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var proven atomic.Bool
		n := newNode(t, false, nil)
		n.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
			if !strings.HasSuffix(q.Path, "/heartbeat") || q.Signature == nil || !strings.HasPrefix(q.Signature.Nonce, n.g.Epoch) {
				return nil
			}
			expected := 7
			reply := n.g.JSON(200, wire.HeartbeatAnswer{State: "active", Epoch: n.g.Epoch, Time: n.g.Now(), GPUsExpected: &expected})
			reply.Unproven = !proven.Load()
			return reply
		}
		var told []int
		seen := 6
		looked := false
		n.cfg.Expect = func(gpus int) { told = append(told, gpus) }
		n.cfg.Fill = func(r *wire.HeartbeatRequest) {
			if looked {
				r.Health = []string{wire.HealthGPUCountDropped}
				r.HealthDetail = map[string]string{wire.HealthGPUCountDropped: "GPU-1"}
				r.GPUsSeen = &seen
			}
		}
		n.run(t, time.Minute)
		if len(told) != 0 {
			t.Errorf("an unproven answer said what is expected: %v", told)
		}
		proven.Store(true)
		n.run(t, time.Minute)
		before := len(n.g.Requests("/heartbeat"))
		if len(told) == 0 || told[0] != 7 {
			t.Errorf("told %v, want 7", told)
		}
		looked = true
		n.run(t, time.Second)
		all := n.g.Requests("/heartbeat")
		first := all[0]
		last := all[len(all)-1]
		if !strings.Contains(string(first.Body), `"health":null`) || strings.Contains(string(first.Body), "gpus_seen") {
			t.Errorf("before a look: %s", first.Body)
		}
		if h := decode(t, last); len(all) <= before || *h.GPUsSeen != 6 || h.HealthDetail[wire.HealthGPUCountDropped] != "GPU-1" {
			t.Errorf("after it: %s", last.Body)
		}
	})
}

func TestGatewayAwayForAWeek(t *testing.T) {
	for name, away := range map[string]*gatewaytest.Reply{
		"nobody listens": nil, "hangs up": {Hangup: true},
		"edge":         {Status: 530, Body: []byte("<html>"), Unproven: true},
		"a claim":      {Status: 403, Body: gatewaytest.Refusal(403, "revoked").Body, Unproven: true},
		"a proven 503": gatewaytest.Refusal(503, wire.CodeUnavailable),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, false, func(g *gatewaytest.Gateway) { g.TTL = 1000 * time.Hour })
				var up atomic.Bool
				var tries atomic.Int64
				n.pipe.Down = func() bool { tries.Add(1); return !up.Load() && away == nil }
				n.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
					if tries.Add(1); up.Load() || away == nil {
						return nil
					}
					reply := *away
					reply.Header = nil
					return &reply
				}
				length := 24 * time.Hour
				if away == nil {
					length *= 7
				}
				back := time.Now().Add(length)
				time.AfterFunc(time.Until(back), func() { up.Store(true) })
				n.run(t, length+10*time.Minute)
				minutes := int64(length / time.Minute)
				if n := tries.Load(); n < minutes/5 || n > minutes {
					t.Errorf("%d tries in %s", n, length)
				}
				s := n.status(t)
				if s.Phase != identity.PhaseOnline || s.LastError != "" {
					t.Errorf("status %+v", s)
				}
				for _, r := range n.g.Requests("/heartbeat") {
					if r.At.After(back) {
						if late := r.At.Sub(back); late > 5*time.Minute+time.Second {
							t.Errorf("back after %s", late)
						}
						break
					}
				}
			})
		})
	}
}

func TestRefusedForGood(t *testing.T) {
	for _, code := range []string{wire.CodeRetired, wire.CodeRevoked, wire.CodeBanned, wire.CodeSuperseded, wire.CodeUnknownCertificate} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, false, nil)
				refuse := true
				n.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
					if refuse {
						return gatewaytest.Refusal(403, code)
					}
					return nil
				}
				n.run(t, 3*time.Hour)
				got := n.g.Requests("/heartbeat")
				if shown := len(n.g.Requests("/adopt")); shown > len(got) || (shown > 0) != (code == wire.CodeUnknownCertificate) {
					t.Errorf("the certificate was shown %d times with %d heartbeats", shown, len(got))
				}
				if len(got) < 18 || len(got) > 37 {
					t.Errorf("%d requests in three hours", len(got))
				}
				for i := 1; i < len(got); i++ {
					if gap := got[i].At.Sub(got[i-1].At); gap < 5*time.Minute {
						t.Errorf("request %d after %s", i, gap)
					}
				}
				if k := strings.Count(n.log.String(), "level=ERROR"); k != 1 {
					t.Errorf("said %d times:\n%s", k, n.log.String())
				}
				if s := n.status(t); s.Phase != identity.PhaseRefused || !strings.Contains(s.LastError, code) {
					t.Errorf("status %+v", s)
				}
				if state, err := n.cfg.Directory.Load(); err != nil || state.Current.Key != n.cfg.State.Current.Key {
					t.Errorf("the identity was given up: %v", err)
				}
				refuse = false
				n.run(t, time.Minute)
				if s := n.status(t); s.Phase != identity.PhaseOnline {
					t.Errorf("status %+v after an operator acted", s)
				}
			})
		})
	}
}

func TestOneConnectionServesManyBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, true, nil)
		dials := 0
		n.pipe.Down = func() bool { dials++; return false }
		n.run(t, time.Hour)
		if got := len(n.g.Requests("/heartbeat")); got < 100 || dials != 1 {
			t.Errorf("%d connections for %d beats", dials, got)
		}
		if s := n.status(t); s.Transport != "mtls" {
			t.Errorf("status %+v", s)
		}
	})
}

func TestDiskTroubleStopsNoBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		gatewaytest.Block(t, n.cfg.Directory.Path(), "identity.json")
		gatewaytest.Block(t, n.cfg.Directory.Path(), "status.json")
		n.cfg.Interval = 5 * time.Minute
		n.run(t, 20*time.Hour)
		got := n.g.Requests("/heartbeat")
		if len(got) < 200 {
			t.Errorf("%d beats", len(got))
		}
		notices := strings.Join(decode(t, got[len(got)-1]).Notices, "\n")
		if !strings.Contains(notices, "the certificate could not be renewed: ") || !strings.Contains(notices, "status file") {
			t.Errorf("notices %q", notices)
		}
		if len(n.g.Requests("/renew")) != 0 {
			t.Error("a certificate was asked for with a key that is not on the disk")
		}
	})
}

func TestDamagedIdentityIsSaid(t *testing.T) {
	n := newNode(t, false, nil)
	n.cfg.State.Gateway.AnswerKeys = nil
	if _, err := heartbeat.New(n.cfg); err == nil {
		t.Error("no error")
	}
}
