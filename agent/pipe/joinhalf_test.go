package pipe_test

import (
	"errors"
	"testing"
)

// TestJoinBrokenAfterItsEnd: a connection that breaks after it has said its last byte is told to the other side, too.
func TestJoinBrokenAfterItsEnd(t *testing.T) {
	j := join(t)
	if err := j.operator.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := j.node.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Fatalf("%d bytes, %v, want the end", n, err)
	}
	if err := errors.Join(j.operator.SetLinger(0), j.operator.Close()); err != nil { // a reset
		t.Fatal(err)
	}
	piece := make([]byte, 64<<10)
	for range 1000 {
		if _, err := j.node.Write(piece); err != nil {
			break
		}
	}
	j.node.Close()
	j.done.Wait()
	if j.hungUp[0].Load() != 1 {
		t.Errorf("the operator's side hung up %d times", j.hungUp[0].Load())
	}
}
