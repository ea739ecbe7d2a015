package region_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas/region"
)

// The tests are numbered as the 25 behaviours of MAAS that the simulator must have, and prove them from the client's side.

// Test01Checks: the consumer, the token, the time, the nonce and the signature are looked at in this order.
func Test01Checks(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	parts := strings.Split(l.Key(), ":")
	key := func(wrong int) string {
		k := slices.Clone(parts)
		for i := wrong; i < 3; i++ { // what is looked at later is wrong, too
			k[i] = "wrong"
		}
		return strings.Join(k, ":")
	}
	whoami := func(key string) error {
		_, err := l.as(key).WhoAmI(t.Context())
		return err
	}
	refused(t, whoami(key(0)), region.KeyRefused, 401, "Authorization Error: Invalid API key.")
	e := refused(t, whoami(key(1)), region.KeyRefused, 401, "")
	if !strings.HasPrefix(e.Text, "Authorization Error: 'Invalid access token: ") {
		t.Error(e.Text)
	}
	refused(t, whoami(key(2)), region.KeyRefused, 401, "Authorization Error: 'Invalid signature.'")
	if u, err := l.client.WhoAmI(t.Context()); err != nil || u.Name != "muster" || !u.Admin {
		t.Errorf("%+v, %v", u, err)
	}
	l.Revoke("muster", true)
	_, err := l.client.WhoAmI(t.Context())
	refused(t, err, region.KeyRefused, 401, fmt.Sprintf("Authorization Error: 'Invalid access token: %s'", "***"))
	l.Revoke("muster", false)
	_, err = l.client.WhoAmI(t.Context())
	refused(t, err, region.KeyRefused, 401, "Authorization Error: Invalid API key.")
}

// Test01Clock: a time that is five minutes old is refused, and said to be the clock's fault. One that is to come passes.
func Test01Clock(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	for apart, good := range map[time.Duration]bool{-301 * time.Second: false, -300 * time.Second: true, time.Hour: true} {
		c, err := region.New(region.Config{URL: l.server.URL, Key: l.Key(), Now: func() time.Time { return l.clock.Now().Add(apart) }})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.WhoAmI(t.Context()); good && err != nil {
			t.Errorf("%s apart: %v", apart, err)
		} else if !good {
			refused(t, err, region.Clock, 401, "")
		}
		c.Close()
	}
}

// Test01Nonce: a request that MAAS gets twice may have been done, so it is unclear. A read is sent again with a nonce of its own.
func Test01Nonce(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	id := l.ready()
	twice := true // what stands before MAAS sends each request twice
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); twice {
			first := r.Clone(r.Context())
			first.Body = io.NopCloser(strings.NewReader(string(body)))
			l.ServeHTTP(httptest.NewRecorder(), first)
			twice = r.Method == http.MethodPost
			r.Body = io.NopCloser(strings.NewReader(string(body)))
		}
		l.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	c, err := region.New(region.Config{URL: proxy.URL, Key: l.Key(), Now: l.clock.Now, Sleep: l.clock.sleep})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Acquire(t.Context(), id, "muster-7", "")
	refused(t, err, region.Unclear, 401, "")
	if m, err := c.Machine(t.Context(), id); err != nil || m.Owner != "muster" {
		t.Errorf("%+v, %v", m, err)
	}
}

// Test02Anonymous: without a key, machines/ tells strangers that it does not know what they want, and others say Forbidden. Strangers
// enlist machines.
func Test02Anonymous(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Authorization")
		l.ServeHTTP(w, r)
	}))
	defer bare.Close()
	c, err := region.New(region.Config{URL: bare.URL, Key: l.Key(), Now: l.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list := func() error {
		return c.Machines(t.Context(), region.Filter{}, func(region.Machine) error { return nil })
	}
	if e := refused(t, list(), region.KeyRefused, 400, ""); !strings.Contains(e.Text, "saw no API key") {
		t.Error(e.Text)
	}
	_, err = c.Acquire(t.Context(), "abc", "muster-1", "")
	refused(t, err, region.KeyRefused, 400, "")
	_, err = c.WhoAmI(t.Context())
	refused(t, err, region.KeyRefused, 401, "")
	if _, err := c.Version(t.Context()); err != nil {
		t.Errorf("version: %v", err)
	}
	if _, err := c.Ask(t.Context(), "machines/", "", nil, url.Values{"hostname": {"stranger"}}); err != nil || len(l.Machines()) != 1 {
		t.Errorf("enlist: %v", err)
	}
	plain, err := http.Get(l.server.URL + "/MAAS/api/2.0/machines/")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Body.Close()
	if body, _ := io.ReadAll(plain.Body); string(body) != "Unrecognised signature: method=GET op=None" {
		t.Errorf("%s", body)
	}
}

// Test03Operations: op stands in the query or in the form, and one that is not there is refused.
func Test03Operations(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	id := l.ready()
	_, err := l.client.Ask(t.Context(), "machines/"+id+"/", "fly", nil, url.Values{})
	refused(t, err, region.Refused, 400, "Unrecognised signature: method=POST op=fly")
	_, err = l.client.Ask(t.Context(), "machines/"+id+"/", "release", nil, nil)
	refused(t, err, region.Refused, 400, "Unrecognised signature: method=GET op=release")
	if _, err := l.client.Ask(t.Context(), "machines/"+id+"/", "", nil, url.Values{"op": {"release"}}); err != nil {
		t.Errorf("op in the form: %v", err)
	}
}

// Test04List: the list comes whole. What MAAS does not know in a filter is refused, and is no empty list.
func Test04List(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	l.Define("gpu", "")
	for i := range 1200 {
		m := maassim.Machine{Status: 4, Pool: fmt.Sprint("pool", i%2)}
		if i%3 == 0 {
			m.Tags = []string{"gpu"}
		}
		l.Add(m)
	}
	acquired := l.held()
	list := func(f region.Filter) (ids []string, err error) {
		err = l.client.Machines(t.Context(), f, func(m region.Machine) error { ids = append(ids, m.ID); return nil })
		return ids, err
	}
	for want, f := range map[int]region.Filter{
		1201: {}, 1: {AgentName: "muster-1"}, 2: {IDs: []string{"aaaaaa", acquired}}, 0: {AgentName: "muster-2"},
	} {
		if ids, err := list(f); err != nil || len(ids) != want || want == 1 && ids[0] != acquired {
			t.Errorf("%+v: %d machines, %v; want %d", f, len(ids), err, want)
		}
	}
	raw := func(name string, values ...string) (int, error) {
		text, err := l.client.Ask(t.Context(), "machines/", "", url.Values{name: values}, nil)
		return strings.Count(text, `"system_id"`), err
	}
	for want, f := range map[int][]string{400: {"tags", "gpu"}, 801: {"not_tags", "gpu"}, 600: {"pool", "pool1"},
		1200: {"status", "ready", "failed_deployment"}} {
		if n, err := raw(f[0], f[1:]...); err != nil || n != want {
			t.Errorf("%q: %d machines, %v; want %d", f, n, err, want)
		}
	}
	for name, says := range map[string]string{"tags": "tags: No such tag(s): 'x'.", "status": "", "shape": "shape: No such constraint."} {
		_, err := raw(name, "x")
		refused(t, err, region.Refused, 400, says)
	}
}

// Test05NoSuch: that a machine is not there is said before that one may not. A 403 says nothing.
func Test05NoSuch(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	id := l.ready()
	plain := l.as(l.AddUser("ann", false))
	_, err := plain.Commission(t.Context(), "nosuch")
	refused(t, err, region.NoSuch, 404, "No Machine matches the given query.")
	_, err = plain.Commission(t.Context(), id)
	refused(t, err, region.Forbidden, 403, "this user of MAAS may not do it, or the machine is locked")
	for _, op := range []string{"", "machines"} {
		_, err = l.client.Ask(t.Context(), "tags/nosuch/", op, nil, nil)
		refused(t, err, region.NoSuch, 404, "No Tag matches the given query.")
	}
	refused(t, l.client.Retag(t.Context(), "nosuch", nil, nil), region.NoSuch, 404, "No Tag matches the given query.")
	_, err = l.client.Ask(t.Context(), "nothing/", "", nil, nil)
	refused(t, err, region.NotMAAS, 404, "")
}

// Test06Locked: nothing is done with a locked machine, but unlocking it.
func Test06Locked(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	id := l.deployed()
	op := func(name string) error {
		_, err := l.client.Ask(t.Context(), "machines/"+id+"/", name, nil, url.Values{})
		return err
	}
	refused(t, op("unlock"), region.Conflict, 409, "Machine is not locked")
	if err := op("lock"); err != nil {
		t.Fatal(err)
	}
	refused(t, op("lock"), region.Conflict, 409, "Machine is already locked")
	for _, name := range []string{"release", "deploy", "mark_broken", "mark_fixed", "commission", "power_on", "abort"} {
		refused(t, op(name), region.Forbidden, 403, "")
	}
	if m := l.is(id, 6); m.Locked == nil || !*m.Locked {
		t.Error("it is not locked")
	}
	if err := op("unlock"); err != nil {
		t.Fatal(err)
	}
	refused(t, func() error { id = l.held(); return op("lock") }(), region.Conflict, 409, "Can't lock, node is not deployed or deploying")
}
