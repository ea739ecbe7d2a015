// Package meaning lists words that people type though no command has them, and the commands that they mean.
package meaning

import (
	"slices"
	"strings"
)

// Meaning is a list of words, and a list of what they mean. A bar parts the entries of a list.
type Meaning struct{ words, means string }

// Has reports whether a word is one of the words.
func (m Meaning) Has(word string) bool { return slices.Contains(m.Words(), word) }

// Words returns the words that have this meaning.
func (m Meaning) Words() []string { return strings.Split(m.words, "|") }

// Means returns the things that are meant, the likeliest first.
func (m Meaning) Means() []string { return strings.Split(m.means, "|") }

// Phrases returns the words that stand for a whole command line, with the likeliest command line first. {NAME} takes an argument that was
// given, {NAME...} all that are left; without an argument the word in the braces stays. A short word counts behind its group as well: "node
// price".
func Phrases() []Meaning {
	return []Meaning{
		{"price|price set|set price|node price|node price set|node set price", "node label {NAME} price_per_hour={1.99}"},
		{"update|upgrade|deploy|node update|node upgrade|agent update|agent upgrade|release update", "release status|release promote VERSION|" +
			"service install"},
		{"silence|mute|ack|acknowledge|snooze|alert mute|node silence|node mute", "alert silence --node {NAME} --reason {WHY}"},
		{"alert ack|alert acknowledge", "alert silence {ALERT} --reason WHY|alert show {ALERT}"},
		{"webhook|webhooks|notify|notification|notifications|receiver|receivers|slack|ntfy|email|pagerduty|alertmanager",
			"alert receiver add NAME --kind KIND|alert receiver ls"},
		{"join|add|enroll|enrol|register|adopt|new|node add|node join|node new|node enroll|node enrol|node register",
			"token create|push {HOST...}"},
		{"kill|stop|abort|terminate|cancel", "run stop {NAME}|task cancel {ID...}|session kill {ID...}"},
		{"maas abort|maas stop", "maas cancel {MACHINE...}"},
		{"ps|processes|who|w|jobs", "run ls|task ls --open|node exec {NAME} -- ps aux"},
		{"job|submit|sbatch|srun|batch|schedule", "run NODE -- PROGRAM|task run NODE TYPE|run ls"},
		{"queue|squeue", "alloc ls --state waiting|task ls --open"},
		{"allocate|reserve|book|claim|salloc|checkout|give me", "alloc create --gpu {MODEL} --count N --ttl DURATION|alloc ls"},
		{"renew|prolong|extend", "alloc extend {ALLOCATION} --for DURATION"},
		{"giveback|give-back|hand-back", "alloc release {ALLOCATION...}|node return {NAME...}"},
		{"buy|hire|provision", "rent --gpu {MODEL} --ttl DURATION"},
		{"offer|offers|market|search", "rent --gpu {MODEL} --plan|gpus --free"},
		{"reconcile|reconciliation|plan|findings|orphans", "provider plan|maas plan"},
		{"reimage|re-image|reinstall|redeploy|node reimage|node reinstall|node redeploy|maas reimage|maas redeploy",
			"maas deploy {MACHINE...} --reimage"},
		{"commission|enlist|pxe|node commission|maas enlist", "maas commission {MACHINE...}"},
		{"decommission|node decommission", "maas decommission {MACHINE...}|node retire {NAME...}"},
		{"wipe|erase", "maas release {MACHINE...} --erase|node return {NAME...}"},
		{"maas mark-fixed|maas fix|maas repair|maas recover", "maas reset {MACHINE...}"},
		{"maas machines|maas findings", "maas ls|maas plan"},
		{"onboard|rejoin", "provider onboard --plan|provider onboard {INSTANCE...}"},
		{"limit|limits|budget|provider spending|provider budget", "provider limit|quota ls"},
		{"approve", "slot approve {SLOT...}"},
		{"assign", "profile assign PROFILE {NODE...}"},
		{"accept|acceptance|benchmark|dcgmi", "node check {NAME} --accept"},
		{"evidence|readiness|node evidence|node verify|node accept", "node check {NAME}|node show {NAME}"},
		{"node profile|node assign|profile set", "profile assign PROFILE {NODE...}|profile ls"},
		{"node slots|node slot", "slot ls --node {NAME}"},
		{"slot rule|slot rule ls|slot rule add|slot rule create|slot keep", "slot rules|slot approve -l SELECTOR --keep {NAME}"},
		{"slot rule rm|slot rule delete", "slot rule-rm {RULE}"},
		{"alloc wait", "alloc show {ALLOCATION}"},
		{"image|images|docker|podman|container|containers|pod|pods|launch|oci", "task run NODE workload.oci_launch image=IMAGE|release ls"},
		{"gpu ps|gpu who|gpu users|gpu use|gpu log|node gpu history", "gpu history {NAME}"},
		{"htop|nvtop|monitor|watch|live", "top"},
		{"nvidia-smi|smi|nvidia|rocm-smi", "gpus|node exec {NAME} -- nvidia-smi"},
		{"free|room|available|find", "gpus --free --sort price"},
		{"idle|unused", "ls --idle"},
		{"bill|billing|spend|spending|money|costs|invoice", "cost"},
		{"connect|terminal|bash|sh|zsh|into|enter|node connect|node sh|node bash", "ssh {NAME}"},
		{"console|ui|web|dashboard|browser|gui", "login"},
		{"copy|scp|sftp|upload|put|node copy|node scp", "cp {FILE} {NAME:PATH}"},
		{"vscode|code|editor", "ssh-config"},
		{"tunnel|port-forward|portforward|port|ports|expose|jupyter|notebook|tensorboard|node port-forward|node tunnel",
			"forward {NAME} {8888}"},
		{"rsync|sync", "cp -r {FILE} {NAME:PATH}"},
		{"log|tail|journal|journalctl", "logs {NAME...}"},
		{"dmesg|kernel|xid", "logs {NAME...} --source kernel"},
		{"df|du|disk", "node exec {NAME} -- df -h"},
		{"restart|node restart", "task run {NAME} agent.restart --wait|run {NAME} -- PROGRAM"},
		{"reboot", "node exec {NAME} -- systemctl reboot"},
		{"info|overview|summary|uptime|dash|stat", "status"},
		{"problems|problem|errors|error|issues|wrong|warnings", "status|health ls|alert ls"},
		{"check|diag|diagnose|verify|selftest|ping", "node check {NAME}|doctor|task run {NAME} diag.collect --wait"},
		{"logout", "account ls|status"},
		{"unban|node unban|unblock|node unblock", "help unban|token create"},
		{"role ls|role list|role show|roles ls|roles list", "help roles"},
		{"role|roles", "account create {NAME} --role runner|help roles"},
		{"invite", "account create {NAME} --role viewer|token create"},
		{"run status|run get|run info|run describe|run inspect|run ps", "run ls|run logs {NAME} -f"},
		{"run wait|run attach|run watch|run follow", "run logs {NAME} -f|run NODE --wait -- PROGRAM"},
		{"attach", "run logs {NAME} -f|ssh {NAME}"},
		{"tags|labels", "node label {NAME} {KEY=VALUE}|ls -o wide|node show {NAME}"},
		{"docs|man", "help pages"},
		{"adduser|useradd", "account create {NAME}|task run NODE provision_user username={NAME}"},
		{"daemon|gateway status", "status|doctor"},
		{"cluster|cluster ls|standby|failover|ha|leader", "gateway ls"},
		{"handover|gateway handover|gateway failover|gateway promote|switchover", "gateway hand-over"},
		{"init|setup|install|start|up", "serve|service install"},
		{"down|uninstall|shutdown", "service uninstall"},
		{"dump|snapshot", "backup {FILE}"},
		{"node events|node history|node audit", "events --node {NAME}"},
		{"release history|release log", "release ls|release status|events"},
		{"alert rule|alert rules", "health rules"},
		{"alert add|alert create|alert new", "alert receiver add NAME --kind KIND --file FILE|health set {RULE} --limit N"},
		{"threshold|alert threshold|alert set", "health set {RULE} --limit {N}|health rules"},
		{"alert history|alert log", "alert ls --all"},
		{"silences|silence ls|silence list|mute ls", "alert silences"},
		{"health snooze|health silence|health mute", "alert silence --node {NAME} --reason {WHY}"},
		{"download|fetch", "cp {NAME:PATH} .|task download {ID}"},
		{"versions", "ls -o wide|release ls|version"},
		{"why|explain|debug|node doctor", "node show {NAME}|task run {NAME} diag.collect --wait"},
		{"maintenance|node maintenance", "node drain {NAME}|alert silence --node {NAME} --reason {WHY}"},
		{"account reset|account rotate|account token|account renew|account key", "account revoke {NAME}|account create {NAME} --role ROLE"},
		{"account show|account get|account info", "account whoami|account ls"},
		{"recover|import", "restore {FILE}"},
		{"migrate|store migrate|store move|store export|store import|store ls", "store copy {FROM} {TO}|help standby"},
	}
}

// EveryNode is the selector of all nodes that are not retired.
const EveryNode = "-l state!=retired"

// OtherFlags returns names that people give to flags, and the flags that they mean: the first one that the command has. An entry without a
// dash in front is another command.
func OtherFlags() []Meaning {
	return []Meaning{
		{"stale|offline|silent|down|dead", "--status stale"},
		{"online|up|live", "--status online"},
		{"cheap|cheapest", "--sort price"},
		{"label|labels|filter|where|select", "-l KEY=VALUE"},
		{"price|max-price|price-below|under", "--max-price 4|-l 'price_per_hour<2'"},
		{"memory|min-memory|vram", "--free-memory 40GiB|gpus --free-memory 40GiB"},
		{"model|gpu-model|gpu|gpu-type|card", "--model h100|--gpu h100|gpus --model h100"},
		{"gpus|num|number", "--count N"},
		{"ttl|longer", "--for DURATION"},
		{"for|time|duration|hours|until", "--ttl DURATION"},
		{"key|ssh-keys|pubkey|public-key|identity|i", "--ssh-key FILE"},
		{"queue|wait-for-it|block", "--wait"},
		{"what-if|simulate", "--dry-run|--plan"},
		{"retired|deleted|gone", "--all"},
		{"today|day", "--since 1d"},
		{"tenant", "-l tenant=NAME"},
		{"reason|comment|message|why", "alert silence --reason WHY"},
		{"after|hold|wait-for", "--for DURATION"},
		{"user|who", "--actor WHO"},
		{"n|tail|last|count|since|max", "--lines N|--limit N"},
		{"all|every", EveryNode},
		{"sort|order", "gpus --sort price"},
		{"webhook|slack|ntfy|alertmanager", "--kind KIND --file FILE"},
		{"json", "-o json"},
		{"wide|long", "-o wide"},
	}
}

// Nouns returns other names of groups.
func Nouns() []Meaning {
	return []Meaning{
		{"nodes|agent|agents|machine|machines|host|hosts|server|servers|box|boxes|instance|instances", "node"},
		{"user|users|accounts|member|members", "account"},
		{"tokens", "token"},
		{"job|jobs|tasks", "task"},
		{"alerts", "alert"},
		{"webhook|webhooks|notify|notification|notifications|receiver|receivers", "alert receiver"},
		{"releases", "release"},
		{"sessions|recording|recordings", "session"},
		{"secrets", "secret"},
		{"keys", "key"},
		{"cert|certs|certificate|certificates|root|roots", "ca"},
		{"daemon", "service"},
		{"slots", "slot"},
		{"skus|flavor|flavors|kinds", "sku"},
		{"allocation|allocations|allocs|reservation|reservations|booking|bookings", "alloc"},
		{"profiles", "profile"},
		{"providers|company|companies|vendor|vendors|cloud|clouds|marketplace", "provider"},
		{"metal|baremetal|bare-metal|rack|racks", "maas"},
		{"leases", "lease"},
		{"rental|rentals", "rent"},
		{"quotas|limits", "quota"},
	}
}

// Verbs returns other names of what is done to the things of a group. Only the commands that the group has are meant.
func Verbs() []Meaning {
	return []Meaning{
		{"list|ll|all", "ls"},
		{"get|describe|inspect|view|cat|details|info|status", "show"},
		{"add|new|make|mint|create|generate", "create|add|set|generate|push"},
		{"rm|delete|del|remove|destroy|drop|erase", "retire|return|revoke|cancel|drop|rm|remove|delete|kill|clear|unset|uninstall|stop|release"},
		{"stop|kill|abort|end|cancel", "cancel|kill|pause|drain|revoke|stop"},
		{"start|launch|execute|submit", "run"},
		{"update|upgrade|deploy|install", "promote|install"},
		{"tag|annotate|set|edit", "label|set"},
		{"log|tail", "logs"},
		{"cordon|disable|lock|suspend", "drain|revoke|disable"},
		{"uncordon|undrain|enable|undo", "resume|rollback|approve"},
		{"block", "ban"},
		{"copy", "cp"},
		{"renew|prolong|lengthen", "extend"},
		{"why", "explain|show"},
		{"allow|confirm", "approve"},
	}
}
