package peer

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlowDisk: another gateway has minutes until a blob is on its disk, and no more than that.
func TestSlowDisk(t *testing.T) {
	const content = "a blob"
	for takes, want := range map[time.Duration]error{storeTime - time.Second: nil, storeTime + time.Second: os.ErrDeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			own, other := net.Pipe()
			var there sync.WaitGroup
			defer there.Wait()
			defer own.Close()
			there.Go(func() {
				defer other.Close()
				_, _ = io.ReadFull(other, make([]byte, len(content)))
				time.Sleep(takes)
				_ = writeLine(other, answer{})
			})
			if err := sendBlob(own, strings.NewReader(content)); !errors.Is(err, want) {
				t.Errorf("after %v: %v", takes, err)
			}
		})
	}
}
