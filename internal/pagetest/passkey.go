package pagetest

// Authenticator adds a virtual authenticator to the page: one that keeps its keys
// and verifies its user, as a phone or a laptop does.
func (p *Page) Authenticator() string {
	p.t.Helper()
	p.Do("WebAuthn.enable", object{"enableUI": false}, nil)
	var made struct {
		ID string `json:"authenticatorId"`
	}
	p.Do("WebAuthn.addVirtualAuthenticator", object{"options": object{
		"protocol": "ctap2", "transport": "internal", "hasResidentKey": true, "hasUserVerification": true,
		"isUserVerified": true, "automaticPresenceSimulation": true,
	}}, &made)
	return made.ID
}
