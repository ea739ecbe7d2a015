package host_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/host"
)

// noEnv is an empty environment.
func noEnv(string) string { return "" }

func TestProviderFromVariables(t *testing.T) {
	tests := []struct {
		name  string
		env   map[string]string
		files map[string]string
		want  string
	}{
		{"nothing", nil, nil, " "},
		{"vast.ai", map[string]string{"CONTAINER_ID": "39467543"}, nil, "vast_ai 39467543"},
		{"vast.ai by label", map[string]string{"VAST_CONTAINERLABEL": "C.39467543"}, nil, "vast_ai 39467543"},
		{"RunPod", map[string]string{"RUNPOD_POD_ID": "a1b2c3_d4"}, nil, "runpod a1b2c3_d4"},
		{"somebody else's container", map[string]string{"CONTAINER_ID": "web-1"}, nil, " "},
		{"not a label", map[string]string{"VAST_CONTAINERLABEL": "39467543"}, nil, " "},
		{"empty label", map[string]string{"VAST_CONTAINERLABEL": "C."}, nil, " "},
		{"not an id", map[string]string{"RUNPOD_POD_ID": "a b\n"}, nil, " "},
		{"far too long", map[string]string{"RUNPOD_POD_ID": strings.Repeat("a", 129), "CONTAINER_ID": strings.Repeat("1", 129)}, nil, " "},
		{"as long as may be", map[string]string{"RUNPOD_POD_ID": strings.Repeat("a", 128)}, nil, "runpod " + strings.Repeat("a", 128)},
		{"the environment comes first", map[string]string{"CONTAINER_ID": "1"}, map[string]string{"etc/environment": "CONTAINER_ID=2\n"},
			"vast_ai 1"},
		{"/etc/environment", nil, map[string]string{"etc/environment": "# comment\nPATH=/bin\nexport CONTAINER_ID=\"2\"\n"}, "vast_ai 2"},
		{"/etc/environment, then process 1", nil, map[string]string{"etc/environment": "XCONTAINER_ID=2\nCONTAINER_ID\n",
			"proc/1/environ": "PATH=/bin\x00CONTAINER_API_KEY=secret\x00XCONTAINER_ID=4\x00CONTAINER_ID=3\x00"}, "vast_ai 3"},
		{"process 1 of RunPod", nil, map[string]string{"proc/1/environ": "RUNPOD_API_KEY=secret\x00RUNPOD_POD_ID=abc"}, "runpod abc"},
		{"DGX Spark", nil, map[string]string{"sys/class/dmi/id/sys_vendor": "NVIDIA\n", "sys/class/dmi/id/product_name": "NVIDIA_DGX_Spark\n"},
			" "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			env := func(name string) string { return test.env[name] }
			provider, id := host.Detector{Env: env, Root: plant(t, test.files)}.Detect(t.Context())
			if got := provider + " " + id; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestProviderFromThisProcess(t *testing.T) {
	t.Setenv("CONTAINER_ID", "77")
	if provider, id := (host.Detector{}).Detect(t.Context()); provider != host.VastAI || id != "77" {
		t.Errorf("got %q %q", provider, id)
	}
}

// firmware is what the firmware of a cloud's machines says.
func firmware(vendor, product, tag, board string) map[string]string {
	const dir = "sys/class/dmi/id/"
	return map[string]string{dir + "sys_vendor": vendor + "\n", dir + "product_name": product + "\n",
		dir + "chassis_asset_tag": tag + "\n", dir + "board_asset_tag": board + "\n"}
}

const azureTag = "7783-7084-3265-9085-8269-3286-77"

func TestProviderFromMetadata(t *testing.T) {
	const ocid = "ocid1.instance.oc1.iad.anuwcljt"
	answers := map[string]string{ // by method, path, query and the header that each cloud demands
		"PUT /latest/api/token? 60":                                                         "tok==",
		"GET /latest/meta-data/instance-id? tok==":                                          "i-0123456789abcdef0",
		"GET /computeMetadata/v1/instance/id? Google":                                       "4520031799277581759\n",
		"GET /metadata/instance/compute/vmId?api-version=2021-02-01&format=text true":       "13f56399-bd52-4150-9748-7190aae1ff21",
		"GET /opc/v2/instance/id? Bearer Oracle":                                            ocid,
		"GET /latest/meta-data/instance-id? this is never asked for without a token before": "x",
	}
	headers := []string{"X-aws-ec2-metadata-token-ttl-seconds", "X-aws-ec2-metadata-token", "Metadata-Flavor", "Metadata", "Authorization"}
	tests := []struct {
		name  string
		files map[string]string
		want  string // with the metadata service
		mute  string // with one that knows nothing
	}{
		{"AWS", firmware("Amazon EC2", "p5.48xlarge", "Amazon EC2", "i-0fedcba9876543210"), "aws i-0123456789abcdef0", "aws i-0fedcba9876543210"},
		{"AWS without a tag", firmware("Amazon EC2", "p5.48xlarge", "Amazon EC2", "Not Specified"), "aws i-0123456789abcdef0", "aws "},
		{"GCP", firmware("Google", "Google Compute Engine", "", ""), "gcp 4520031799277581759", "gcp "},
		{"a Chromebook", firmware("Google", "Eve", "", ""), " ", " "},
		{"Azure", firmware("Microsoft Corporation", "Virtual Machine", azureTag, ""), "azure 13f56399-bd52-4150-9748-7190aae1ff21", "azure "},
		{"Hyper-V", firmware("Microsoft Corporation", "Virtual Machine", "1234", ""), "azure 13f56399-bd52-4150-9748-7190aae1ff21", " "},
		{"a Surface", firmware("Microsoft Corporation", "Surface Pro", "", ""), " ", " "},
		{"OCI", firmware("QEMU", "Standard PC", "OracleCloud.com", ""), "oci " + ocid, "oci "},
		{"bare metal", firmware("Supermicro", "SYS-821GE", "", ""), " ", " "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			asked := 0
			serve := func(known map[string]string) *httptest.Server {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked++
					i := slices.IndexFunc(headers, func(name string) bool { return r.Header.Get(name) != "" })
					if i < 0 {
						http.Error(w, "no header", http.StatusForbidden)
						return
					}
					answer, ok := known[fmt.Sprintf("%s %s?%s %s", r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get(headers[i]))]
					if !ok {
						http.Error(w, "no-such-thing", http.StatusNotFound)
						return
					}
					fmt.Fprint(w, answer)
				}))
				t.Cleanup(server.Close)
				return server
			}
			root := plant(t, test.files)
			for server, want := range map[*httptest.Server]string{serve(answers): test.want, serve(nil): test.mute} {
				provider, id := host.Detector{Env: noEnv, Root: root, MetadataURL: server.URL}.Detect(t.Context())
				if got := provider + " " + id; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
			if test.want == " " && asked > 0 {
				t.Errorf("the metadata service was asked %d times on a machine that is in no cloud", asked)
			}
		})
	}
}

// An answer that comes from something else than the metadata service, such as a captive portal, is not believed.
func TestMetadataIsNotBelieved(t *testing.T) {
	root := plant(t, firmware("Google", "Google Compute Engine", "", ""))
	tests := []struct {
		name   string
		handle http.HandlerFunc
	}{
		{"a page", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>log in</html>") }},
		{"an endless answer", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("1", 10_000)) }},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/id" {
				fmt.Fprint(w, "123")
				return
			}
			http.Redirect(w, r, "/id", http.StatusFound)
		}},
		{"a cut answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "123")
		}},
	}
	for _, test := range tests {
		server := httptest.NewServer(test.handle)
		t.Cleanup(server.Close)
		provider, id := host.Detector{Env: noEnv, Root: root, MetadataURL: server.URL, Client: server.Client()}.Detect(t.Context())
		if provider != host.GCP || id != "" {
			t.Errorf("%s: got %q %q, want gcp and no id", test.name, provider, id)
		}
	}
	if provider, id := (host.Detector{Env: noEnv, Root: root, MetadataURL: "\x7f"}).Detect(t.Context()); provider != host.GCP || id != "" {
		t.Errorf("no URL: got %q %q", provider, id)
	}
}

func TestMetadataDoesNotAnswer(t *testing.T) {
	released := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-released:
		}
	}))
	defer server.Close()
	defer close(released)
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	root := plant(t, firmware("Amazon EC2", "p5", "", "i-0fedcba9876543210"))
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	provider, id := host.Detector{Env: noEnv, Root: root, MetadataURL: server.URL}.Detect(ctx)
	if took := time.Since(began); provider != host.AWS || id != "i-0fedcba9876543210" || took > 30*time.Second {
		t.Errorf("got %q %q after %v, want what the firmware says, soon", provider, id, took)
	}
}
