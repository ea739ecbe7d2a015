package reach

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"muster"
)

// Complete checks the public URL and leaves no path in it. If the operator gave none, it makes one from the TLS listener's
// address. Errors begin with setting, which is how the operator set the URL.
func (r Reach) Complete(setting string) (Reach, error) {
	r.PublicGiven = r.PublicURL != ""
	if !r.PublicGiven {
		r.PublicURL = made(r.Listen)
	}
	read := readURL
	if r.PublicGiven {
		read = Given
	}
	u, err := read(r.PublicURL)
	if err != nil {
		return r, fmt.Errorf("%s %w", setting, err)
	}
	r.PublicURL = u.String()
	if err := r.answers(u); err != nil {
		return r, fmt.Errorf("%s %w", setting, err)
	}
	return r, nil
}

// Check refuses a URL by which no machine can reach this gateway. A person gave it for some machines.
func (r Reach) Check(text string) error {
	u, err := Given(text)
	if err != nil {
		return err
	}
	return r.answers(u)
}

func (r Reach) answers(u *url.URL) error {
	if u.Scheme == "http" && r.PlainListen == "" && !r.Proxied {
		return fmt.Errorf("%s is without TLS, and nothing of this gateway answers without TLS: write https://, or add --plain-listen :%s",
			u, cmp.Or(u.Port(), "80"))
	}
	return nil
}

// Given reads the URL of a gateway that a person gave. The result has no path.
func Given(text string) (*url.URL, error) {
	u, err := readURL(text)
	if err != nil || u.Port() == "" {
		return u, err
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("%.120q: a port is a number from 1 to 65535", text)
	}
	return u, nil
}

func readURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery+u.Fragment != "" || u.ForceQuery || u.User != nil {
		return nil, fmt.Errorf("%.120q: write https://host or https://host:port", text)
	}
	u = &url.URL{Scheme: u.Scheme, Host: u.Host}
	return u, muster.CheckURL(u.String())
}

func made(listen string) string {
	host, port, _ := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = hostname()
	}
	return "https://" + net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port)
}

// hostname is this machine's name, empty if it has none.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// Hosts returns the names that the gateway's own certificate is for.
func (r Reach) Hosts() []string {
	var hosts []string
	if u, err := url.Parse(r.PublicURL); err == nil {
		hosts = append(hosts, u.Hostname())
	}
	if host, _, err := net.SplitHostPort(r.Listen); err == nil && host != "" {
		if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
			hosts = append(hosts, host)
		}
	}
	if name := hostname(); name != "" {
		hosts = append(hosts, name)
	}
	return hosts
}

// RealURL puts the port that a listener has into a public URL that was made from port 0.
func RealURL(publicURL string, a net.Addr) string {
	u, err := url.Parse(publicURL)
	if err != nil || u.Port() != "0" {
		return publicURL
	}
	u.Host = net.JoinHostPort(u.Hostname(), port(a))
	return u.String()
}

// RealAddress puts the port that a listener has into its address, if the address asked for port 0.
func RealAddress(listen string, a net.Addr) string {
	host, asked, err := net.SplitHostPort(listen)
	if err != nil || asked != "0" {
		return listen
	}
	return net.JoinHostPort(host, port(a))
}

// port is the port of an address that a listener has.
func port(a net.Addr) string {
	_, p, _ := net.SplitHostPort(a.String())
	return p
}
