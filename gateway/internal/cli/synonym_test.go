package cli_test

import (
	"strings"
	"testing"

	"muster/agent/sign"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cli/meaning"
)

// answers are the command lines that a refusal names, without the program's name.
func answers(errs string) (lines []string) {
	for line := range strings.Lines(errs) {
		if line, found := strings.CutPrefix(line, "          muster "); found {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// TestSynonyms: a word with a meaning is answered with the command to copy, with the arguments and flags that were given.
func TestSynonyms(t *testing.T) {
	h := newHouse(t)
	for typed, want := range map[string]string{
		"node delete gpu-7":                    "node retire gpu-7|node return gpu-7",
		"rm gpu-7 gpu-8 --yes":                 "node retire gpu-7 gpu-8 --yes|node return gpu-7 gpu-8 --yes",
		"delete -l tier=spot":                  "node retire -l tier=spot|node return -l tier=spot",
		"price set gpu-7 1.2":                  "node label gpu-7 price_per_hour=1.2",
		"price gpu-7":                          "node label gpu-7 price_per_hour=1.99",
		"node price gpu-7 3":                   "node label gpu-7 price_per_hour=3",
		"user":                                 "account ls|account create NAME",
		"user add bob --scope nodes:read":      "account create bob --scope nodes:read",
		"users rm bob":                         "account revoke bob",
		"update":                               "release status|release promote VERSION|service install",
		"node upgrade gpu-7":                   "release status|release promote VERSION|service install",
		"webhook https://hooks.example/s3cret": "alert receiver add NAME --kind KIND|alert receiver ls",
		"webhook rm ops":                       "alert receiver rm ops|alert receiver add NAME --kind KIND|alert receiver ls",
		"silence gpu-7":                        "alert silence --node gpu-7 --reason WHY",
		"kill 4sl5ucv6e2vnxq7a":                "run stop 4sl5ucv6e2vnxq7a|task cancel 4sl5ucv6e2vnxq7a|session kill 4sl5ucv6e2vnxq7a",
		"kill -9 x":                            "run stop x|task cancel x|session kill x",
		"rm -rf gpu-7":                         "node retire gpu-7|node return gpu-7",
		"ps -ef":                               "run ls|task ls --open|node exec NAME -- ps aux",
		"ps gpu-7":                             "run ls|task ls --open|node exec gpu-7 -- ps aux",
		"list":                                 "node ls",
		"node list -o wide":                    "node ls -o wide",
		"nodes":                                "node ls|node create NAME",
		"htop":                                 "top",
		"join":                                 "token create|push HOST",
		"node enroll root@10.0.0.1":            "token create|push root@10.0.0.1",
		"job ls":                               "task ls|run NODE -- PROGRAM|task run NODE TYPE",
		"image":                                "task run NODE workload.oci_launch image=IMAGE|release ls",
		"node ssh gpu-1 -- nvtop":              "node shell gpu-1 -- nvtop",
		"connect gpu-1":                        "ssh gpu-1",
		"scp a.bin gpu-1:/srv/":                "cp a.bin gpu-1:/srv/",
		"jupyter gpu-1":                        "forward gpu-1 8888",
		"host gpu-7":                           "node show gpu-7|node ls",
		"user bob":                             "account ls",
		"drain gpu-7 --yes":                    "node drain gpu-7 --yes",
		"promote 1.4.0":                        "release promote 1.4.0",
		"token delete mse_1":                   "token revoke mse_1",
		"secret rm hf":                         "secret drop hf",
		"task stop 1":                          "task cancel 1",
		"session stop 1":                       "session kill 1",
		"show":                                 "node show NAME",
		"show gpu-1 it's":                      `node show gpu-1 'it'\''s'`,
		"start":                                "serve|service install",
		"restart gpu-1":                        "task run gpu-1 agent.restart --wait|run gpu-1 -- PROGRAM",
		"unban gpu-7":                          "help unban|token create",
		"node unban gpu-7":                     "help unban|token create",
		"agents":                               "node ls|node create NAME",
		"run status train":                     "run show train|run ls|run logs train -f",
		"run list -l tier=spot":                "run ls -l tier=spot",
		"run wait train --timeout 5m":          "run logs train -f|run NODE --wait -- PROGRAM",
		"run attach train --quiet":             "run logs train -f|run NODE --wait -- PROGRAM",
		"account lock bob":                     "account revoke bob",
		"run kill train gpu-1":                 "run stop train gpu-1",
		"run tail train -f":                    "run logs train -f",
		"account show ada":                     "account whoami|account ls",
		"alert add --webhook u":                "alert receiver add NAME --kind KIND --file FILE|health set u --limit N",
		"alert threshold gpu_hot 85":           "health set gpu_hot --limit 85|health rules",
		"alert history":                        "alert ls --all",
		"silence ls":                           "alert silences",
		"download box-8:/srv/a":                "cp box-8:/srv/a .|task download box-8:/srv/a",
		"versions":                             "ls -o wide|release ls|version",
		"why box-3":                            "node show box-3|task run box-3 diag.collect --wait",
		"node maintenance box-3":               "node drain box-3|alert silence --node box-3 --reason WHY",
		"account disable bob":                  "account revoke bob",
		"webhook add https://hooks.example/s":  "alert receiver add NAME|alert receiver ls",
		"role ls":                              "help roles",
		"alert ack al-1":                       "alert silence al-1 --reason WHY|alert show al-1",
		"node events gpu-1":                    "events --node gpu-1",
		"release history":                      "release ls|release status|events",
		"alert rule ls":                        "health rules",
		"roles":                                "account create NAME --role runner|help roles",
		"invite ada":                           "account create ada --role viewer|token create",
		"attach train":                         "run logs train -f|ssh train",
		"tags gpu-1":                           "node label gpu-1 KEY=VALUE|ls -o wide|node show gpu-1",
		"allocate h100":                        "alloc create --gpu h100 --count N --ttl DURATION|alloc ls",
		"reserve":                              "alloc create --gpu MODEL --count N --ttl DURATION|alloc ls",
		"leases":                               "lease ls",
		"budget":                               "provider limit|quota ls",
		"provider rm vast":                     "provider remove vast|provider stop vast",
		"plan":                                 "provider plan|maas plan",
		"reimage rack-7":                       "maas deploy rack-7 --reimage",
		"erase rack-7":                         "maas release rack-7 --erase|node return rack-7|node retire rack-7",
		"decommission rack-7":                  "maas decommission rack-7|node retire rack-7",
		"bare-metal ls":                        "maas ls",
		"maas machines":                        "maas ls|maas plan",
		"slots":                                "slot ls",
		"skus":                                 "sku ls",
		"allocations 4sl5ucv6e2vnxq7a":         "alloc show 4sl5ucv6e2vnxq7a|alloc ls",
		"alloc rm 4sl5ucv6e2vnxq7a":            "alloc release 4sl5ucv6e2vnxq7a",
		"alloc renew 4sl5 --for 2h":            "alloc extend 4sl5 --for 2h",
		"slot enable sl-1":                     "slot approve sl-1",
		"profile set gpu-1":                    "profile assign PROFILE gpu-1|profile ls",
		"quota add research 8":                 "quota set research 8",
		"accept gpu-1":                         "node check gpu-1 --accept",
		"squeue":                               "alloc ls --state waiting|task ls --open",
		"stat":                                 "status",
		"man":                                  "help pages",
		"cordon gpu-1":                         "node drain gpu-1",
		"nginx":                                "help nginx",
		"-o json delete delete":                "node retire delete|node return delete", // a node may have the word for its name
		"dmesg gpu-1 -f":                       "logs gpu-1 --source kernel -f",
	} {
		code, out, errs := h.muster(strings.Fields(typed)...)
		if got := strings.Join(answers(errs), "|"); code != 2 || out != "" || got != want {
			t.Errorf("%s: code %d, answered %q, want %q\n%s", typed, code, got, want, errs)
		}
		if strings.Contains(errs, "did you mean") || strings.Contains(errs, "s3cret") {
			t.Errorf("%s: %s", typed, errs)
		}
	}
}

// TestOtherFlags: a flag that a command does not take is answered with what it takes in its place.
func TestOtherFlags(t *testing.T) {
	h := newHouse(t)
	for typed, want := range map[string]string{
		"gpus --stale":                       "write muster gpus --status stale",
		"ls --offline -o wide":               "write muster ls --status stale",
		"gpus --cheapest":                    "write muster gpus --sort price",
		"run stop train --node gpu-1":        "write muster run stop NAME [NODE] [flags]",
		"run logs train --since 1h":          "write muster run logs --lines N",
		"events gpu-1":                       "write muster events --node gpu-1",
		"ls --sort price":                    "another command does that: muster gpus --sort price",
		"health set gpu_hot 80":              "write muster health set gpu_hot --limit 80",
		"secret set HF hunter2":              "--file FILE or a pipe gives it",
		"release push muster-agent":          "write muster release push muster-agent --version 0.4.0",
		"alert receiver add ops --webhook u": "write muster alert receiver add --kind KIND --file FILE",
		"node return --all":                  "write muster node return -l state!=retired",
		"node ls --seperity x":               "muster node ls --help shows its flags",
		"alloc create --gpus 2":              "write muster alloc create --count N",
		"alloc create --model h100":          "write muster alloc create --gpu h100",
		"alloc create --for 2h":              "write muster alloc create --ttl DURATION",
		"alloc extend a --ttl 2h":            "write muster alloc extend --for DURATION",
		"gpus --gpu h100":                    "write muster gpus --model h100",
	} {
		if code, out, errs := h.muster(strings.Fields(typed)...); code != 2 || out != "" || !strings.Contains(errs, "hint: "+want) {
			t.Errorf("%s: code %d\n%s", typed, code, errs)
		}
	}
	for want, args := range map[string][]string{
		"write muster exec gpu-1 -- sh -c 'cd /srv && rm -rf out'\n": {"exec", "gpu-1", "cd /srv && rm -rf out"},
		"write muster exec -l tier=spot -- nvidia-smi\n":             {"exec", "-l", "tier=spot", "nvidia-smi"},
	} {
		if code, _, errs := h.muster(args...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%q: code %d\n%s", args, code, errs)
		}
	}
	if got := h.done("--version"); got != h.done("version") {
		t.Errorf("--version: %q", got)
	}
}

// TestSynonymHidesTokens: a token that was given is not shown again.
func TestSynonymHidesTokens(t *testing.T) {
	h := newHouse(t)
	token, err := sign.NewToken(sign.EnrollmentToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, errs := h.muster("token", "rm", token.Reveal())
	if strings.Contains(errs, token.Reveal()) || !strings.Contains(errs, "muster token revoke "+token.Public()+"\n") {
		t.Error(errs)
	}
}

// TestMeanings: each word of the tables can be reached, and each command that it is answered with exists and fits its usage.
func TestMeanings(t *testing.T) {
	d := desk{root: t.TempDir()}
	all := commands.All()
	ask := func(words string, least int, more ...string) {
		t.Helper()
		if cli.Known(all, words) {
			t.Errorf("%s is a command: the row is never looked up", words)
			return
		}
		for _, more := range append(more, "", " a b") {
			if strings.HasPrefix(words, "run ") && strings.Contains(more, "--") && !strings.Contains(more, " --yes") {
				continue // it starts a program, on nodes with these names
			}
			code, errs := d.run(t, strings.Fields(words+more)...)
			lines := answers(errs)
			if code != 2 || len(lines) < least {
				t.Errorf("%s%s: code %d, answered %q\n%s", words, more, code, lines, errs)
			}
			for _, line := range lines {
				if err := cli.Parses(all, line); err != nil {
					t.Errorf("%s%s is answered with muster %s: %v", words, more, line, err)
				}
			}
		}
	}
	lines, groups, deeds := meaning.Phrases(), meaning.Nouns(), meaning.Verbs()
	for _, m := range lines {
		for _, words := range m.Words() {
			ask(words, 1, " a", " a b c", " -l tier=spot --yes", " a -- b")
		}
		for _, line := range m.Means() {
			if err := cli.Parses(all, strings.NewReplacer("{", "", "...}", "", "}", "").Replace(line)); err != nil {
				t.Errorf("muster %s: %v", line, err)
			}
		}
	}
	for _, m := range groups {
		for _, words := range m.Words() {
			ask(words, 1)
		}
		if !cli.IsGroup(all, m.Means()[0]) {
			t.Errorf("%s is no group", m.Means()[0])
		}
	}
	used := map[string]bool{}
	for _, m := range deeds {
		for _, deed := range m.Words() {
			for _, group := range cli.Groups(all) {
				if !cli.Known(all, group+" "+deed) {
					ask(group+" "+deed, 0)
				}
			}
		}
		for _, deed := range m.Means() {
			for _, group := range cli.Groups(all) {
				for _, c := range all {
					used[deed] = used[deed] || c.Name == group+" "+deed
				}
			}
			if !used[deed] {
				t.Errorf("no group has a command %s", deed)
			}
		}
	}
}
