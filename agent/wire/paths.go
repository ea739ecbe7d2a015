package wire

// Paths below the gateway's URL. Agent, gateway, installer and command line spell them as these constants and the functions
// below do. A function that is given "{id}" or the like in the place of a value builds the gateway's route.
const (
	PathRegister  = "/nodes/register"
	PathAgent     = "/agent" // the list of agents, a Manifest; AgentPath is where one of them lies
	PathInstaller = "/install.sh"
	PathRoots     = "/ca.pem"
	PathTrust     = "/trust"
	PathHealth    = "/healthz"
	PathReady     = "/readyz"
	PathVersion   = "/version"
	PathBootstrap = "/api/v1/bootstrap"               // begins the paths that a bootstrap token opens
	PathRelease   = "/internal/v1/node-agent/release" // what the asking node should run: a Release, or no content
	PathRegistry  = "/v2/"                            // begins the paths of the OCI registry
)

// Prefixes of the paths of a group. Each ends with a slash.
const (
	PrefixNodes     = "/nodes/"                 // for a node with its identity; PathRegister begins so too
	PrefixInternal  = "/internal/v1/nodes/"     // for a node with its identity
	PrefixTasks     = "/internal/v1/tasks/"     // for the node that has claimed the task
	PrefixSessions  = "/internal/v1/sessions/"  // for the node that has claimed the session
	PrefixBootstrap = PathBootstrap + "/nodes/" // for a bootstrap token, which follows
	PrefixAdmin     = "/api/v1/admin/"          // for an account
)

// HeartbeatPath returns the path at which the node with this id reports.
func HeartbeatPath(nodeID string) string { return PrefixNodes + nodeID + "/heartbeat" }

// LeavePath returns the path at which the node with this id retires itself.
func LeavePath(nodeID string) string { return PrefixNodes + nodeID + "/leave" }

// RenewPath returns the path at which the node with this id asks for its next certificate.
func RenewPath(nodeID string) string { return PrefixInternal + nodeID + "/renew" }

// AdoptPath returns the path to which the node with this id sends an AdoptRequest.
func AdoptPath(nodeID string) string { return PrefixInternal + nodeID + "/adopt" }

// TaskWaitPath returns the path at which the node with this id waits for work. The query's TaskWaitSeconds says for how long.
func TaskWaitPath(nodeID string) string { return PrefixInternal + nodeID + "/tasks/wait" }

// TaskWaitSeconds is the parameter of TaskWaitPath: 0 to MaxTaskWait in whole seconds.
const TaskWaitSeconds = "seconds"

// TaskWaitFor is the parameter of TaskWaitPath that says what the node takes: some of WaitTasks, WaitSessions and WaitReport, with commas
// between. Without it the node takes tasks alone.
const (
	TaskWaitFor  = "for"
	WaitTasks    = "tasks"
	WaitSessions = "sessions"
	WaitReport   = "report" // to be told that there is something to learn with a heartbeat
)

// SessionChannelPath returns the path at which a node moves the bytes of one channel of its session: with GET it fetches those of the
// operator, with POST it sends its own. Package pipe has the query and the bodies.
func SessionChannelPath(sessionID, channel string) string {
	return PrefixSessions + sessionID + "/channels/" + channel
}

// LogsPath returns the path to which the node with this id ships its logs: a LogBatch, answered by a LogTaken.
func LogsPath(nodeID string) string { return PrefixInternal + nodeID + "/logs" }

// TaskStartedPath returns the path at which the claimer says that it begins: a TaskStarted.
func TaskStartedPath(taskID string) string { return PrefixTasks + taskID + "/started" }

// TaskOutputPath returns the path to which the claimer sends what the task writes: a TaskOutput.
func TaskOutputPath(taskID string) string { return PrefixTasks + taskID + "/output" }

// TaskResultPath returns the path at which the claimer ends the task: a TaskResult.
func TaskResultPath(taskID string) string { return PrefixTasks + taskID + "/result" }

// TaskSecretsPath returns the path at which the claimer of a running task gets the secrets that its params refer to: a TaskSecrets. The
// method is POST because each lending is recorded.
func TaskSecretsPath(taskID string) string { return PrefixTasks + taskID + "/secrets" }

// ReleaseBlobPath returns the path at which a node gets a layer of a release that this gateway keeps.
func ReleaseBlobPath(digest string) string { return "/internal/v1/node-agent/blobs/" + digest }

// AgentDigest is the parameter of AgentPath that names the program by its SHA-256 in hex. If the gateway does not have that program, it
// sends the one that it carries.
const AgentDigest = "sha256"

// AgentPath returns the path of the agent's binary for one platform.
func AgentPath(system, arch string) string { return PathAgent + "/" + system + "/" + arch }

// BootstrapScriptPath returns the path of the script of a bootstrap token. It takes only the part of the token that may stand in a URL.
func BootstrapScriptPath(fetchPart string) string { return PrefixBootstrap + fetchPart + "/script" }

// BootstrapReleasePath returns the path at which a bootstrap script asks what its node's channel points at. The query's BootstrapArch says
// for which architecture.
func BootstrapReleasePath(fetchPart string) string { return PrefixBootstrap + fetchPart + "/release" }

// BootstrapArch is the parameter of BootstrapReleasePath: as Go names architectures, such as amd64.
const BootstrapArch = "arch"

// RegistryCredentialPath returns the path at which a bootstrap script gets the credential for its container registry.
func RegistryCredentialPath(fetchPart string) string {
	return PrefixBootstrap + fetchPart + "/registry-credential"
}
