package peer

import (
	"errors"
	"net"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/internal/httpserver/origin"
)

// caller is a connection from an address.
type caller struct {
	net.Conn
	at string
}

func (c caller) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.at), Port: 5} }

// TestPace: one address cannot have the gateways shake hands again and again. Others do not feel it, and it may come again after a while.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(&Relay{Most: 64, Place: origin.Resolver{}.Place})
		come := func(at string) error {
			leave, err := r.enter(caller{at: at})
			if err == nil {
				leave()
			}
			return err
		}
		for i := range burstOfOne {
			if err := come("2001:db8::" + strconv.FormatInt(int64(i), 16)); err != nil { // of one site
				t.Fatal(i, err)
			}
		}
		if err := come("2001:db8::1"); !errors.Is(err, errOften) {
			t.Errorf("one more: %v", err)
		}
		if err := come("192.0.2.1"); err != nil {
			t.Errorf("another address: %v", err)
		}
		time.Sleep(paceOfOne)
		if err := come("2001:db8::1"); err != nil {
			t.Errorf("after a while: %v", err)
		}
	})
}

// TestSilent: a caller who says nothing has its place for a short time.
func TestSilent(t *testing.T) {
	for _, talks := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			own, other := net.Pipe()
			defer other.Close()
			began := time.Now()
			r := &Relay{Own: func(string) (int, string, bool) { return 0, "", false }}
			if _, done, err := r.peek(own, talks); done || err == nil || time.Since(began) != peekTime {
				t.Errorf("%v %v after %v", done, err, time.Since(began))
			}
		})
	}
}
