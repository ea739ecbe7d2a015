package main

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"
	"time"
)

func noEnv(string) string { return "" }

func TestOptions(t *testing.T) {
	const gateway = "-gateway=https://127.0.0.1:7443"
	for _, c := range []struct {
		args string
		want string // part of the error, empty for none
	}{
		{gateway, ""},
		{"-gateway=https://[::1]:7443", ""},
		{"-gateway=https://localhost", ""},
		{"-gateway=https://127.8.9.10:1/", ""},
		{"-gateway=http://127.0.0.1:7480 -transport=signed", ""},
		{gateway + " -nodes=100000 -duration=10m -rate=33.3 -conns=4096 -gpus=8 -transport=mtls -renew -verify -beats=3", ""},
		{gateway + " -peer -keep=x", ""},
		{"", "write https://"},
		{"-gateway=127.0.0.1:7443", "write https://"},
		{"-gateway=ftp://127.0.0.1", "write https://"},
		{"-gateway=https://127.0.0.1/x", "write https://"},
		{"-gateway=https://user@127.0.0.1", "write https://"},
		{"-gateway=https://gateway.example:7443", "not a loopback address"},
		{"-gateway=https://192.0.2.1:7443", "not a loopback address"},
		{"-gateway=https://0.0.0.0:7443", "not a loopback address"},
		{"-gateway=https://127.0.0.1.example.com", "not a loopback address"},
		{"-gateway=https://localhost.example", "not a loopback address"},
		{"-gateway=http://127.0.0.1:7480", "-transport signed"},
		{gateway + " -nodes=0", "-nodes"},
		{gateway + " -duration=-1s", "-duration"},
		{gateway + " -rate=-1", "-rate"},
		{gateway + " -rate=NaN", "-rate"},
		{gateway + " -beats=-1", "-beats"},
		{gateway + " -conns=0", "-conns"},
		{gateway + " -gpus=4", "-gpus"},
		{gateway + " -transport=curl", "-transport"},
		{gateway + " -peer", "-keep"},
		{gateway + " -peer -keep=x -renew", "cannot renew"},
		{gateway + " -turns -insist -keep=x -peer", ""},
		{"-noop=127.0.0.1:0", ""},
		{gateway + " -turns -renew", "-turns"},
		{gateway + " -turns -step-ca=x", "-turns"},
		{"-gateway=http://127.0.0.1 -transport=signed -step-ca=x", "-step-ca"},
		{gateway + " more", "no arguments"},
		{gateway + " -unknown", "-unknown"},
	} {
		_, err := parseOptions(strings.Fields(c.args), noEnv, &bytes.Buffer{})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.args, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %q in it", c.args, err, c.want)
		}
	}
}

func TestOptionValues(t *testing.T) {
	env := func(name string) string { return map[string]string{"MUSTER_TOKEN": "from the environment"}[name] }
	o, err := parseOptions([]string{"-gateway=https://127.0.0.1"}, env, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if o.gateway.Host != "127.0.0.1:443" || o.token != "from the environment" || o.duration != 10*time.Second || o.nodes != 100 ||
		o.transport != viaMixed {
		t.Errorf("got %+v", o)
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if _, err := parseOptions([]string{"-help"}, noEnv, &out); !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"MUSTER_TOKEN", "-transport", "-keep", "loopback"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help does not speak of %s", want)
		}
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{"-help"}, exitDone, ""},
		{[]string{"-gateway", "https://gateway.example"}, exitUsage, "gateways under test"},
		{[]string{"-gateway", "https://127.0.0.1:1"}, exitFailed, "is the gateway running?"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), c.args, noEnv, strings.NewReader(""), &stdout, &stderr); code != c.code ||
			!strings.Contains(stderr.String(), c.say) {
			t.Errorf("%q: got %d and %q, want %d and %q in it", c.args, code, stderr.String(), c.code, c.say)
		}
	}
}
