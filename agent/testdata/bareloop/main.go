// Command bareloop is the smallest possible agent: a loop of net/http, crypto/tls, os/exec and encoding/json. A benchmark compares the
// memory of the real agent with its memory. So it collects garbage and gives memory back as the real one does: see memory.go there.
package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os/exec"
	"runtime"
	"runtime/debug"
	"time"
)

func main() {
	url := flag.String("url", "", "where to post to")
	interval := flag.Duration("interval", 30*time.Second, "time between posts")
	command := flag.String("command", "true", "program to run before each")
	flag.Parse()
	debug.SetGCPercent(25)
	runtime.GOMAXPROCS(min(2, runtime.GOMAXPROCS(0)))
	time.AfterFunc(15*time.Second, giveMemoryBack)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for counter := 0; ; counter++ {
		beat(client, *url, *command, counter)
		time.Sleep(*interval)
	}
}

func giveMemoryBack() {
	debug.FreeOSMemory()
	time.AfterFunc(time.Minute, giveMemoryBack)
}

// beat runs a program, posts what it printed, and reads the answer. It ignores failures, because the next beat comes soon.
func beat(client *http.Client, url, command string, counter int) {
	output, _ := exec.Command(command).CombinedOutput()
	body, _ := json.Marshal(map[string]any{"counter": counter, "output": string(output)})
	response, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return
	}
	defer response.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	var answer map[string]any
	json.Unmarshal(raw, &answer)
}
