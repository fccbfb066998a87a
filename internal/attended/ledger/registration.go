package ledger

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/audit"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
)

// RegistrationState is where a registration stands.
type RegistrationState string

const (
	// RegistrationPending was written; no document need point to it yet.
	RegistrationPending RegistrationState = "pending"
	// RegistrationPublished is its document's one active catalog.
	RegistrationPublished RegistrationState = "published"
	// RegistrationRetired is over. It can still be asked for.
	RegistrationRetired RegistrationState = "retired"
)

const (
	registrationRegister verb = "registered"
	registrationPublish  verb = "published"
	registrationRetire   verb = "retired"
)

var registrations = noun{
	name: "registration", table: "attended_registration", key: "registration",
	facts: `registration, tenant, principal, document, arm, binding_digest, generation, catalog_digest, scope_digest, tools, node, reason, created_ms`,
	moves: []step{
		{registrationRegister, "", string(RegistrationPending)},
		{registrationPublish, string(RegistrationPending), string(RegistrationPublished)},
		{registrationRetire, string(RegistrationPending), string(RegistrationRetired)},
		{registrationRetire, string(RegistrationPublished), string(RegistrationRetired)},
	},
}

// DocumentState is where a document's pointer stands.
type DocumentState string

const (
	// DocumentPointed points to the registration that alone is active.
	DocumentPointed DocumentState = "pointed"
	// DocumentCleared points to none.
	DocumentCleared DocumentState = "cleared"
)

const (
	documentPoint verb = "pointed"
	documentClear verb = "cleared"
)

var documents = noun{
	name: "document", table: "attended_document", key: "document",
	facts: `document, tenant, principal, arm, registration, reason`,
	moves: []step{
		{documentPoint, "", string(DocumentPointed)},
		{documentPoint, string(DocumentPointed), string(DocumentPointed)},
		{documentPoint, string(DocumentCleared), string(DocumentPointed)},
		{documentClear, string(DocumentPointed), string(DocumentCleared)},
	},
}

// Registration is what a verb answers of one, and the receipt that channel.ready
// is made from.
type Registration struct {
	ID         controlv1.ID
	State      RegistrationState
	Reason     refusal.Code
	Document   ref.Document
	Arm        ref.Attended
	Binding    controlv1.Digest
	Generation controlv1.Generation
	Catalog    controlv1.Digest
	Scope      controlv1.Digest
	Node       string // the process that holds the channel
}

type registration struct {
	Registration
	tenant, principal, predecessor string
	stand                          stand
}

func findRegistration(tx *tx, id string) (registration, error) {
	var r registration
	var document, arm, binding, catalog, scope, reason string
	var generation int64
	known, err := tx.One(`select tenant, principal, document, arm, binding_digest, generation, catalog_digest, scope_digest, predecessor, node, state, version, reason
		from attended_registration where registration=$1`, []any{id}, &r.tenant, &r.principal, &document, &arm, &binding, &generation, &catalog, &scope,
		&r.predecessor, &r.Node, &r.stand.state, &r.stand.version, &reason)
	switch {
	case err != nil:
		return r, err
	case !known:
		return r, refuse(refusal.UnknownDocument, "no such registration")
	}
	p := parser{}
	r.ID, r.State, r.Reason = parsed(&p, id, controlv1.ParseID), RegistrationState(r.stand.state), refusal.Code(reason)
	r.Document, r.Arm = parsed(&p, document, ref.Parse[ref.DocumentKind]), parsed(&p, arm, ref.Parse[ref.AttendedKind])
	r.Binding, r.Generation = parsed(&p, binding, controlv1.ParseDigest), parsed(&p, generation, controlv1.NewGeneration)
	r.Catalog, r.Scope = parsed(&p, catalog, controlv1.ParseDigest), parsed(&p, scope, controlv1.ParseDigest)
	return r, p.err
}

func (r registration) event(why refusal.Code) event {
	return event{tenant: r.tenant, principal: r.principal, reason: why, public: []audit.Field{audit.Digest("binding", r.Binding.String()),
		audit.Digest("catalog", r.Catalog.String()), audit.ID("arm", r.Arm.String()), audit.ID("document", r.Document.String()), audit.Count("generation", r.Generation.Int())}}
}

// pointer is a document's row.
type pointer struct {
	registration string
	stand        stand
}

func findPointer(tx *tx, document string) (p pointer, known bool, err error) {
	known, err = tx.One(`select registration, state, version from attended_document where document=$1`, []any{document}, &p.registration, &p.stand.state, &p.stand.version)
	return p, known, err
}

// registrationID is the arm's one registration's.
func registrationID(arm ref.Attended) string { return "registration_" + hash(arm.String()) }

// Register writes the first step of a publication: the catalog that the consumed
// arm was bound to, pending. The same again, after a commit whose answer was lost,
// is fine; another is arm_replayed. Refusals: arm_mismatch for another binding or
// catalog, and what Standing tells.
func (b *Book) Register(ctx context.Context, arm ref.Attended, binding controlv1.Digest, catalog controlv1.Catalog) (out Registration, err error) {
	err = b.update(ctx, func(tx *tx) (error, error) {
		now := time.Now()
		a, refused, err := b.consumed(tx, arm, over{}, now)
		if refused != nil || err != nil {
			return refused, err
		}
		if a.Binding != binding || a.Page.Catalog != catalog.Digest() || a.Page.Scope != catalog.Scope() {
			return nil, refuse(refusal.ArmMismatch, "the catalog isn't the one that was armed")
		}
		id := registrationID(arm)
		rows, err := tx.Exec(`insert into attended_registration (registration, tenant, principal, document, arm, binding_digest, generation, catalog_digest, scope_digest,
			tools, predecessor, node, state, version, reason, created_ms, moved_ms) values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,'',$11,$12,1,'',$13,$13) on conflict do nothing`,
			id, a.tenant, a.Evidence.Principal.String(), a.Page.Document.String(), arm.String(), binding.String(), a.Page.Generation.Int(), catalog.Digest().String(),
			catalog.Scope().String(), catalog.Len(), b.node, registrations.born(registrationRegister), now.UnixMilli())
		if err != nil {
			return nil, err
		}
		r, err := findRegistration(tx, id)
		if err != nil {
			return nil, err
		}
		out = r.Registration
		if rows == 0 {
			if r.State != RegistrationPending || r.Node != b.node {
				return nil, refuse(refusal.ArmReplayed, "the catalog was registered before")
			}
			return nil, nil
		}
		if err := writeTools(tx, id, catalog); err != nil {
			return nil, err
		}
		return nil, b.begun(tx, &registrations, id, registrationRegister, r.event(""))
	})
	return out, err
}

func writeTools(tx *tx, id string, catalog controlv1.Catalog) error {
	for n, t := range catalog.Tools() {
		roles, err := json.Marshal(append([]string{}, t.Roles()...))
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`insert into attended_tool (registration, ordinal, tool_id, schema_digest, class, roles) values ($1,$2,$3,$4,$5,$6)`,
			id, n, t.ID().String(), t.Schemas().String(), string(t.Class()), string(roles)); err != nil {
			return err
		}
	}
	return nil
}

// consumed answers an arm that is authority now.
func (b *Book) consumed(tx *tx, id ref.Attended, o over, now time.Time) (a arm, refused, err error) {
	if a, err = b.findArm(tx, id); err != nil {
		return a, nil, err
	}
	if a.State == ArmActive || a.State == ArmGranted {
		return a, nil, refuse(refusal.NoArm, "the arm opened no channel")
	}
	refused, err = b.usable(tx, a, ArmConsumed, o, now)
	return a, refused, err
}

// Point is the second step: it advances the document's pointer to a pending
// registration, and retires the one that it pointed to before.
func (b *Book) Point(ctx context.Context, id controlv1.ID) error {
	return b.update(ctx, func(tx *tx) (error, error) {
		now := time.Now()
		r, refused, err := b.mine(tx, id, now)
		if refused != nil || err != nil {
			return refused, err
		}
		p, known, err := findPointer(tx, r.Document.String())
		if err != nil || known && p.registration == id.String() && p.stand.state == string(DocumentPointed) {
			return nil, err
		}
		if r.State != RegistrationPending {
			return nil, refuse(refusal.Conflict, "the registration is over")
		}
		if !known {
			rows, err := tx.Exec(`insert into attended_document (document, tenant, principal, arm, registration, state, version, reason, moved_ms)
				values ($1,$2,$3,$4,$5,$6,1,'',$7) on conflict do nothing`,
				r.Document.String(), r.tenant, r.principal, r.Arm.String(), id.String(), documents.born(documentPoint), now.UnixMilli())
			if err == nil && rows != 1 {
				err = refuse(refusal.Conflict, "the document was pointed to meanwhile")
			}
			if err != nil {
				return nil, err
			}
			return nil, b.begun(tx, &documents, r.Document.String(), documentPoint, r.event(""))
		}
		return nil, b.advance(tx, r, p, now)
	})
}

// advance moves a pointer that there is already.
func (b *Book) advance(tx *tx, r registration, p pointer, now time.Time) error {
	if p.stand.state == string(DocumentPointed) {
		old, err := findRegistration(tx, p.registration)
		if err != nil {
			return err
		}
		if old.principal != r.principal || old.tenant != r.tenant {
			return refuse(refusal.ArmMismatch, "the document is another person's")
		}
		if mutant != pointerAlone {
			if err := b.retireUnder(tx, old, refusal.Replaced, now); err != nil {
				return err
			}
		}
	}
	if _, err := tx.Exec(`update attended_registration set predecessor=$1 where registration=$2 and version=$3`, p.registration, r.ID.String(), r.stand.version); err != nil {
		return err
	}
	if _, err := tx.Exec(`update attended_document set principal=$1, arm=$2, registration=$3 where document=$4 and version=$5`,
		r.principal, r.Arm.String(), r.ID.String(), r.Document.String(), p.stand.version); err != nil {
		return err
	}
	return b.move(tx, &documents, r.Document.String(), documentPoint, p.stand, r.event(""), now)
}

// Publish is the third step. The same again is fine. It answers the receipt that
// alone may make the page ready.
func (b *Book) Publish(ctx context.Context, id controlv1.ID) (out Registration, err error) {
	err = b.update(ctx, func(tx *tx) (error, error) {
		now := time.Now()
		r, refused, err := b.mine(tx, id, now)
		if refused != nil || err != nil {
			return refused, err
		}
		p, known, err := findPointer(tx, r.Document.String())
		if err != nil {
			return nil, err
		}
		if (!known || p.registration != id.String() || p.stand.state != string(DocumentPointed)) && mutant != publishBlindly {
			return nil, refuse(refusal.Conflict, "the document points elsewhere")
		}
		out = r.Registration
		out.State = RegistrationPublished
		if r.State == RegistrationPublished {
			return nil, nil
		}
		return nil, b.move(tx, &registrations, id.String(), registrationPublish, r.stand, r.event(""), now)
	})
	return out, err
}

// mine answers a registration whose arm is authority now.
func (b *Book) mine(tx *tx, id controlv1.ID, now time.Time) (r registration, refused, err error) {
	if r, err = findRegistration(tx, id.String()); err != nil {
		return r, nil, err
	}
	if r.tenant != b.tenant {
		return r, nil, refuse(refusal.UnknownDocument, "no such registration")
	}
	_, refused, err = b.consumed(tx, r.Arm, over{}, now)
	return r, refused, err
}

// retire ends a registration, clears its document's pointer, and ends the leases
// and calls under it.
func (b *Book) retire(tx *tx, r registration, why refusal.Code, now time.Time) error {
	p, known, err := findPointer(tx, r.Document.String())
	if err != nil {
		return err
	}
	if known && p.registration == r.ID.String() && p.stand.state == string(DocumentPointed) {
		if err := b.move(tx, &documents, r.Document.String(), documentClear, p.stand, r.event(why), now); err != nil {
			return err
		}
	}
	if r.predecessor != "" { // its exact journal predecessor, where a fault left it
		old, err := findRegistration(tx, r.predecessor)
		if err != nil {
			return err
		}
		if err := b.retireUnder(tx, old, why, now); err != nil {
			return err
		}
	}
	return b.retireUnder(tx, r, why, now)
}

// retireUnder ends a registration that isn't over and what is under it.
func (b *Book) retireUnder(tx *tx, r registration, why refusal.Code, now time.Time) error {
	if registrations.over(r.stand.state) {
		return nil
	}
	if mutant != leaseSurvives {
		if err := b.endLeases(tx, why, false, now, `registration=$1`, r.ID.String()); err != nil {
			return err
		}
	}
	// What a lease that is over left running has no page any more either.
	err := b.stopCalls(tx, why, false, now, `lease in (select lease from attended_lease where registration=$1)`, r.ID.String())
	if err != nil {
		return err
	}
	return b.move(tx, &registrations, r.ID.String(), registrationRetire, r.stand, r.event(why), now)
}

// tool is what a registration says of one of its tools.
type tool struct {
	schemas string
	class   controlv1.Class
	roles   []string
}

func findTool(tx *tx, registration string, id controlv1.ID) (t tool, err error) {
	var roles, class string
	known, err := tx.One(`select schema_digest, class, roles from attended_tool where registration=$1 and tool_id=$2`, []any{registration, id.String()}, &t.schemas, &class, &roles)
	if err == nil && !known {
		err = refuse(refusal.UnknownTool, "no such tool in the catalog")
	}
	if err == nil {
		err = json.Unmarshal([]byte(roles), &t.roles)
	}
	t.class = controlv1.Class(class)
	return t, err
}

// allows tells whether every required role is among those that a caller has.
func (t tool) allows(roles []string) bool {
	for _, r := range t.roles {
		if !slices.Contains(roles, r) {
			return false
		}
	}
	return true
}
