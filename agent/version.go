package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"

	"muster/agent/wire"
)

func (p program) version(args []string) error {
	f := p.flags("version", "Prints which build of the agent this is.", "  muster-agent version\n")
	if err := f.parse(args); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "muster-agent %s %s/%s %s protocol %d\n", version, runtime.GOOS, runtime.GOARCH, runtime.Version(), wire.ProtocolVersion)
	return nil
}

// agentInfo describes this program to the gateway. The digest is left out where its file cannot be read.
func agentInfo() wire.AgentInfo {
	info := wire.AgentInfo{Version: version, OS: runtime.GOOS, Arch: runtime.GOARCH}
	path, err := os.Executable()
	if err != nil {
		return info
	}
	file, err := os.Open(path)
	if err != nil {
		return info
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err == nil {
		info.Digest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	}
	return info
}
