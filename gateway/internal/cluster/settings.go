package cluster

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"muster/store/rqlite"
)

// scheme begins the address of a shared store.
const scheme = "rqlite"

// Settings are the flags of serve that are about several gateways, each by the name of its field.
type Settings struct {
	Store             string // rqlite://[USER@]HOST:PORT,HOST:PORT; empty: the database is this gateway's own
	StoreCA           string // PEM file with the roots of the nodes' certificates; empty: plain HTTP, to this machine alone
	StoreCert         string // PEM file with the certificate that this gateway shows to them
	StoreKey          string // PEM file with its key
	StorePasswordFile string // file with the password of USER
	PeerListen        string // HOST:PORT on which this gateway serves the others, as they reach it; without HOST the GatewayID is it
	GatewayID         string // name among the gateways; empty: the machine's
	AnyClock          bool   // take over even if this machine's clock is far from that of the gateway that was active
}

// IsStore reports whether a text is the address of a shared store, and no directory.
func IsStore(text string) bool { return strings.HasPrefix(text, scheme+"://") }

// Shared reports whether the store is one that several gateways share.
func (s Settings) Shared() bool { return s.Store != "" }

// Check refuses settings that cannot work. named says where a flag's value came from.
func (s Settings) Check(named func(flag string) string) error {
	if !s.Shared() {
		for flag, value := range map[string]string{"store-ca": s.StoreCA, "store-cert": s.StoreCert, "store-key": s.StoreKey,
			"store-password-file": s.StorePasswordFile} {
			if value != "" {
				return fmt.Errorf("%s needs a --store", named(flag))
			}
		}
		return nil
	}
	if err := s.checkStore(named); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.PeerListen)
	if ip := net.ParseIP(host); err != nil || port == "" || port == "0" || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("%s %q: write HOST:PORT, under which the other gateways reach this one", named("peer-listen"), s.PeerListen)
	}
	if s.GatewayID != "" && !isID(s.GatewayID) {
		return fmt.Errorf("%s %.80q: %s", named("gateway-id"), s.GatewayID, idForm)
	}
	return nil
}

// checkStore is Check for what leads to the store.
func (s Settings) checkStore(named func(flag string) string) error {
	user, endpoints, err := s.address()
	if err != nil {
		return fmt.Errorf("%s: %w", named("store"), err) // without the value: a password may stand in it
	}
	switch {
	case (s.StoreCert == "") != (s.StoreKey == ""):
		return errors.New("--store-cert and --store-key belong together")
	case s.StoreCert != "" && s.StoreCA == "":
		return errors.New("--store-cert needs a --store-ca")
	case (user == "") != (s.StorePasswordFile == ""):
		return errors.New("a user in --store and a --store-password-file belong together")
	}
	if s.StoreCA == "" {
		for _, endpoint := range endpoints {
			if host, _, _ := net.SplitHostPort(endpoint); !rqlite.Loopback(host) {
				return fmt.Errorf("%s %s: that node is not on this machine, so it needs TLS: name its CA with --store-ca FILE", named("store"),
					endpoint)
			}
		}
	}
	return nil
}

// address reads the store's address.
func (s Settings) address() (user string, endpoints []string, err error) {
	const form = "write rqlite://HOST:PORT,HOST:PORT, with all nodes of the cluster"
	rest, ok := strings.CutPrefix(s.Store, scheme+"://")
	if !ok {
		return "", nil, errors.New(form)
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if user, rest = rest[:at], rest[at+1:]; user == "" || strings.ContainsRune(user, ':') {
			return "", nil, errors.New("a password does not belong here, where others see it: write rqlite://USER@HOST:PORT, and name a " +
				"file with --store-password-file")
		}
	}
	for endpoint := range strings.SplitSeq(strings.TrimSuffix(rest, "/"), ",") {
		host, port, err := net.SplitHostPort(endpoint)
		if number, odd := strconv.ParseUint(port, 10, 16); err != nil || host == "" || odd != nil || number == 0 {
			return "", nil, errors.New(form)
		}
		endpoints = append(endpoints, endpoint)
	}
	return user, endpoints, nil
}

// Where names the store in a message.
func (s Settings) Where() string { return "the database at " + s.Store }

// options reads the files.
func (s Settings) options() (o rqlite.Options, err error) {
	if o.User, o.Endpoints, err = s.address(); err != nil {
		return o, err
	}
	if s.StorePasswordFile != "" {
		text, err := os.ReadFile(s.StorePasswordFile)
		if err != nil {
			return o, fmt.Errorf("the store's password (--store-password-file): %w", err)
		}
		if o.Password = strings.TrimRight(string(text), "\r\n"); o.Password == "" {
			return o, fmt.Errorf("the file %s with the store's password is empty", s.StorePasswordFile)
		}
	}
	if s.StoreCA == "" {
		return o, nil
	}
	roots, err := os.ReadFile(s.StoreCA)
	if err != nil {
		return o, fmt.Errorf("the store's CA (--store-ca): %w", err)
	}
	o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if !o.TLS.RootCAs.AppendCertsFromPEM(roots) {
		return o, fmt.Errorf("the file %s has no certificate", s.StoreCA)
	}
	if s.StoreCert == "" {
		return o, nil
	}
	own, err := tls.LoadX509KeyPair(s.StoreCert, s.StoreKey)
	if err != nil {
		return o, fmt.Errorf("the certificate for the store (--store-cert, --store-key): %w", err)
	}
	o.TLS.Certificates = []tls.Certificate{own}
	return o, nil
}

// id is this gateway's name among the gateways.
func (s Settings) id() (string, error) {
	if s.GatewayID != "" {
		return s.GatewayID, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("%w; name this gateway with --gateway-id", err)
	}
	if !isID(name) {
		return "", fmt.Errorf("this machine's name %.80q is none for a gateway: name it with --gateway-id; %s", name, idForm)
	}
	return name, nil
}

const idForm = "write a name of letters, digits, dots and dashes, 63 at most"

// isID tells whether a name stands in a certificate as it is.
func isID(name string) bool {
	odd := strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")
	return name != "" && odd == "" && len(name) <= 63
}

// url is where other gateways reach this one.
func (s Settings) url(id string) string {
	host, port, _ := net.SplitHostPort(s.PeerListen)
	return (&url.URL{Scheme: "https", Host: net.JoinHostPort(cmp.Or(host, id), port)}).String()
}
