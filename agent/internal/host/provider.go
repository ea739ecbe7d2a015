package host

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// The providers that the agent recognises.
const (
	VastAI = "vast_ai"
	RunPod = "runpod"
	AWS    = "aws"
	GCP    = "gcp"
	Azure  = "azure"
	OCI    = "oci"
)

const (
	metadataURL      = "http://169.254.169.254" // link-local on every cloud; a number, so that no resolver is asked
	metadataDeadline = time.Second              // for all requests together
	maxMetadata      = 4 << 10
)

// Detector finds out which provider rents this machine out, and under which id. Its zero value looks at this machine.
type Detector struct {
	Env         func(name string) string // the agent's environment; nil: os.Getenv
	Root        string                   // where the file system begins; empty: "/"
	Client      *http.Client             // for metadata; nil: one without a proxy
	MetadataURL string                   // empty: http://169.254.169.254
}

// Detect returns the provider and the id of the instance. Each is empty if it is not known.
//
// First it looks at variables that providers set: in the agent's environment, in /etc/environment, and in the environment of process 1.
// Some providers set them in only one of these places. Then it looks at the firmware's vendor. It asks a cloud's metadata service only if
// the firmware names that cloud, and for a second at most. It never looks at other variables, because some hold API keys.
func (d Detector) Detect(ctx context.Context) (provider, instanceID string) {
	if d.Env == nil {
		d.Env = os.Getenv
	}
	for _, lookup := range []func(string) string{d.Env, d.environmentFile, d.firstProcess} {
		if provider, id := fromVariables(lookup); provider != "" {
			return provider, id
		}
	}
	return d.cloud(ctx)
}

// fromVariables knows the variables of providers whose machines are containers. A value that cannot be an id counts as none.
func fromVariables(lookup func(string) string) (provider, instanceID string) {
	// Other software sets CONTAINER_ID too. The one of vast.ai is a number.
	if id := lookup("CONTAINER_ID"); validID(id) && strings.Trim(id, "0123456789") == "" {
		return VastAI, id
	}
	if id, ok := strings.CutPrefix(lookup("VAST_CONTAINERLABEL"), "C."); ok && validID(id) {
		return VastAI, id
	}
	if id := lookup("RUNPOD_POD_ID"); validID(id) {
		return RunPod, id
	}
	return "", ""
}

// validID reports whether a text can be an id. A variable may hold anything, and so may the answer of a web server that is not a metadata
// service.
func validID(id string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return id != "" && len(id) <= 128 && strings.Trim(id, letters) == ""
}

// environmentFile finds one variable in /etc/environment.
func (d Detector) environmentFile(name string) string {
	for line := range strings.Lines(Tree(d.Root).Text("etc/environment")) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}

// firstProcess finds one variable in the environment that process 1 was started with.
func (d Detector) firstProcess(name string) string {
	for pair := range bytes.SplitSeq(Tree(d.Root).Bytes("proc/1/environ"), []byte{0}) {
		if value, ok := bytes.CutPrefix(pair, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// cloud looks at the firmware. Google and Microsoft are also vendors of machines outside of their clouds, so their names alone
// prove nothing.
func (d Detector) cloud(ctx context.Context) (provider, instanceID string) {
	ctx, cancel := context.WithTimeout(ctx, metadataDeadline)
	defer cancel()
	dmi := func(name string) string { return Tree(d.Root).Text("sys/class/dmi/id/" + name) }
	vendor := dmi("sys_vendor")
	product := dmi("product_name")
	tag := dmi("chassis_asset_tag")
	switch {
	case vendor == "Amazon EC2":
		return AWS, d.awsInstance(ctx, dmi("board_asset_tag"))
	case vendor == "Google" && product == "Google Compute Engine":
		return GCP, d.metadata(ctx, "GET", "/computeMetadata/v1/instance/id", "Metadata-Flavor", "Google")
	case strings.HasPrefix(tag, "OracleCloud"):
		return OCI, d.metadata(ctx, "GET", "/opc/v2/instance/id", "Authorization", "Bearer Oracle")
	case vendor == "Microsoft Corporation" && product == "Virtual Machine":
		id := d.metadata(ctx, "GET", "/metadata/instance/compute/vmId?api-version=2021-02-01&format=text", "Metadata", "true")
		if id != "" || tag == "7783-7084-3265-9085-8269-3286-77" { // every Azure machine has this tag, and no other Hyper-V machine
			return Azure, id
		}
	}
	return "", ""
}

// awsInstance asks the metadata service, version 2, which wants a token. It answers over one network hop, so many containers cannot
// reach it. Nitro machines have the id in their firmware too.
func (d Detector) awsInstance(ctx context.Context, boardTag string) string {
	token := d.fetch(ctx, "PUT", "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "60")
	if token != "" {
		if id := d.metadata(ctx, "GET", "/latest/meta-data/instance-id", "X-aws-ec2-metadata-token", token); id != "" {
			return id
		}
	}
	digits, found := strings.CutPrefix(boardTag, "i-")
	if !found || len(digits) < 8 || len(digits) > 32 || strings.Trim(digits, "0123456789abcdef") != "" {
		return ""
	}
	return boardTag
}

// metadata fetches an id. It is empty if the answer cannot be one.
func (d Detector) metadata(ctx context.Context, method, path, header, value string) string {
	if id := d.fetch(ctx, method, path, header, value); validID(id) {
		return id
	}
	return ""
}

// fetch makes one request, and returns the text of the answer where its status is 200.
func (d Detector) fetch(ctx context.Context, method, path, header, value string) string {
	base := cmp.Or(d.MetadataURL, metadataURL)
	request, err := http.NewRequestWithContext(ctx, method, base+path, nil)
	if err != nil {
		return ""
	}
	request.Header.Set(header, value)
	answer, err := d.client().Do(request)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxMetadata))
	if err != nil || answer.StatusCode != http.StatusOK {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// client never uses a proxy and never follows a redirect, so that only the machine's own metadata service answers.
func (d Detector) client() *http.Client {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if d.Client != nil {
		client = *d.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}
