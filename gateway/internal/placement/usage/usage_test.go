package usage_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/placement/inventory"
	"muster/gateway/internal/placement/usage"
	"muster/gateway/internal/view"
	"muster/store"
	records "muster/store/placement"
)

// house is a Service on a database of its own, with a clock that the test sets.
type house struct {
	*usage.Service
	t       testing.TB
	store   *store.Store
	records records.Records
	began   time.Time
	now     time.Time
	holds   []inventory.Hold
	log     bytes.Buffer
}

func newHouse(t testing.TB) *house {
	t.Helper()
	began := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	h := &house{t: t, began: began, now: began}
	h.store = kit.Store(t, func() time.Time { return h.now })
	h.records = records.New(h.store.Records())
	h.restart()
	return h
}

func (h *house) restart() {
	h.t.Helper()
	var err error
	h.Service, err = usage.Open(h.t.Context(), usage.Config{Records: h.records, Now: func() time.Time { return h.now },
		Holds: func(nodes ...string) (all []inventory.Hold) {
			for _, one := range h.holds {
				if slices.Contains(nodes, one.NodeID) {
					all = append(all, one)
				}
			}
			return all
		},
		Node: func(id string) (*api.NodeRow, bool) {
			return &api.NodeRow{ID: id, GPUs: []api.GPU{{Index: 3, UUID: "GPU-0"}}}, id == "n"
		},
		Logger: slog.New(slog.NewTextHandler(&h.log, nil))})
	if err != nil {
		h.t.Fatal(err)
	}
}

// has gives an allocation a GPU.
func (h *house) has(allocation, owner, gpu string) {
	h.holds = append(h.holds, inventory.Hold{Owner: owner, Hold: records.Hold{Allocation: allocation, NodeID: "n",
		Unit: records.Unit{UUID: gpu}}})
}

func job(user, program string, memory int64) wire.GPUProcess {
	return wire.GPUProcess{PID: 7, User: user, Program: program, MemoryMiB: &memory}
}

func of(count int, list ...wire.GPUProcess) *wire.Processes {
	return &wire.Processes{Count: &count, List: list}
}

// looks has a node say what is on its GPUs, GPU-0 and so on, a time after the last look.
func (h *house) looks(later time.Duration, gpus ...*wire.Processes) {
	h.looksAs("n", later, gpus...)
}

func (h *house) looksAs(node string, later time.Duration, gpus ...*wire.Processes) {
	h.now = h.now.Add(later)
	hw := &wire.Hardware{}
	for i, p := range gpus {
		if p != nil && len(p.List) > 0 && p.At.IsZero() {
			p = &wire.Processes{Count: p.Count, At: h.now, List: p.List}
		}
		hw.GPUs = append(hw.GPUs, wire.GPU{UUID: fmt.Sprint("GPU-", i), Processes: p})
	}
	h.Take(h.t.Context(), []view.Sample{{NodeID: node, At: h.now, Hardware: hw}})
}

func (h *house) write(all bool) {
	h.t.Helper()
	if err := h.Write(h.t.Context(), all); err != nil {
		h.t.Fatal(err)
	}
}

// says is a use as the API has it: GPU, who, from and until in minutes, memory, allocation and owner.
func (h *house) says() (all []string) {
	h.t.Helper()
	list, err := h.Of(h.t.Context(), "n", time.Time{}, 100)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, u := range list.Uses {
		memory, until := "?", fmt.Sprintf("%.0f", u.Until.Sub(h.began).Minutes())
		if u.MemoryMiB != nil {
			memory = fmt.Sprint(*u.MemoryMiB)
		}
		if u.Now {
			until = "now"
		}
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s/%s%s %.0f-%s %s %s %s", u.GPU, u.User, u.Program, u.Container,
			u.From.Sub(h.began).Minutes(), until, memory, u.Allocation, u.Owner)))
	}
	return all
}

func (h *house) want(what string, want ...string) {
	h.t.Helper()
	if got := h.says(); !slices.Equal(got, want) {
		h.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// stored are the rows of the database.
func (h *house) stored() []records.Use {
	h.t.Helper()
	all, err := h.records.RecentUses(h.t.Context(), time.Time{})
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

const m = time.Minute

// TestUse: processes of one job are one use with the most memory they had, for the allocation that is known of it or that has the GPU.
func TestUse(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.has("a1", "ada", "GPU-0")
	h.has("b1", "bob", "GPU-1")
	eve := job("eve", "miner", 10)
	eve.Allocation = "b1"
	gone := job("zoe", "x", 1)
	gone.Allocation = "of-nobody-here"
	silent := wire.GPUProcess{PID: 9, Container: "3f1c2a90beef"}
	h.looks(0, of(4, job("ada", "python3", 100), job("ada", "python3", 50), eve, gone), of(1, silent), of(0))
	h.want("at once", "GPU-0 ada/python3 0-now 150 a1 ada", "GPU-0 eve/miner 0-now 10 b1 bob", "GPU-0 zoe/x 0-now 1 of-nobody-here",
		"GPU-1 /3f1c2a90beef 0-now ? b1 bob")
	h.looks(5*m, of(1, job("ada", "python3", 400)), nil, of(0))
	h.looks(5*m, of(1, job("ada", "python3", 20)), &wire.Processes{Count: new(1)}, of(0))
	h.want("some have ended, and of one GPU nothing is known", "GPU-0 ada/python3 0-now 400 a1 ada", "GPU-1 /3f1c2a90beef 0-now ? b1 bob",
		"GPU-0 eve/miner 0-0 10 b1 bob", "GPU-0 zoe/x 0-0 1 of-nobody-here")
	list, err := h.Of(t.Context(), "n", h.began.Add(10*m), 1)
	if err != nil || list.Total != 1 || len(list.Uses) != 1 || list.Uses[0].Index == nil || *list.Uses[0].Index != 3 {
		t.Errorf("of the last minutes: %+v, %v", list, err)
	}
	if list, err = h.Of(t.Context(), "other", time.Time{}, 9); err != nil || list.Uses == nil || list.Total != 0 {
		t.Errorf("of another node: %+v, %v", list, err)
	}
	if list, err = h.Of(t.Context(), "n", time.Time{}, 2); err != nil || list.Total != 4 || len(list.Uses) != 2 || list.Uses[1].Index != nil {
		t.Errorf("two of them: %+v, %v", list, err)
	}
}

// TestUnknownMemory: what a job has is not known where it is not known of one of its processes.
func TestUnknownMemory(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	known, unknown := job("ada", "python3", 100), wire.GPUProcess{PID: 8, User: "ada", Program: "python3"}
	h.looks(0, of(2, known, unknown), of(2, unknown, known))
	h.want("at once", "GPU-0 ada/python3 0-now ?", "GPU-1 ada/python3 0-now ?")
}

// TestGap: what is seen again after a short time goes on; after a longer one it is another use.
func TestGap(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	train := of(1, job("ada", "python3", 100))
	h.looks(0, train)
	h.looks(5*m, of(0))
	h.looks(usage.Gap-5*m, train)
	h.want("it goes on", "GPU-0 ada/python3 0-now 100")
	h.write(false)
	h.looks(usage.Gap+time.Second, train)
	h.want("it has begun anew", "GPU-0 ada/python3 30-now 100", "GPU-0 ada/python3 0-15 100")
	h.now = h.now.Add(usage.Gap + m)
	h.want("the node is silent", "GPU-0 ada/python3 30-30 100", "GPU-0 ada/python3 0-15 100")
	h.looks(-time.Hour, train)
	h.want("the clock was set back", "GPU-0 ada/python3 30-now 100", "GPU-0 ada/python3 0-15 100")
	h.looks(m, of(0))
	h.want("it ends no earlier", "GPU-0 ada/python3 30-30 100", "GPU-0 ada/python3 0-15 100")
}

// TestOwnerChanges: when the GPU changes hands, the use before and the use after are two.
func TestOwnerChanges(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.looks(0, of(1, job("ada", "python3", 1)))
	h.has("a1", "ada", "GPU-0")
	h.looks(5*m, of(1, job("ada", "python3", 1)))
	h.want("both", "GPU-0 ada/python3 5-now 1 a1 ada", "GPU-0 ada/python3 0-0 1")
}

// TestOldList: a list that was made before a GPU was allocated says nothing of whoever has it now. The use is as old as the list.
func TestOldList(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.has("a1", "ada", "GPU-0")
	h.holds[0].Since = h.now.Add(8 * m)
	list := of(1, job("bob", "python3", 1))
	list.At = h.now.Add(6 * m)
	h.looks(10*m, list)
	h.want("the list is older", "GPU-0 bob/python3 6-now 1")
	list.At = h.now
	h.looks(m, list)
	h.want("it is newer", "GPU-0 bob/python3 10-now 1 a1 ada", "GPU-0 bob/python3 6-6 1")
}

// TestRepeated: a list that was told before says nothing of now, not even of who has the GPU now.
func TestRepeated(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	list := of(1, job("ada", "x", 1))
	list.At = h.now
	h.has("a1", "ada", "GPU-0")
	h.looks(0, list)
	h.holds = nil
	h.looks(4*m, list)
	h.Take(t.Context(), []view.Sample{{NodeID: "n", At: h.now}})
	h.looks(0, &wire.Processes{}, nil)
	h.want("nothing is known of now", "GPU-0 ada/x 0-now 1 a1 ada")
	h.looks(m, of(0))
	h.want("it was seen once", "GPU-0 ada/x 0-0 1 a1 ada")
}

// TestWrites: a use is written when it is new, when it ends, and every few minutes while it goes on.
func TestWrites(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	train := of(1, job("ada", "python3", 100))
	until := func(what string, want time.Duration) {
		t.Helper()
		h.write(false)
		if rows := h.stored(); len(rows) != 1 || rows[0].Until.Sub(h.began) != want {
			t.Errorf("%s: %+v, want one until %v", what, rows, want)
		}
	}
	h.looks(0, train)
	until("new", 0)
	h.looks(m, train)
	until("a minute later", 0)
	h.looks(4*m, train)
	until("five minutes later", 5*m)
	h.looks(m, train)
	h.looks(m, of(0))
	until("it has ended", 6*m)
	h.looks(m, train)
	h.write(true)
	if rows := h.stored(); rows[0].Until.Sub(h.began) != 8*m {
		t.Errorf("the last write of all: %+v", rows)
	}
	h.restart()
	h.looks(usage.Gap, train)
	h.want("after a restart it goes on", "GPU-0 ada/python3 0-now 100")
	h.write(true)
	h.now = h.now.Add(usage.Gap + time.Second)
	h.write(false)
	if h.Kept() != 0 {
		t.Error("what has ended and is written is kept in memory")
	}
	h.restart()
	h.looks(0, train)
	h.want("after a long time it does not", "GPU-0 ada/python3 38-now 100", "GPU-0 ada/python3 0-23 100")
}

// TestIdleFleet: of a node without processes nothing is kept, and nothing is written.
func TestIdleFleet(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for i := range 100 {
		h.looksAs(fmt.Sprint("n", i), 0, of(0), of(0))
	}
	h.write(true)
	if h.Kept() != 0 || len(h.stored()) != 0 {
		t.Errorf("%d nodes are kept, and %d rows written", h.Kept(), len(h.stored()))
	}
}

// TestManyUses: a node that names other programs at each look fills neither memory nor database.
func TestManyUses(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, gpus := range []int{4, 80} {
		var busy []*wire.Processes
		for range gpus {
			var list []wire.GPUProcess
			for i := range wire.MostProcesses {
				list = append(list, job("eve", fmt.Sprint(gpus, "-", i), 1))
			}
			busy = append(busy, of(20, list...))
		}
		h.looks(usage.Gap+m, busy...)
		if n := h.Uses("n"); n > records.MostUses {
			t.Errorf("%d are in memory", n)
		}
		h.write(false)
	}
	if n := len(h.stored()); n != records.MostUses {
		t.Errorf("%d are in the database", n)
	}
}

// TestCutList: a list that does not name all processes says of none that it has ended.
func TestCutList(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.looks(0, of(1, job("ada", "small", 1)))
	h.looks(5*m, of(2, job("ada", "large", 9)))
	h.want("both may go on", "GPU-0 ada/large 5-now 9", "GPU-0 ada/small 0-now 1")
	h.looks(5*m, of(1, job("ada", "large", 9)))
	h.want("one has ended", "GPU-0 ada/large 5-now 9", "GPU-0 ada/small 0-0 1")
}

// TestWriteFails: what cannot be written waits, and the log says so once.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.looks(0, of(1, job("ada", "x", 1)))
		if err := h.store.Close(); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		time.Sleep(5 * m)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := strings.Count(h.log.String(), "is not written"); got != 1 {
			t.Errorf("the log says it %d times:\n%s", got, &h.log)
		}
		if _, err := h.Of(t.Context(), "n", time.Time{}, 9); err == nil {
			t.Error("a list without the database")
		}
		if _, err := usage.Open(t.Context(), usage.Config{Records: h.records}); err == nil {
			t.Error("opened without the database")
		}
	})
}
