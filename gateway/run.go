package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"muster/agent/flags"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/backup"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cluster"
	"muster/gateway/internal/datadir"
	"muster/store"
)

// version and builtAt are set by the linker in `make build`.
var (
	version = "dev"
	builtAt = "2026-11-01T00:00:00Z"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitLost   = 75 // another gateway is the active one now: start again, and stand by (EX_TEMPFAIL of sysexits(3))
)

// run is the whole program: serve is done here, everything else is the operator's command line.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	at := slices.Index(args, "serve")
	if at < 0 || !onlyFlags(args[:at]) {
		return commandLine(ctx, args, getenv, stdin, stdout, stderr)
	}
	s, err := parseSettings(slices.Delete(slices.Clone(args), at, at+1), getenv, stdout)
	switch {
	case errors.Is(err, flags.ErrHelp):
		return exitDone
	case err != nil:
		fmt.Fprintf(stderr, "muster serve: %v\n%s serve --help shows every flag\n", err, cli.Program(getenv))
		return exitUsage
	}
	return exitOf(serve(ctx, s, getenv, stdout, stderr), stderr)
}

// exitOf says how serve ended, and gives the exit code.
func exitOf(err error, stderr io.Writer) int {
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(stderr, "muster serve: %v\n", err)
	if cluster.Ended(err) {
		return exitLost
	}
	return exitFailed
}

// commandLine is every command but serve. It runs in the operator's own process, and reaches the gateway over the admin API.
func commandLine(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	agents, err := agentFiles()
	if err != nil {
		fmt.Fprintf(stderr, "muster: %v\n", err)
		return exitFailed
	}
	return cli.Run(ctx, cli.Env{Args: args, Getenv: getenv, Stdin: stdin, Stdout: stdout, Stderr: stderr, Version: version,
		Program: cli.Program(getenv), Agents: agents, Serve: serveFlags, Local: local(getenv, stderr)}, commands.All())
}

// serveFlags reads serve's flags for the command that installs the service.
func serveFlags(args []string, getenv func(string) string) (cli.ServeFlags, error) {
	s, err := parseSettings(args, getenv, io.Discard)
	return cli.ServeFlags{Given: s.given, Data: s.Data, Listen: s.Listen, PlainListen: s.PlainListen, PublicURL: s.PublicURL,
		Files: s.files}, err
}

// onlyFlags tells whether args holds flags and their values alone, as before the command in `--data DIR serve`. A word that follows
// a flag counts as its value, because the flags of serve are not known here.
func onlyFlags(args []string) bool {
	for i := 0; i < len(args); i++ {
		if args[i] == "" || args[i][0] != '-' {
			if i == 0 || args[i-1][0] != '-' {
				return false
			}
		}
	}
	return true
}

// defaultData is the data directory where --data names none. Every other command looks there too.
func defaultData(getenv func(string) string) string { return datadir.Default(getenv, os.Geteuid(), "") }

// local is what the command line does on files of this machine, without a gateway. Package cli may not import the parts that do it
// (deps_test.go), so the program hands them in.
func local(getenv func(string) string, say io.Writer) cli.Local {
	o := backup.Offline{Getenv: getenv, Say: say}
	return cli.Local{
		InitCA: o.InitCA, RotateMaster: o.RotateMaster, ExportTrust: o.ExportTrust, ImportTrust: o.ImportTrust, Restore: o.Restore, Copy: o.Copy,
		NewRoot: func(dir, domain string) (string, error) { return authority.NewRootDir(dir, domain, nil) },
		SignIntermediate: func(dir, request, domain string) (string, error) {
			return authority.SignIntermediate(dir, request, domain, nil)
		},
		SignSet: authority.SignSet,
		Schema: func(ctx context.Context, data string) (has, known int, err error) {
			return store.Schema(ctx, filepath.Join(data, datadir.Database))
		},
	}
}

// The agents that `make build` put here, as agents/<os>-<arch>/muster-agent. A bare checkout has none and builds all the same.
//
//go:embed all:agents
var embedded embed.FS

func agentFiles() (fs.FS, error) { return fs.Sub(embedded, "agents") }
