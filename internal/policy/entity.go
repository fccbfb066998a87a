package policy

import (
	"time"

	"github.com/cedar-policy/cedar-go"
)

// facts is a request in Cedar's terms, but for the level and the arguments.
type facts struct {
	entities  cedar.EntityMap
	request   cedar.Request // without its context
	at        time.Time
	tainted   bool
	arguments values
}

func uid(kind cedar.EntityType, id string) cedar.EntityUID {
	return cedar.NewEntityUID(kind, cedar.String(id))
}

// newFacts builds a request's entities afresh: they hold for it alone, so an agent
// that acts for two people is in each request below the one that it acts for.
func newFacts(r Request) (facts, error) {
	if err := r.known(); err != nil {
		return facts{}, err
	}
	arguments, err := readValues(r.Arguments)
	if err != nil {
		return facts{}, err
	}
	f := facts{entities: cedar.EntityMap{}, at: r.At, tainted: r.Tainted, arguments: arguments}
	if f.at.IsZero() {
		f.at = time.Now()
	}
	f.request.Principal = f.principal(r)
	f.request.Action = f.action(r.Action)
	f.request.Resource = f.resource(r.Resource)
	return f, nil
}

func (f facts) add(id cedar.EntityUID, attributes cedar.RecordMap, parents ...cedar.EntityUID) cedar.EntityUID {
	f.entities[id] = cedar.Entity{UID: id, Attributes: cedar.NewRecord(attributes), Parents: cedar.NewEntityUIDSet(parents...)}
	return id
}

func (f facts) principal(r Request) cedar.EntityUID {
	var roles []cedar.EntityUID
	for _, role := range r.Who.Roles() {
		roles = append(roles, f.add(uid("Role", role), nil))
	}
	tenant := cedar.String(r.Who.Tenant())
	person := f.add(uid("Person", r.Who.Actor()), cedar.RecordMap{"tenant": tenant}, roles...)
	if r.Who.Agent() == "" {
		return person
	}
	return f.add(uid("Agent", r.Who.Agent()), cedar.RecordMap{"tenant": tenant, "person": person}, person)
}

func (f facts) action(a Action) cedar.EntityUID {
	var group []cedar.EntityUID
	if a == LocalUIMutation || a == AccountMutation {
		group = append(group, f.add(uid("Action", mutate), nil))
	}
	return f.add(uid("Action", string(a)), nil, group...)
}

func (f facts) resource(r Resource) cedar.EntityUID {
	if r.kind == kindEngagement {
		return f.add(uid(kindEngagement, r.name), nil)
	}
	origin := f.add(uid("Origin", r.origin), nil)
	return f.add(uid(cedar.EntityType(r.kind), r.id()), cedar.RecordMap{"route": cedar.String(r.route)}, origin)
}

// context answers the circumstances with arguments as a rule sees them.
func (f facts) context(level Level, arguments cedar.Value) cedar.Record {
	return cedar.NewRecord(cedar.RecordMap{
		"confirmation": uid("Level", string(level)),
		"time":         cedar.NewDatetime(f.at),
		"tainted":      cedar.Boolean(f.tainted),
		"arguments":    arguments,
	})
}
