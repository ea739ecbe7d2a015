package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Transports.
const (
	viaMTLS   = "mtls"
	viaSigned = "signed"
	viaMixed  = "mixed" // every other node
)

// options are what swarm was called with.
type options struct {
	gateway   *url.URL
	token     string
	nodes     int
	duration  time.Duration
	rate      float64
	beats     int
	transport string
	conns     int
	gpus      int
	renew     bool
	verify    bool
	peer      bool
	keep      string
	insist    bool
	inTurns   bool
	stepCA    string
	noop      string
	work      bool
	apiToken  string
}

const help = `swarm plays many nodes against a running gateway and prints rates and latencies as JSON.

  export MUSTER_TOKEN=$(muster --data DIR token create --uses 1000 -o json | sed -n 's/.*"token": *"\([^"]*\)".*/\1/p')
  swarm -gateway https://127.0.0.1:7443 -nodes 1000                             enrol them, then report for 10 s at full speed
  swarm -gateway https://127.0.0.1:7443 -nodes 1000 -keep swarm.json -renew     keep their identities, renew each
  swarm -gateway https://127.0.0.1:7443 -nodes 1000 -keep swarm.json -rate 33 -duration 5m     go on with them, no token needed

Latencies count from the moment a request is sent, with -rate from the moment it was due.
own_us is the processor time that swarm itself took for a request, which the gateway on the same machine did not have.

Flags:
`

func parseOptions(args []string, getenv func(string) string, stdout io.Writer) (options, error) {
	o := options{token: getenv("MUSTER_TOKEN"), apiToken: getenv("MUSTER_API_TOKEN"), duration: 10 * time.Second, conns: 32, gpus: 1}
	f := flag.NewFlagSet("swarm", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	gateway := f.String("gateway", "", "`URL` of the gateway, on a loopback address; http:// for its listener without TLS")
	f.IntVar(&o.nodes, "nodes", 100, "how many nodes")
	o.pace(f)
	f.StringVar(&o.transport, "transport", viaMixed, "mtls, signed, or mixed (every other node)")
	f.BoolVar(&o.renew, "renew", false, "also renew every node's certificate once, and use the new one")
	f.BoolVar(&o.verify, "verify", false, "check the proof of every answer to a heartbeat, instead of one in 64")
	f.BoolVar(&o.peer, "peer", false, "the server is no gateway but one to compare with: send the same requests, ask no proof of its answers")
	f.BoolVar(&o.insist, "insist", false, "a node that loses its connection, or finds no gateway, tries again until it is answered")
	f.BoolVar(&o.inTurns, "turns", false,
		"read lines on standard input: with each the nodes report, and a line of JSON answers it; "+
			"-duration, -rate, -beats, -conns and -gpus may stand in a line")
	f.StringVar(&o.stepCA, "step-ca", "", "the server is a step-ca: have it sign and renew; `FILE` has its JWK provisioner in JSON")
	f.BoolVar(&o.work, "work", false,
		"the nodes wait for tasks instead of reporting; tasks are given to them with -rate and -duration, by the account of MUSTER_API_TOKEN")
	f.StringVar(&o.noop, "noop", "", "be the server to compare heartbeats with, on this `ADDRESS`; it reads requests and does nothing")
	f.StringVar(&o.keep, "keep", "", "`FILE` for the nodes' identities (mode 0600): a later run goes on with them")
	if err := f.Parse(args); err != nil {
		if err == flag.ErrHelp {
			fmt.Fprint(stdout, help)
			f.SetOutput(stdout)
			f.PrintDefaults()
		}
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("there are no arguments, only flags: %q", f.Arg(0))
	}
	if o.noop != "" {
		return o, nil
	}
	var err error
	if o.gateway, err = loopback(*gateway); err != nil {
		return o, err
	}
	return o, o.check()
}

// pace adds the flags that say how the nodes report. Their defaults are the options as they are.
func (o *options) pace(f *flag.FlagSet) {
	f.DurationVar(&o.duration, "duration", o.duration, "how long they report; 0: not at all")
	f.Float64Var(&o.rate, "rate", o.rate, "heartbeats per second in all; 0: as fast as they are answered")
	f.IntVar(&o.beats, "beats", o.beats, "end after so many heartbeats of each node; 0: when the time is over")
	f.IntVar(&o.conns, "conns", o.conns, "requests in flight at once; nodes that sign share that many connections, a node on mTLS has its own")
	f.IntVar(&o.gpus, "gpus", o.gpus, "GPUs in a heartbeat: 1 or 8")
}

func (o *options) check() error {
	switch {
	case o.nodes < 1 || o.conns < 1 || o.duration < 0 || o.beats < 0 || !(o.rate >= 0):
		return fmt.Errorf("-nodes and -conns are 1 or more, -duration, -beats and -rate 0 or more")
	case o.gpus != 1 && o.gpus != 8:
		return fmt.Errorf("-gpus %d: 1 or 8", o.gpus)
	case !slices.Contains([]string{viaMTLS, viaSigned, viaMixed}, o.transport):
		return fmt.Errorf("-transport %q: mtls, signed or mixed", o.transport)
	case o.gateway.Scheme == "http" && o.transport != viaSigned:
		return fmt.Errorf("-transport %s needs https://; without TLS nodes can only sign: -transport signed", o.transport)
	case o.inTurns && (o.renew || o.stepCA != ""):
		return fmt.Errorf("-turns is for heartbeats alone, without -renew and -step-ca")
	case o.work && (o.transport != viaMTLS || o.inTurns || o.peer || o.stepCA != ""):
		return fmt.Errorf("-work needs -transport mtls, and is without -turns, -peer and -step-ca")
	case o.work && o.apiToken == "":
		return fmt.Errorf("-work needs MUSTER_API_TOKEN, the token of an account that may give tasks")
	case o.stepCA != "" && o.gateway.Scheme != "https":
		return fmt.Errorf("-step-ca needs https://")
	case o.peer && (o.keep == "" || o.renew):
		return fmt.Errorf("-peer needs -keep FILE with the identities of an earlier run, and cannot renew")
	}
	return nil
}

// loopback refuses every gateway that is not on this machine: thousands of nodes are an attack on any other. It adds the port where
// the URL has none.
func loopback(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if text == "" || err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("-gateway %.200q: write https://127.0.0.1:7443 or the like", text)
	}
	host := u.Hostname()
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("-gateway %s: %s is not a loopback address, and swarm is for gateways under test on the same machine; "+
			"start one with muster serve --listen 127.0.0.1:7443", text, host)
	}
	if u.Port() == "" {
		port := "443"
		if u.Scheme == "http" {
			port = "80"
		}
		u.Host = net.JoinHostPort(host, port)
	}
	return u, nil
}
