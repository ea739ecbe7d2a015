package runpod

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestCommand runs the command as a container's first process. The script runs, none of its children has it in the environment, and the
// first process goes on without it.
func TestCommand(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/start.sh"); err == nil {
		t.Skip("this machine has a /start.sh")
	}
	words := strings.SplitN(command, " ", 3) // RunPod splits it so: there is one word in quotes
	inner, quoted := strings.CutPrefix(words[2], "'")
	inner, closed := strings.CutSuffix(inner, "'")
	if !quoted || !closed || strings.Contains(inner, "'") {
		t.Fatalf("the command is not two words and one in quotes: %q", words)
	}
	script := "#!/bin/sh\nset -e\nenv | grep MUSTER_START && exit 1\n" +
		"n=0; while tr '\\0' '\\n' </proc/$$/environ | grep -q MUSTER_START; do n=$((n + 1)); [ $n -lt 10000 ] || exit 2; done\n" +
		"echo \"it's clean\"\nexit 7\n"
	first := exec.CommandContext(t.Context(), words[0], words[1], inner)
	first.Env = []string{"PATH=" + os.Getenv("PATH"), scriptIn + "=" + script}
	first.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "it's clean\n" {
		t.Errorf("the script says %q, %v", line, err)
	}
	name, _ := os.ReadFile("/proc/" + strconv.Itoa(first.Process.Pid) + "/comm")
	if string(name) != "sleep\n" {
		t.Errorf("the first process is %q", name)
	}
	_ = syscall.Kill(-first.Process.Pid, syscall.SIGKILL)
	_ = first.Wait()
}
