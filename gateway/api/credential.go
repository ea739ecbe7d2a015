package api

// RegistryCredential opens a registry elsewhere for the gateway, which lends nodes tokens of it that live for minutes.
type RegistryCredential struct {
	Name     string `json:"name"`
	Host     string `json:"host"`     // of the registry
	Realm    string `json:"realm"`    // host that gives out its tokens, where that is another one
	Username string `json:"username"` // empty: the password is a token
}

// RegistryCredentialList answers GET registry-credentials, without passwords.
type RegistryCredentialList struct {
	Credentials []RegistryCredential `json:"credentials"`
}

// RegistryCredentialRequest sets one. The password is never shown again.
type RegistryCredentialRequest struct {
	Host     string `json:"host"`
	Realm    string `json:"realm,omitempty"`
	Username string `json:"username,omitempty"`
	Password string `json:"password"`
}
