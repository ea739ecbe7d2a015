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

	"muster/gateway/internal/secret"
	"muster/store"
)

// A mark finds a PSK that somebody pasted where names and labels go. It is a salt of 16 bytes and the HMAC-SHA256 of the PSK under that
// salt. To compare a text with it costs a millionth of what the PSK's own key costs, so every text of a request can be compared.
//
// It is sealed as the key is. Whoever can open the seals has the key already, and with that everything that the PSK opens here. But
// from its mark a person's PSK is easier to guess than from its key, for use elsewhere. That is another reason to generate one.
const (
	markSalt    = 16
	markContext = "muster psk mark v1\n"
	markMemory  = time.Second // as credentials are remembered
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

// marks remembers for a moment the live PSKs that have one. The zero value is ready; it is safe for concurrent use.
type marks struct {
	mu    sync.Mutex
	known []store.PSK
	at    time.Time
	read  bool
}

// forget is called when another set of PSKs becomes live.
func (m *marks) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read = false
}

// marked are the live PSKs. Where the database cannot be read, those that were read before have to do: the request will fail for the
// same reason when it writes.
func (b *Bootstrap) marked(ctx context.Context) []store.PSK {
	b.marks.mu.Lock()
	defer b.marks.mu.Unlock()
	now := b.now()
	if age := now.Sub(b.marks.at); b.marks.read && age >= 0 && age < markMemory {
		return b.marks.known
	}
	b.marks.at = now
	b.marks.read = true
	live, err := b.store.PSKs(context.WithoutCancel(ctx)) // a caller who hangs up must not hide what others send
	if err != nil {
		b.log.Error("the live PSKs cannot be read: a request may hold one unseen", "error", err)
		return b.marks.known
	}
	b.marks.known = live
	return live
}

// PSKInBody gives the id of the live PSK that one of a body's texts is or holds. It is empty where there is none.
func (b *Bootstrap) PSKInBody(ctx context.Context, body []byte) (id string) {
	if len(body) < minPSK || len(b.marked(ctx)) == 0 {
		return ""
	}
	return b.PSKIn(ctx, secret.Texts(body, minPSK)...)
}

// PSKIn gives the id of the live PSK that one of the texts is, or holds between separators. It is empty where there is none. A PSK that
// was set by a gateway of before there were marks is not found.
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

// same gives the id of the PSK that the text is.
func same(live []store.PSK, text string) (id string) {
	for _, k := range live {
		if len(k.Mark) > markSalt && hmac.Equal(markSum(k.Mark[:markSalt], text), k.Mark[markSalt:]) {
			return k.ID
		}
	}
	return ""
}

// A tool may have made the PSK in base64 (RFC 4648). That has about one slash in 64 characters, so it can stand in several segments of
// a path.
const (
	mostSlashes  = 4
	mostSegments = 64 // of a path, that are looked at together: a log shows no more of them
)

// PSKInPath gives the id of a live PSK that stands in the segments of a path, and the path without it. Where there is none it gives no
// id, and the path as it is.
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

// TellUnmarked says in the log which live PSKs nothing recognizes in a request: a gateway before this one set them.
func (b *Bootstrap) TellUnmarked(ctx context.Context) error {
	live, err := b.store.PSKs(ctx)
	for _, k := range live {
		if k.Mark == nil {
			b.log.Info("this PSK was set by an earlier gateway: it goes on working, but is not recognized where it is pasted as a name or a label",
				"psk", k.ID, "to change that", "set it once more (muster psk set), or make another (muster psk rotate)")
		}
	}
	return err
}
