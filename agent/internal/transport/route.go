package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"muster/agent/wire"
)

// Way says what carries the requests: the agent itself, curl, or either of them.
type Way string

// The ways. Auto begins with the direct way. It changes to curl where an edge (a proxy or filter in the network) stops the direct way,
// and looks now and then whether the direct way works again.
const (
	Direct Way = "direct"
	Curl   Way = "curl"
	Auto   Way = "auto"
)

// ParseWay reads auto, direct or curl, as --transport takes it.
func ParseWay(text string) (Way, error) {
	switch w := Way(text); w {
	case Auto, Direct, Curl:
		return w, nil
	}
	return "", fmt.Errorf("a transport is auto, direct or curl, not %.40q", text)
}

// exchanger sends one request and returns the whole answer, whoever sent it. Direct and curl are the two of them.
type exchanger interface {
	exchange(ctx context.Context, o *outgoing) (Answer, error)
	close()
}

// role says what an exchange demands of the gateway's certificate.
type role int

const (
	strict  role = iota // the gateway of an enrolled node, at this time
	lenient             // the same at any time: to learn what time it is
	first               // what Config.First demands, before enrolment
	anyone              // nothing: the caller verifies what comes, or only looks
	roles
)

// Pauses between looks whether the direct way works again. The first pause is short, because the trouble may pass soon.
const (
	firstLook = 5 * time.Minute
	maxLook   = time.Hour
)

// route is what Auto knows. The client's lock guards it.
type route struct {
	curl    bool          // in use
	look    time.Time     // when to look at the direct way again
	pause   time.Duration // the last pause between two looks
	lacking bool          // the log says already that there is no curl
}

// carry makes one try at the gateway that is in use, which may be the next one afterwards. t is the caller's tenure; nil: it needs no
// identity. try must sign its request anew each time.
func (c *Client) carry(ctx context.Context, t *tenure, try func(d *endpoint, via Way) (attempt, error)) (attempt, error) {
	d := c.at(t)
	a, err := c.carryTo(ctx, d, func(via Way) (attempt, error) { return try(d, via) })
	if unreached(ctx, err) {
		c.move(t, d, err)
	}
	return a, err
}

// carryTo makes one try on the way that is in use. If an edge stops the direct one, it makes another try through curl.
func (c *Client) carryTo(ctx context.Context, d *endpoint, try func(via Way) (attempt, error)) (attempt, error) {
	if c.cfg.Way != Auto {
		return try(c.cfg.Way)
	}
	onCurl, look := c.standing()
	if onCurl && !look {
		a, err := try(Curl)
		if err != nil || !a.arrived() {
			c.lookSoon()
		}
		return a, err
	}
	a, err := try(Direct)
	why := stopped(a.Answer, err)
	if onCurl && err == nil && a.arrived() {
		c.backToDirect(d)
		return a, nil
	}
	if why == "" && !onCurl || ctx.Err() != nil {
		return a, err
	}
	if _, missing := d.findCurl(c.cfg.Curl); missing != nil {
		c.lacks(d, why, missing)
		a.noCurl = true
		if err != nil {
			err = fmt.Errorf("%w; %s", err, needsCurl)
		}
		return a, err
	}
	b, failed := try(Curl)
	if failed == nil && b.arrived() {
		c.changed(d, why, errors.Is(err, errHandshake))
		return b, nil
	}
	c.cfg.Logger.Debug("curl does not get through either", "host", d.base.Host, "direct", why, "error", failed)
	if onCurl {
		return b, failed
	}
	return a, err
}

// standing says whether curl is in use and whether it is time to look at the direct way.
func (c *Client) standing() (onCurl, look bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.route.curl, !c.cfg.Now().Before(c.route.look)
}

// lookSoon makes the next request try the direct way first.
func (c *Client) lookSoon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.route.look = time.Time{}
}

func (c *Client) backToDirect(d *endpoint) {
	c.mu.Lock()
	sure := c.route.pause > 0
	c.route = route{}
	c.mu.Unlock()
	if !sure {
		return
	}
	c.cfg.Logger.Info("the direct way works again: curl is not needed any more", "host", d.base.Host)
}

// changed notes that curl got through where the direct way did not. A handshake that was cut may have been one of a gateway that was just
// not there, as while another one takes its place. So the next request looks whether that happens again.
func (c *Client) changed(d *endpoint, why string, cut bool) {
	c.mu.Lock()
	sure := c.route.curl || !cut
	fresh := c.route.pause == 0
	c.route.curl = true
	d.mutual = false
	if !sure {
		c.mu.Unlock()
		return
	}
	c.route.pause = min(max(2*c.route.pause, firstLook), maxLook)
	c.route.look = c.cfg.Now().Add(c.route.pause)
	c.mu.Unlock()
	if fresh {
		c.cfg.Logger.Warn("something between stops this agent and lets curl through: going through curl, and looking now and then whether "+
			"that is still needed (--transport curl or direct fixes it)", "host", d.base.Host, "why", why)
	}
}

// lacks logs once that there is no curl to try.
func (c *Client) lacks(d *endpoint, why string, missing error) {
	c.mu.Lock()
	said := c.route.lacking
	c.route.lacking = true
	c.mu.Unlock()
	if !said {
		c.cfg.Logger.Warn("something between stops this agent; curl might get through: install it (apt-get install curl)", "host",
			d.base.Host, "why", why, "error", missing)
	}
}

// stopped says why an edge seems to have stopped a try. It is empty if none seems to.
func stopped(a Answer, err error) string {
	switch {
	case errors.Is(err, errHandshake):
		return "the TLS handshake is cut off"
	case err != nil:
		return ""
	}
	return a.edge()
}

// edge says why an answer seems to come from an edge: it is a challenge, a page, or an error of Cloudflare's. It is empty if the answer
// does not look so, or carries a proof, even a wrong one.
func (a Answer) edge() string {
	if a.claimsProof() {
		return ""
	}
	switch {
	case a.Header.Get("Cf-Mitigated") != "", a.Status == 530, bytes.HasPrefix(a.Body, []byte("error code: 1")):
		return a.Unproven().What
	case a.page() && (a.Status == http.StatusForbidden || a.Status == http.StatusTooManyRequests ||
		a.Status == http.StatusServiceUnavailable):
		return a.Unproven().What
	}
	return ""
}

// arrived reports whether an answer is probably the gateway's. It need not be proven: a gateway that does not know the credential cannot
// prove its answer.
func (a Answer) arrived() bool { return a.claimsProof() || a.edge() == "" && !a.page() }

// claimsProof reports whether an answer carries a proof. It does not check the proof.
func (a Answer) claimsProof() bool {
	return a.Header.Get(wire.HeaderAnswer) != "" || a.Header.Get(wire.HeaderProof) != "" || a.chained
}

// page reports whether an answer is a web page. A gateway never sends one on these routes.
func (a Answer) page() bool {
	return strings.Contains(strings.ToLower(a.Header.Get("Content-Type")), "html") || bytes.HasPrefix(bytes.TrimSpace(a.Body), []byte("<"))
}

// findCurl looks for the program at each exchange, because somebody may install or remove it while the agent runs.
func (d *endpoint) findCurl(program string) (string, error) {
	program, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("reach %s: curl cannot be run on this machine: install it, or choose --transport direct (%w)", d.base.Host,
			err)
	}
	return program, nil
}
