package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
)

// loaded is a reading of one GPU with these figures.
func loaded(load float64, utilization, pages int) string {
	return fmt.Sprintf(`{"probe":{"state":"ok"},"load1":%v,"memory_used_mib":7,"gpus":[{"uuid":"GPU-1","utilization_percent":%d,
		"ecc":{"uncorrected_volatile":%d},"pcie":{"generation":%d,"width":16}}]}`, load, utilization, pages, utilization)
}

// TestReportsAreWrittenWhenTheyChange: a heartbeat of a node whose figures alone have changed stores that the node lives. Whoever asks this
// gateway still gets the figures. The database gets them ten minutes after the last ones.
func TestReportsAreWrittenWhenTheyChange(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	counter := uint64(0)
	beat := func(after time.Duration, text, database string, change ...func(*wire.HeartbeatRequest)) {
		t.Helper()
		f.clock.Forward(after)
		counter++
		f.beat(ad, counter, func(b *wire.HeartbeatRequest) {
			b.Hardware = []byte(text)
			for _, c := range change {
				c(b)
			}
		})
		f.flush()
		now := f.clock.Now()
		if n := f.seen("box"); n.Hardware != written(text) || n.Counter != counter || !n.LastSeen.Equal(now) {
			t.Errorf("heartbeat %d: shown is %+v", counter, n)
		}
		n := f.stored("box")
		if n.Hardware != written(database) || n.Counter != counter || n.RunID != "run00001" || !n.LastSeen.Equal(now) {
			t.Errorf("heartbeat %d: the database has %+v", counter, n)
		}
		if (n.ReportedAt != nil) != (text != database) {
			t.Errorf("heartbeat %d: the database has a report of %v", counter, n.ReportedAt)
		}
	}
	first := loaded(1, 10, 0)
	beat(0, first, first)
	beat(time.Minute, loaded(2, 99, 0), first)
	beat(time.Minute, loaded(3, 50, 0), first)
	sick := loaded(3, 50, 1)
	beat(time.Second, sick, sick)
	beat(time.Second, loaded(4, 50, 1), sick)
	slower := loaded(5, 50, 1)
	beat(time.Second, slower, slower, func(b *wire.HeartbeatRequest) { b.IntervalSeconds = 2 * pace.Seconds() })
	beat(time.Second, loaded(6, 50, 1), slower, func(b *wire.HeartbeatRequest) { b.IntervalSeconds = 2 * pace.Seconds() })
	told := loaded(7, 50, 1)
	change := func(b *wire.HeartbeatRequest) {
		b.IntervalSeconds = 2 * pace.Seconds()
		b.Notices = []string{"disk is full"}
	}
	beat(time.Second, told, told, change)
	beat(10*time.Minute-time.Second, loaded(8, 50, 1), told, change)
	beat(time.Second, loaded(9, 50, 1), loaded(9, 50, 1), change)
}

// TestReportOfASilentNode: the last figures of a node that has fallen silent reach the database, too, and are not handed on again.
func TestReportOfASilentNode(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.beat(ad, 1, hardware(loaded(1, 10, 0)))
	f.flush()
	f.clock.Forward(time.Minute)
	f.beat(ad, 2, hardware(loaded(2, 20, 0)))
	f.flush()
	f.clock.Forward(9 * time.Minute)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if f.Flush(gone) == nil {
		t.Fatal("a flush that could not write: got no error")
	}
	for range 2 {
		f.flush()
	}
	n := f.stored("box")
	if n.Hardware != written(loaded(2, 20, 0)) || n.ReportedAt != nil || !n.LastSeen.Equal(start.Add(time.Minute)) {
		t.Errorf("the database has %+v", n)
	}
	if len(f.handed) != 2 {
		t.Errorf("%d heartbeats were handed on, want 2", len(f.handed))
	}
}

// TestReportThatWasNotWritten: what a failed write did not store is written with the next heartbeat, and after a new enrolment memory does
// not count on what was written before.
func TestReportThatWasNotWritten(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.beat(ad, 1, hardware(oneGPU))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if f.Flush(gone) == nil {
		t.Fatal("a flush that could not write: got no error")
	}
	f.beat(ad, 2, hardware(oneGPU))
	f.flush()
	if n := f.stored("box"); n.Hardware != written(oneGPU) || n.Interval != pace {
		t.Errorf("after the failed write: %+v", n)
	}
	f.clock.Forward(time.Hour)
	again := f.applicant(f.token("mse_again", nil), "box", newKey(t))
	again.Hardware = decoded[wire.Hardware](twoGPUs)
	next, err := f.Enrol(t.Context(), again)
	if err != nil {
		t.Fatal(err)
	}
	f.beat(next, 3, hardware(oneGPU))
	f.flush()
	if n := f.stored("box"); n.Hardware != written(oneGPU) || n.ReportedAt != nil {
		t.Errorf("after the new enrolment: %+v", n)
	}
}

// TestPastFigures: after a restart nobody takes the machine's figures of an earlier heartbeat for those of the last one.
func TestPastFigures(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.beat(ad, 1, hardware(loaded(1, 10, 0)))
	f.flush()
	f.restart()
	if n := f.seen("box"); n.Hardware != written(loaded(1, 10, 0)) || n.Cost != noCost {
		t.Errorf("figures of the last heartbeat: %s, %s", n.Hardware, n.Cost)
	}
	f.beat(ad, 2, hardware(loaded(1, 10, 0)))
	f.flush()
	f.clock.Forward(time.Minute)
	f.beat(ad, 3, hardware(loaded(2, 20, 0)))
	f.flush()
	f.restart()
	past := strings.NewReplacer(`"load1":1`, `"load1":null`, `"memory_used_mib":7`, `"memory_used_mib":null`).Replace(loaded(1, 10, 0))
	n := f.seen("box")
	if n.Hardware != written(past) || n.Cost != noCost || !n.LastSeen.Equal(start.Add(time.Minute)) {
		t.Errorf("figures of the heartbeat before: %s, %s", n.Hardware, n.Cost)
	}
	f.beat(ad, 4, nil) // no reading
	for _, what := range []string{"heard", "written"} {
		if n := f.seen("box"); n.Hardware != written(past) || n.Counter != 4 {
			t.Errorf("a heartbeat without a reading, %s: %+v", what, n)
		}
		f.flush()
	}
}

// TestReportsAtTheEnd: a gateway that stops writes the newest figures of all nodes.
func TestReportsAtTheEnd(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.beat(ad, 1, hardware(loaded(1, 10, 0)))
	f.flush()
	f.clock.Forward(time.Minute)
	f.beat(ad, 2, hardware(loaded(2, 20, 0)))
	f.flush()
	if n := f.stored("box"); n.Hardware != written(loaded(1, 10, 0)) {
		t.Errorf("before the end: %+v", n)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Run(ended); err != nil {
		t.Fatal(err)
	}
	if n := f.stored("box"); n.Hardware != written(loaded(2, 20, 0)) || n.ReportedAt != nil {
		t.Errorf("at the end: %+v", n)
	}
}
