package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"path/filepath"

	"muster/gateway/api"
	"muster/gateway/internal/client"
)

const (
	bigBlob    = 1 << 30
	memoryMore = mostGrowth >> 20 // MiB
)

// blobs measures how much more memory the gateway has at its peak after a large blob was pushed and pulled than after a small one.
func (m *bench) blobs(t *table) {
	g := m.serve(filepath.Join(m.dir, "blobs"))
	defer g.end()
	wanted := api.AccountRequest{Name: "pusher", Scopes: []string{api.ScopeReleasesWrite}}
	account, err := client.Send[api.NewAccount](m.Context(), m.operator(g), "POST", api.PathAccounts, wanted)
	m.must(err)
	g.pushAndPull(account.Token, smallBlob)
	small := g.peak()
	g.pushAndPull(account.Token, bigBlob)
	big := g.peak()
	const mebibyte = 1 << 20
	t.bound("gateway memory at its peak, more with a blob of 1 GiB than of 16 MiB", " MiB", (big-small)/mebibyte, memoryMore,
		fmt.Sprintf("%s MiB with the small one", amount(small/mebibyte)), "")
}

// pushAndPull has a blob pushed in one request, and pulled.
func (g *served) pushAndPull(token string, size int64) {
	g.Helper()
	sum := sha256.New()
	_, err := io.Copy(sum, blobOf(size))
	g.must(err)
	blobs := g.url() + "/v2/" + pullName + "/blobs/"
	digest := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	push, err := http.NewRequestWithContext(g.Context(), http.MethodPost, blobs+"uploads/?digest="+digest, blobOf(size))
	g.must(err)
	push.ContentLength = size
	g.sent(push, token, http.StatusCreated)
	pull, err := http.NewRequestWithContext(g.Context(), http.MethodGet, blobs+digest, nil)
	g.must(err)
	g.sent(pull, token, http.StatusOK)
}

// sent sends a request, and reads the answer to its end.
func (g *served) sent(r *http.Request, token string, status int) {
	g.Helper()
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := visitor().Do(r)
	g.must(err)
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	g.must(err)
	if answer.StatusCode != status {
		g.Fatalf("%s %s: %d", r.Method, r.URL.Path, answer.StatusCode)
	}
}
