package bootstrap

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"io"
	"strings"
	"sync"
	"time"

	"muster/gateway/internal/account/secret"
	"muster/store"
)

// A mark finds a PSK that somebody pasted as a name or a label. It is a salt of 16 bytes, and the HMAC-SHA256 of the PSK under that
// salt. Comparing a text with it takes a millionth of the time that deriving the PSK's key takes, so every text of a request can be
// compared.
//
// The mark is sealed, like the key. Somebody who can open sealed values has the key too, and with it everything that the PSK opens
// here. But a PSK that a person chose is easier to guess from its mark than from its key, and may be used elsewhere too. That is another
// reason to generate one.
const (
	markSalt    = 16
	markContext = "muster psk mark v1\n"
	markMemory  = time.Second
)

func newMark(secret string, random io.Reader) ([]byte, error) {
	if random == nil {
		random = rand.Reader
	}
	salt := make([]byte, markSalt)
	if _, err := io.ReadFull(random, salt); err != nil {
		return nil, err
	}
	return append(salt, markSum(salt, secret)...), nil
}

func markSum(salt []byte, text string) []byte {
	h := hmac.New(sha256.New, salt)
	h.Write([]byte(markContext + text))
	return h.Sum(nil)
}

// marks remembers the live PSKs for markMemory. The zero value is ready. It is safe for concurrent use.
type marks struct {
	mu    sync.Mutex
	known []store.PSK
	at    time.Time
	read  bool
}

// forget makes the next request read the PSKs again. Whoever adds or ends one calls it.
func (m *marks) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read = false
}

// marked are the live PSKs. If the database cannot be read, it returns those that were read earlier: the request will fail for the same
// reason when it writes.
func (b *Bootstrap) marked(ctx context.Context) []store.PSK {
	b.marks.mu.Lock()
	defer b.marks.mu.Unlock()
	now := b.config.Now()
	if age := now.Sub(b.marks.at); b.marks.read && age >= 0 && age < markMemory {
		return b.marks.known
	}
	b.marks.at = now
	b.marks.read = true
	live, err := b.config.Store.PSKs(context.WithoutCancel(ctx)) // a caller who hangs up must not hide what others send
	if err != nil {
		b.config.Logger.Error("the live PSKs cannot be read: a request may hold one unseen", "error", err)
		return b.marks.known
	}
	b.marks.known = live
	return live
}

// PSKInBody returns the id of the live PSK that one of a body's texts is or holds; empty: there is none.
func (b *Bootstrap) PSKInBody(ctx context.Context, body []byte) (id string) {
	if len(body) < minPSK || len(b.marked(ctx)) == 0 {
		return ""
	}
	return b.PSKIn(ctx, secret.Texts(body, minPSK)...)
}

// PSKIn returns the id of the live PSK that one of the texts is, or holds between separators; empty: there is none. It does not find a
// PSK without a mark, which an earlier gateway set.
func (b *Bootstrap) PSKIn(ctx context.Context, texts ...string) (id string) {
	var live []store.PSK
	for _, text := range texts {
		if len(text) < minPSK {
			continue // most texts are: for them nothing need be read
		}
		if live == nil {
			if live = b.marked(ctx); len(live) == 0 {
				return ""
			}
		}
		for part := range secret.Parts(text, minPSK) {
			if id := same(live, part); id != "" {
				return id
			}
		}
	}
	return ""
}

// same returns the id of the PSK that is equal to the text.
func same(live []store.PSK, text string) (id string) {
	for _, k := range live {
		if len(k.Mark) > markSalt && hmac.Equal(markSum(k.Mark[:markSalt], text), k.Mark[markSalt:]) {
			return k.ID
		}
	}
	return ""
}

// A PSK may be base64 text (RFC 4648), in which about one character in 64 is a slash. In a path such a PSK takes several segments.
const (
	mostSlashes  = 4  // how many slashes of a PSK are looked for
	mostSegments = 64 // only so many segments of a path are joined: a log shows no more of them
)

// PSKInPath returns the id of a live PSK in the segments of a path, and the path without it. If there is none, the id is empty and the
// path is unchanged.
func (b *Bootstrap) PSKInPath(ctx context.Context, segments []string) (id, without string) {
	var kept []string
	for at := 0; at < len(segments); at++ {
		found, many := b.pskFrom(ctx, segments, at)
		if found == "" {
			kept = append(kept, segments[at])
			continue
		}
		id = found
		kept = append(kept, "...")
		at += many - 1
	}
	return id, strings.Join(kept, "/")
}

// pskFrom looks for a PSK that begins in one segment and may go on in the next ones. many is how many segments hold it.
func (b *Bootstrap) pskFrom(ctx context.Context, segments []string, at int) (id string, many int) {
	last := min(len(segments), mostSegments, at+mostSlashes+1)
	for end := last; end > at+1; end-- {
		text := strings.Join(segments[at:end], "/")
		if len(text) < minPSK {
			break
		}
		if id := same(b.marked(ctx), text); id != "" {
			return id, end - at
		}
	}
	return b.PSKIn(ctx, segments[at]), 1
}
