package api

import (
	"net/url"
	"strings"
)

// Paths of the admin API, below wire.PrefixAdmin and in the syntax of http.ServeMux. At fills one in.
const (
	PathNodes     = "nodes"
	PathNode      = "nodes/{node}"
	PathSeries    = PathNode + "/series"
	PathGPUUses   = PathNode + "/gpu-uses"
	PathNodeLogs  = PathNode + "/logs"
	PathDrain     = PathNode + "/drain"
	PathResume    = PathNode + "/resume"
	PathRetire    = PathNode + "/retire"
	PathBan       = PathNode + "/ban"
	PathRecovery  = PathNode + "/allow-recovery"
	PathLabels    = PathNode + "/labels"
	PathRename    = PathNode + "/rename"
	PathBootstrap = PathNode + "/bootstrap-script"

	PathFleet  = "fleet"
	PathCosts  = "fleet/costs"
	PathStream = "stream"

	PathFindings     = "findings"
	PathHealthRules  = "health-rules"
	PathHealthRule   = "health-rules/{rule}"
	PathAlerts       = "alerts"
	PathSilences     = "alert-silences"
	PathSilence      = "alert-silences/{silence}"
	PathReceivers    = "alert-receivers"
	PathReceiver     = "alert-receivers/{receiver}"
	PathReceiverTest = PathReceiver + "/test"
	PathShippings    = "log-shippings"
	PathShipping     = "log-shippings/{shipping}"
	PathShippingTest = PathShipping + "/test"

	PathTokens    = "tokens"
	PathToken     = "tokens/{token}"
	PathPSK       = "psk"
	PathPSKRotate = "psk/rotate"
	PathAccounts  = "accounts"
	PathAccount   = "accounts/{account}"
	PathLogins    = "logins"
	PathWhoAmI    = "whoami"
	PathTenants   = "tenants"
	PathSecrets   = "secrets"
	PathSecret    = "secrets/{secret}"

	PathTasks       = "tasks"
	PathTask        = "tasks/{task}"
	PathTaskCancel  = PathTask + "/cancel"
	PathTaskRetry   = PathTask + "/retry"
	PathTaskOutput  = PathTask + "/output"
	PathTaskArchive = PathTask + "/archive"

	PathSessions     = "sessions"
	PathSession      = "sessions/{session}"
	PathRecording    = PathSession + "/recording"
	PathNodeSessions = PathNode + "/sessions"
	PathNodeSession  = PathNodeSessions + "/{session}"
	PathPieces       = PathNodeSession + "/stream"
	PathWatch        = PathNodeSession + "/watch"

	PathReleases            = "node-agent-releases"
	PathRelease             = "node-agent-releases/{release}"
	PathChannels            = "channels"
	PathChannel             = "channels/{channel}"
	PathChannelPause        = PathChannel + "/pause"
	PathChannelResume       = PathChannel + "/resume"
	PathChannelAbort        = PathChannel + "/abort"
	PathChannelRollback     = PathChannel + "/rollback"
	PathChannelPointer      = PathChannel + "/pointer"
	PathChannelNodes        = PathChannel + "/nodes"
	PathPins                = "pins"
	PathPinsDrop            = "pins/drop"
	PathPin                 = "pins/{node}"
	PathRegistryCredentials = "registry-credentials"
	PathRegistryCredential  = "registry-credentials/{credential}"

	PathCheck            = PathNode + "/check"
	PathProfiles         = "profiles"
	PathProfile          = "profiles/{profile}"
	PathAssign           = "profiles-assign"
	PathSlots            = "slots"
	PathSlotsDecide      = "slots/decide"
	PathSlotRules        = "slot-rules"
	PathSlotRule         = "slot-rules/{rule}"
	PathSKUs             = "skus"
	PathSKU              = "skus/{sku}"
	PathAllocations      = "allocations"
	PathAllocation       = "allocations/{allocation}"
	PathAllocationExtend = PathAllocation + "/extend"
	PathAllocationGiveUp = PathAllocation + "/release"
	PathQuotas           = "quotas"
	PathQuota            = "quotas/{tenant}"

	PathProviders     = "providers"
	PathProvider      = "providers/{provider}"
	PathProviderSync  = PathProvider + "/sync"
	PathInstances     = PathProvider + "/instances"
	PathInstance      = PathInstances + "/{instance}" // POST: an InstanceAct
	PathProviderPlan  = "providers/plan"              // so no account is named plan
	PathLeases        = "leases"
	PathOffers        = "offers"
	PathRentals       = "rentals"
	PathRental        = "rentals/{rental}"
	PathCostReport    = "costs"
	PathSpending      = "spending"
	PathProviderLimit = PathProvider + "/limit"
	PathTenantLimit   = "spending/{tenant}"
	PathMachines      = "maas/machines" // POST: a MachineAct
	PathMachine       = "maas/machines/{machine}"
	PathMAASPlan      = "maas/plan"
	PathMAASSync      = "maas/sync"

	PathEvents       = "events"
	PathGateway      = "gateway"
	PathGatewayHost  = "gateway/host"
	PathGateways     = "gateways"
	PathHandOver     = "gateways/hand-over"
	PathCA           = "ca"
	PathIntermediate = "ca/intermediate"
	PathRoots        = "ca/roots"
	PathRoot         = "ca/roots/{root}"
	PathKeys         = "keys"
	PathKeysRotate   = "keys/rotate"
	PathKey          = "keys/{key}"
	PathTrust        = "trust"
	PathBackup       = "backup"
)

// At is a path with these names in the places of its braces, in their order.
func At(path string, names ...string) string {
	for _, name := range names {
		before, rest, _ := strings.Cut(path, "{")
		_, after, _ := strings.Cut(rest, "}")
		path = before + url.PathEscape(name) + after
	}
	return path
}

// ListFilter picks rows of a list. A zero field does not count.
type ListFilter struct {
	Tenant string `json:"tenant,omitempty"`
	All    bool   `json:"all,omitempty"` // also what is spent, expired or revoked
}
