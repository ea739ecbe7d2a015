package region_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas/region"
)

// TestHeader: the header is that of RFC 5849 with PLAINTEXT, with a nonce of its own for each attempt. The key stands nowhere else, and
// user data arrives with its + as %2B. The version is asked without a key.
func TestHeader(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	nonces := map[string]bool{}
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got := r.Header.Get("Authorization")
		before, nonce, _ := strings.Cut(got, `oauth_nonce="`)
		nonce, _, _ = strings.Cut(nonce, `"`)
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/MAAS/api/2.0/version/" {
			if got != "" {
				t.Errorf("the version was asked with %s", got)
			}
			return
		}
		if nonces[nonce] || len(nonce) != 32 {
			t.Errorf("nonce %q again", nonce)
		}
		nonces[nonce] = true
		want := `OAuth realm="MAAS API", oauth_consumer_key="consumer1", oauth_token="token22", ` +
			`oauth_signature_method="PLAINTEXT", oauth_signature="%26verySecretKey", oauth_timestamp="`
		if !strings.HasPrefix(before, want) {
			t.Errorf("%s\nwant %s", before, want)
		}
		if strings.Contains(r.URL.String()+string(body), "Secret") {
			t.Errorf("the key is in %s or %s", r.URL, body)
		}
		if r.Method == http.MethodPost && !strings.Contains(string(body), "user_data=IyH7%2F%2Fs%3D") {
			t.Errorf("the form is %s", body)
		}
		if r.Method == http.MethodPost && r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
			t.Errorf("its type is %s", r.Header.Get("Content-Type"))
		}
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, got+" "+r.URL.String()) // MAAS tells what it got
	})
	_, first := c.Machine(t.Context(), "abc")
	_, second := c.Deploy(t.Context(), "abc", region.Deployment{UserData: []byte("#!\xfb\xff\xfb")})
	_, _ = c.Version(t.Context())
	for _, err := range []error{first, second} {
		refused(t, err, region.Unclear, 502, "")
		if text := err.Error(); strings.Contains(text, "verySecret") || strings.Contains(text, "token22") {
			t.Errorf("%v has the key", err)
		}
	}
	if len(nonces) != 5 { // the read, its three tries more, and the write
		t.Errorf("%d nonces, want 5", len(nonces))
	}
}

// TestForms: what each operation sends.
func TestForms(t *testing.T) {
	t.Parallel()
	var got string
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		got = strings.TrimPrefix(r.URL.RequestURI(), "/MAAS/api/2.0/") + " " + r.PostForm.Encode()
		_, _ = io.WriteString(w, `{"system_id":"abc","status":4,"name":"gpu","added":1,"removed":0}`)
	})
	ctx := t.Context()
	only := func(_ any, err error) error { return err }
	for want, act := range map[string]func() error{
		"machines/?op=allocate agent_name=m-1&comment=c&system_id=abc": func() error { return only(c.Acquire(ctx, "abc", "m-1", "c")) },
		"machines/abc/?op=deploy agent_name=m-1&comment=c&distro_series=noble&user_data=IyE%3D": func() error {
			return only(c.Deploy(ctx, "abc", region.Deployment{[]byte("#!"), "noble", "m-1", "c"}))
		},
		"machines/abc/?op=release ":                                       func() error { return only(c.Release(ctx, "abc", false, "")) },
		"machines/abc/?op=release comment=c&erase=true&secure_erase=true": func() error { return only(c.Release(ctx, "abc", true, "c")) },
		"machines/abc/?op=commission ":                                    func() error { return only(c.Commission(ctx, "abc")) },
		"machines/abc/?op=abort comment=c":                                func() error { return c.Abort(ctx, "abc", "c") },
		"machines/abc/?op=mark_fixed comment=c":                           func() error { return only(c.MarkFixed(ctx, "abc", "c")) },
		"tags/ comment=c&name=gpu":                                        func() error { return c.CreateTag(ctx, "gpu", "c") },
		"tags/gpu/?op=update_nodes add=a&add=b&remove=c": func() error {
			return c.Retag(ctx, "gpu", []string{"a", "b"}, []string{"c"})
		},
	} {
		if err := act(); err != nil || got != want {
			t.Errorf("%v\n%s\nwant %s", err, got, want)
		}
	}
}

// TestMultipart: MAAS takes forms in both encodings. (A file is no field.)
func TestMultipart(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	id := l.held()
	form := "--b\r\nContent-Disposition: form-data; name=\"user_data\"\r\n\r\nIyEK\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"agent_name\"; filename=\"x\"\r\n\r\nlost\r\n--b--\r\n"
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(form)), int64(len(form))
			r.Header.Set("Content-Type", `multipart/form-data; boundary="b"`)
		}
		l.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	c, err := region.New(region.Config{URL: proxy.URL, Key: l.Key(), Now: l.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Deploy(t.Context(), id, script); err != nil {
		t.Fatal(err)
	}
	if m, _ := l.Machine(id); m.UserData != "IyEK" || m.AgentName != "muster-1" {
		t.Errorf("%+v", m)
	}
}

// TestSize: MAAS's web server takes no request without end.
func TestSize(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	_, err := l.client.Ask(t.Context(), "machines/"+l.held()+"/", "deploy", nil, url.Values{"user_data": {strings.Repeat("A", 11<<20)}})
	if k := region.KindOf(err); k != region.Refused && k != region.Unclear { // the connection may end before the answer is read
		t.Errorf("%v", err)
	}
}
