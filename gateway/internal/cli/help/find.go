package help

import (
	"slices"
	"strings"

	"muster/gateway/internal/health/condition"
)

// Place is where a word leads: a page, or one section of it.
type Place struct {
	Page    string
	Section string // its heading; empty: the whole page
}

// lead is words that people look for, with a bar between them, and the place that answers them best.
type lead struct {
	words string
	Place
}

// leads is the table of words that are no pages. A new page for one of them takes its word over. The first words of commands are not here,
// but for second paths: muster help explains the command of that name.
func leads() []lead {
	return []lead{
		{"start|begin|first|tutorial|getting-started|intro", Place{"quickstart", ""}},
		{"ssh|scp|rsync|sftp|vscode|editor|editors|jupyter|notebook|tensorboard|tunnel|port|forward",
			Place{"sessions", "ssh, scp, rsync, editors"}},
		{"shell|terminal|exec", Place{"sessions", ""}},
		{"cp|copy|file|files|upload|download", Place{"sessions", "Files"}},
		{"recordings|record", Place{"sessions", "Recordings"}},
		{"caddy|traefik|apache|haproxy|cloudflared|proxy", Place{"nginx", ""}},
		{"cloudflare|edge|curl", Place{"proxies", "Edges that stop the agent"}},
		{"price|prices|costs|money|bill|billing|currency", Place{"fleet", "What does idling cost?"}},
		{"idle", Place{"fleet", "When is a GPU idle?"}},
		{"room|free|cheapest", Place{"first-job", "Find room"}},
		{"selector|selectors|filter|find", Place{"fleet", ""}},
		{"join|enroll|enrol|enrolment|install|vast|vast.ai|runpod", Place{"joining", ""}},
		{"tokens|mse", Place{"joining", "The token"}},
		{"pre-shared-key|msk", Place{"joining", "The pre-shared key"}},
		{"name|names|rename", Place{"joining", "The name"}},
		{"cloud-init|user-data", Place{"bootstrap", "With cloud-init"}},
		{"user|users|scopes|scope|permissions", Place{"accounts", "Scopes"}},
		{"role|roles", Place{"accounts", "Roles"}},
		{"slack|ntfy|webhook|webhooks|email|notify|receiver|receivers|alertmanager|pagerduty", Place{"alerts", "Receivers"}},
		{"silence|mute", Place{"alerts", "Silences"}},
		{"prometheus|scrape", Place{"metrics", "Let Prometheus read"}},
		{"grafana|dashboard", Place{"metrics", "Dashboard and rules"}},
		{"dcgm", Place{"metrics", "The details of a GPU, and what DCGM calls them"}},
		{"loki|ship|shipping|promtail", Place{"logs", "Shipping to Loki"}},
		{"xid|kernel|dmesg", Place{"gpus", "What the kernel says"}},
		{"amd|rocm", Place{"gpus", "GPUs of AMD"}},
		{"mig|nvidia|nvidia-smi", Place{"gpus", ""}},
		{"job|jobs|work|train|result|results|exit code|exit-code|exit", Place{"first-job", ""}},
		{"slots|allocate|approve", Place{"placement", "Slots"}},
		{"skus|flavor", Place{"placement", "SKUs"}},
		{"allocation|allocations|reserve|reservation|claim", Place{"placement", "Allocations"}},
		{"tag|tags", Place{"placement", "Tags"}},
		{"profiles|slice|baremetal|bare-metal", Place{"placement", "Profiles"}},
		{"evidence|readiness|kvm|iommu|vfio", Place{"placement", "Evidence"}},
		{"acceptance|accept|benchmark", Place{"placement", "Acceptance"}},
		{"queue|priority", Place{"placement", "The queue"}},
		{"leases|ttl", Place{"providers", "Leases"}},
		{"renting|rental|rentals|offer|offers|market", Place{"providers", "Renting"}},
		{"lambda|lambda-labs|reconcile|reconciliation|findings", Place{"providers", ""}},
		{"spending|budget", Place{"providers", "Limits"}},
		{"deploy|commission|commissioning|enlist", Place{"maas", "From powered off to schedulable"}},
		{"decommission|reimage|re-image|erase|wipe", Place{"maas", "Back again"}},
		{"recovery|never_reports|reports_but_ready|deploy_hangs|tag_conflict", Place{"maas", "Where the two sides disagree"}},
		{"pxe|dhcp|dns|ipmi|bmc|postgres|lab", Place{"lab-down", ""}},
		{"h200|h100|b200|driver|drivers|fabric-manager|fabricmanager|nvswitch|packer", Place{"images", ""}},
		{"telemetry|outage|all-stale", Place{"fleet-silent", ""}},
		{"onboard", Place{"providers", "Back into the fleet"}},
		{"quotas", Place{"placement", "Quotas"}},
		{"cleaning|cleanup", Place{"placement", "Cleaning"}},
		{"docker|container|containers|image|podman", Place{"first-job", "A container instead"}},
		{"policy", Place{"tasks", "What the node's owner allows"}},
		{"secrets", Place{"tasks", "Secrets"}},
		{"return|retire", Place{"tasks", "Giving machines back"}},
		{"recover|move|migrate", Place{"restore", ""}},
		{"url|moved|domain|address|hostname", Place{"restore", "When the URL changes"}},
		{"update|upgrade|versions", Place{"upgrades", ""}},
		{"canary|rollout|wave|waves", Place{"releases", "Waves"}},
		{"rollback|promote|channel", Place{"releases", ""}},
		{"oci", Place{"registry", ""}},
		{"systemd|env", Place{"settings", "The service"}},
		{"flags|variables|environment|config|configuration", Place{"settings", ""}},
		{"bash|zsh|fish", Place{"settings", "Shells"}},
		{"pki|tls|certificate|cert|pin|root", Place{"certificates", ""}},
		{"keys|rotate", Place{"certificates", "Replace other keys"}},
		{"event", Place{"audit-log", ""}},
		{"leak|leaked|stolen", Place{"security", "When something has leaked"}},
		{"threat|trust", Place{"security", ""}},
		{"plot|series|samples", Place{"history", ""}},
		{"offline|stale|silent|down|dead|died", Place{"stale-node", ""}},
		{"clone|clones|identity|conflict", Place{"identity-trouble", "Two machines use one identity"}},
		{"expired|expiry", Place{"identity-trouble", "The certificate has expired"}},
		{"banned|unban|revoked|superseded", Place{"identity-trouble", "The gateway has ended this identity"}},
		{"pending", Place{"not-joining", ""}},
		{"browser|ui|web", Place{"console", ""}},
		{"master-key|masterkey", Place{"backup", ""}},
		{"api|http|wire", Place{"protocol", ""}},
		{"wrong|trouble|problem|problems", Place{"health", ""}},
		{"hot|condition|" + conditions(), Place{"conditions", ""}},
	}
}

// conditions are the names of all conditions.
func conditions() string {
	var names []string
	for _, c := range condition.All() {
		names = append(names, c.Name)
	}
	return strings.Join(names, "|")
}

// Words returns the words that lead to a page but are not the name of a page.
func Words() []string {
	var words []string
	for _, l := range leads() {
		words = append(words, strings.Split(l.words, "|")...)
	}
	return words
}

// Find returns the place that a word leads to: the page of that name, or the entry of the table. Capital letters count as small ones.
func Find(word string) (Place, bool) {
	word = strings.ToLower(word)
	if slices.Contains(Names(), word) {
		return Place{Page: word}, true
	}
	for _, l := range leads() {
		if slices.Contains(strings.Split(l.words, "|"), word) {
			return l.Place, true
		}
	}
	return Place{}, false
}

// Subject returns what the place is about, in a few words.
func (p Place) Subject() string {
	if p.Section != "" {
		return p.Section
	}
	for _, t := range Topics() {
		if t.Name == p.Page {
			return t.Summary
		}
	}
	return ""
}

// Text returns the Markdown of the place, a section with its heading; empty: there is no such place.
func (p Place) Text() string {
	text := Text(p.Page)
	if p.Section == "" {
		return text
	}
	_, section, found := strings.Cut(text, "\n## "+p.Section+"\n")
	if !found {
		return ""
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return "## " + p.Section + "\n" + strings.TrimRight(section, "\n") + "\n"
}
