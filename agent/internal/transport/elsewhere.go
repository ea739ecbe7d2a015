package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	maxHops  = 5                // redirects that Elsewhere follows
	maxWhole = 30 * time.Minute // of one exchange
)

// Elsewhere writes what an https URL gives, from this byte on, until its end. The server needs a certificate that this system trusts. The
// authorization goes to the host of the URL alone: after a redirect to another host it is left out. Nothing proves the content: the caller
// knows its digest, and ends a download that stalls. An error of the writer ends it. The writer gets an empty piece for bytes that it has
// already. It uses the same way (direct or curl) as this client.
func (c *Client) Elsewhere(ctx context.Context, address, authorization string, from int64, to io.Writer) error {
	for range maxHops {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			return errors.New("the content is not at an https URL, or its URL carries a password: where it lies has to be set right at the gateway")
		}
		answer, err := c.foreign(ctx, u, authorization, &Download{To: to, From: from, open: true})
		if err != nil {
			return err
		}
		next, err := u.Parse(answer.Header.Get("Location"))
		switch {
		case answer.Status == http.StatusOK, answer.Status == http.StatusPartialContent:
			return nil
		case answer.Status/100 != 3 || answer.Header.Get("Location") == "" || err != nil:
			return fmt.Errorf("fetch from %s: HTTP %d, %s", u.Host, answer.Status, answer.shape())
		case next.Scheme != u.Scheme || next.Host != u.Host:
			authorization = ""
		}
		address = next.String()
	}
	return fmt.Errorf("more than %d redirects", maxHops)
}

// foreign makes one exchange with another server than the gateway, through a client of its own.
func (c *Client) foreign(ctx context.Context, u *url.URL, authorization string, into *Download) (Answer, error) {
	cfg := c.cfg
	cfg.Gateway = u.Scheme + "://" + u.Host
	cfg.First = FirstContact{NeedTrust: true}
	other, err := New(cfg)
	if err != nil {
		return Answer{}, err
	}
	defer other.Close()
	answer, err := other.carry(ctx, nil, func(d *endpoint, via Way) (attempt, error) {
		o := other.outgoing(Request{Path: u.RequestURI(), Timeout: maxWhole, Into: into})
		if authorization != "" {
			o.header.Set("Authorization", authorization)
		}
		into.ask(o.header)
		answer, err := d.over(via, first).exchange(ctx, o)
		return attempt{Answer: answer, via: via}, err
	})
	return answer.Answer, err
}
