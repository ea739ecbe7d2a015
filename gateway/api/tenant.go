package api

// Tenant is a tenant with how much there is of it. A tenant has no record of its own: it is there as long as something has it.
type Tenant struct {
	Tenant   string `json:"tenant"`
	Nodes    int    `json:"nodes"`    // not retired
	Retired  int    `json:"retired"`  // nodes
	Accounts int    `json:"accounts"` // live ones that are for this tenant alone
	Tokens   int    `json:"tokens"`   // that can still be used
}

// TenantList answers GET tenants: those of which the caller may know, by name.
type TenantList struct {
	Tenants []Tenant `json:"tenants"`
}
