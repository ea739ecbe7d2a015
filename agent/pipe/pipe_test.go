package pipe_test

import (
	"bytes"
	"net/url"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
)

// TestPiece: a piece comes out as it went in, and a body that is none is refused.
func TestPiece(t *testing.T) {
	for _, p := range []pipe.Piece{{}, {End: true}, {Data: []byte{0}}, {Data: []byte{1, 2}, End: true}, {Data: make([]byte, wire.MaxPiece)}} {
		got, err := pipe.ReadPiece(p.Body())
		if err != nil || !bytes.Equal(got.Data, p.Data) || got.End != p.End {
			t.Errorf("%d bytes, end %v came out as %d bytes, %v, %v", len(p.Data), p.End, len(got.Data), got.End, err)
		}
	}
	for _, body := range [][]byte{nil, {2}, {255, 1}, make([]byte, pipe.MaxBody+1)} {
		if p, err := pipe.ReadPiece(body); err == nil {
			t.Errorf("a body of %d bytes gives %d bytes", len(body), len(p.Data))
		}
	}
}

// TestPieceOfMemory: a piece that has memory for its mark is sent out of that, and so is what is left of it.
func TestPieceOfMemory(t *testing.T) {
	memory := []byte("?abc")
	p := pipe.NewPiece(memory, true)
	if body := p.Body(); string(body) != "\x01abc" || &body[0] != &memory[0] {
		t.Errorf("%q", body)
	}
	if body := p.After(2).Body(); string(body) != "\x01c" || &body[0] != &memory[2] {
		t.Errorf("%q", body)
	}
	if body := (pipe.Piece{Data: []byte("abc")}).After(2).Body(); string(body) != "\x00c" {
		t.Errorf("%q", body)
	}
}

// FuzzReadPiece: whatever is read is written so again.
func FuzzReadPiece(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 'a'})
	f.Add([]byte{1})
	f.Add([]byte{2, 'a'})
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := pipe.ReadPiece(body)
		if err == nil && !bytes.Equal(p.Body(), body) {
			t.Errorf("%x was read as %x, end %v", body, p.Data, p.End)
		}
	})
}

// TestQuery: what is asked for comes out as it went in.
func TestQuery(t *testing.T) {
	for _, q := range []pipe.Query{{}, {At: 1}, {At: wire.MaxNumber, Wait: wire.PieceWait}, {Wait: time.Second}} {
		values, err := url.ParseQuery("channel=3&" + q.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := pipe.ReadQuery(values); got != q || err != nil {
			t.Errorf("%+v came out as %+v, %v", q, got, err)
		}
	}
	for _, text := range []string{"", "at=", "at=-1", "at=x", "at=1.5", "at=9007199254740993", "at=99999999999999999999", "at=0&wait=x",
		"at=0&wait=-1", "at=0&wait=21", "at=0&wait=1s", "wait=1"} {
		values, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := pipe.ReadQuery(values); err == nil {
			t.Errorf("%q gives %+v", text, q)
		}
	}
}

// FuzzReadQuery: whatever is read stays within its bounds, and means the same when it is written again.
func FuzzReadQuery(f *testing.F) {
	f.Add("at=1&wait=20")
	f.Add("at=+1&at=2&wait=")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		q, err := pipe.ReadQuery(values)
		if err != nil {
			return
		}
		if q.At < 0 || q.At > wire.MaxNumber || q.Wait < 0 || q.Wait > wire.PieceWait {
			t.Errorf("%q gives %+v", text, q)
		}
		again, err := url.ParseQuery(q.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := pipe.ReadQuery(again); got != q || err != nil {
			t.Errorf("%+v came out as %+v, %v", q, got, err)
		}
	})
}

// TestTaken: the answer to a piece is read, and something else is not taken for one.
func TestTaken(t *testing.T) {
	if got, err := pipe.ReadTaken([]byte(`{"next":7}`)); got.Next != 7 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := pipe.ReadTaken([]byte(`<html>`)); err == nil {
		t.Errorf("%+v", got)
	}
}
