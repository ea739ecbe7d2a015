package task

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"muster/agent/wire"
)

// TestOutput: head and tail are the beginning and the end of what was written, in whatever pieces it comes.
func TestOutput(t *testing.T) {
	const edge = wire.MaxTaskHead + wire.MaxTaskTail
	for _, total := range []int{0, 1, wire.MaxTaskHead, wire.MaxTaskHead + 1, edge - 1, edge, edge + 1, 2 * edge, 5*edge + 7} {
		for _, piece := range []int{1000, wire.MaxTaskHead, 3 * edge} {
			all := make([]byte, total)
			for i := range all {
				all[i] = byte(rand.N(256))
			}
			o := newOutput()
			var streamed []byte
			gaps := false
			for rest := all; len(rest) > 0; {
				n := min(piece, len(rest))
				if got, err := o.Write(rest[:n]); got != n || err != nil {
					t.Fatalf("%d, %v", got, err)
				}
				rest = rest[n:]
				for {
					data, at := o.since(int64(len(streamed)), 100<<10)
					if len(data) == 0 {
						break
					}
					gaps = gaps || at > int64(len(streamed))
					streamed = append(streamed, all[len(streamed):at]...)
					streamed = append(streamed, data...)
				}
			}
			log := o.log()
			cut := total - len(log.Head) - len(log.Tail)
			if log.Bytes != int64(total) || log.Truncated != (cut > 0) || cut < 0 || log.Truncated != (total > edge) {
				t.Errorf("%d by %d: %d and %d of %d, %t", total, piece, len(log.Head), len(log.Tail), log.Bytes, log.Truncated)
			}
			if !bytes.HasPrefix(all, log.Head) || !bytes.HasSuffix(all, log.Tail) || !bytes.Equal(streamed, all) {
				t.Errorf("%d by %d: other bytes", total, piece)
			}
			if gaps != (piece > edge && total > edge) {
				t.Errorf("%d by %d: gaps: %t", total, piece, gaps)
			}
		}
	}
}
