package live

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/identity"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
)

// passed is a question between nodes, decoded: who asks, and one of the rest.
type passed struct {
	terms    controlv1.ID
	caller   Caller
	action   controlv1.Action
	document ref.Document
	call     controlv1.ID
	confirm  *controlv1.Confirm // nil is a denial
}

// passedText is how it travels. A caller travels by what they were verified as and by
// the ids of their grant; no token and no cookie does.
type passedText struct {
	Terms      string         `json:"terms"`
	Tenant     string         `json:"tenant"`
	Actor      string         `json:"actor"`
	Roles      []string       `json:"roles"`
	Scopes     []string       `json:"scopes"`
	Agent      string         `json:"agent"`
	Family     string         `json:"family"`
	Connection string         `json:"connection"`
	Generation int64          `json:"generation"`
	Action     jsontext.Value `json:"action,omitzero"`
	Document   string         `json:"document,omitzero"`
	Call       string         `json:"call,omitzero"`
	Confirm    jsontext.Value `json:"confirm,omitzero"`
}

func passing(terms controlv1.ID, c Caller) (passedText, error) {
	if c.Look != nil && c.Grant == (Grant{}) {
		return passedText{}, refusal.ChannelUnavailable // only this node could look at it again
	}
	w := c.Who
	return passedText{Terms: terms.String(), Tenant: w.Tenant(), Actor: w.Actor(), Roles: w.Roles(), Scopes: w.Scopes(), Agent: w.Agent(),
		Family: c.Grant.Family, Connection: c.Grant.Connection, Generation: c.Generation}, nil
}

func encodePassed(terms controlv1.ID, c Caller, what controlv1.Action) ([]byte, error) {
	p, err := passing(terms, c)
	if err == nil {
		p.Action, err = controlv1.EncodeAction(what)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(p)
}

func encodeDocument(terms controlv1.ID, c Caller, d ref.Document) ([]byte, error) {
	p, err := passing(terms, c)
	if err != nil {
		return nil, err
	}
	p.Document = d.String()
	return json.Marshal(p)
}

// encodeCall is a question about a call: what is asked of its person, or with their
// word what becomes of that.
func encodeCall(terms controlv1.ID, who identity.Principal, id controlv1.ID, k *controlv1.Confirm) ([]byte, error) {
	p, err := passing(terms, Caller{Who: who})
	if err == nil && k != nil {
		p.Confirm, err = controlv1.EncodePage(*k)
	}
	if err != nil {
		return nil, err
	}
	p.Call = id.String()
	return json.Marshal(p)
}

// decodePassed reads a question strictly: each topic has its own member, and no other.
func decodePassed(topic string, body []byte) (passed, error) {
	var t passedText
	if err := json.Unmarshal(body, &t, json.RejectUnknownMembers(true)); err != nil {
		return passed{}, refusal.InvalidRequest
	}
	who, err := identity.New(identity.Claims{Tenant: t.Tenant, Actor: t.Actor, Roles: t.Roles, Scopes: t.Scopes, Agent: t.Agent})
	if err != nil {
		return passed{}, refusal.InvalidRequest
	}
	p := passed{caller: Caller{Who: who, Generation: t.Generation, Grant: Grant{t.Family, t.Connection}}}
	if p.terms, err = controlv1.ParseID(t.Terms); err != nil {
		return passed{}, refusal.InvalidRequest
	}
	action, document, call := t.Action != nil, t.Document != "", t.Call != ""
	switch {
	case topic == topicDispatch && action && !document && !call && t.Confirm == nil:
		p.action, err = controlv1.DecodeAction(t.Action)
	case topic == topicDocument && document && !action && !call && t.Confirm == nil:
		p.document, err = ref.Parse[ref.DocumentKind](t.Document)
	case topic == topicPrompt && call && !action && !document && t.Confirm == nil:
		p.call, err = controlv1.ParseID(t.Call)
	case topic == topicDecide && call && !action && !document:
		if p.call, err = controlv1.ParseID(t.Call); err == nil && t.Confirm != nil {
			p.confirm, err = decodeConfirm(t.Confirm)
		}
	default:
		err = refusal.InvalidRequest
	}
	if err != nil {
		return passed{}, refusal.InvalidRequest
	}
	return p, nil
}

func decodeConfirm(text []byte) (*controlv1.Confirm, error) {
	f, err := controlv1.DecodePage(text)
	k, ok := f.(controlv1.Confirm)
	if err != nil || !ok {
		return nil, refusal.InvalidRequest
	}
	return &k, nil
}

// promptText is how a prompt travels: the frame as the page got it, and what the
// authority knows beside it.
type promptText struct {
	Frame  jsontext.Value `json:"frame"`
	Class  string         `json:"class"`
	Agent  string         `json:"agent"`
	Origin string         `json:"origin"`
	Route  string         `json:"route"`
}

func encodePrompt(q Prompt) ([]byte, error) {
	frame, err := controlv1.EncodeAuthority(q.ConfirmationRequest)
	if err != nil {
		return nil, err
	}
	return json.Marshal(promptText{frame, string(q.Class), q.Agent, q.Origin.String(), q.Route.String()})
}

func decodePrompt(text []byte) (Prompt, error) {
	var t promptText
	if err := json.Unmarshal(text, &t, json.RejectUnknownMembers(true)); err != nil {
		return Prompt{}, refusal.InvalidRequest
	}
	f, err := controlv1.DecodeAuthority(t.Frame)
	ask, ok := f.(controlv1.ConfirmationRequest)
	q := Prompt{ConfirmationRequest: ask, Class: controlv1.Class(t.Class), Agent: t.Agent}
	if err == nil {
		q.Origin, err = controlv1.ParseOrigin(t.Origin)
	}
	if err == nil {
		q.Route, err = controlv1.ParseID(t.Route)
	}
	if err != nil || !ok || !q.Class.Mutates() {
		return Prompt{}, refusal.InvalidRequest
	}
	return q, nil
}
