package live

import (
	"context"
	"errors"
	"sync"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/relay"
)

// What one node asks another, and what it tells all. The node that asks has
// authenticated the caller; the one that answers has the page, and judges everything
// else itself, over the one database, as if the caller had come to it.
const (
	topicDispatch = "dispatch" // an action of a caller's: its answer
	topicDocument = "document" // one live document of a caller's: as list_documents tells it
	topicPrompt   = "prompt"   // what a person is asked of one call
	topicDecide   = "decide"   // a person's word to it
	topicCall     = "call"     // a hint: that call was moved
	topicArm      = "arm"      // a hint: that arm has ended
)

// elsewhere answers which other node holds a person's document, "" where it is this
// one's, nobody's, or was asked for from another node already: nothing goes further
// than once.
func (a *Authority) elsewhere(ctx context.Context, c Caller, d ref.Document) string {
	if c.relayed || a.Bus.Alone() || a.channel(d) != nil {
		return ""
	}
	node, err := a.Book.Where(ctx, a.Principal(c.Who), d)
	return a.other(node, err)
}

// carried answers which other node carries a call that isn't under way here.
func (a *Authority) carried(ctx context.Context, c Caller, id controlv1.ID) string {
	if c.relayed || a.Bus.Alone() || a.flight(id) != nil {
		return ""
	}
	node, err := a.Book.Carrier(ctx, a.Principal(c.Who), id)
	return a.other(node, err)
}

// other is a node that isn't this one. Where the database didn't say, what follows
// meets that itself.
func (a *Authority) other(node string, err error) string {
	if err != nil || node == a.Book.Node() {
		return ""
	}
	return node
}

// pass asks another node for an action. Where away is told, nothing came of it that
// can be told from here, and the record is what there is: relay.ErrGone, which is that
// it wasn't asked, or relay.ErrLost.
func (a *Authority) pass(ctx context.Context, node string, c Caller, what controlv1.Action) (answer Answer, away, err error) {
	body, err := encodePassed(a.terms, c, what)
	if err != nil {
		return nil, nil, err
	}
	text, err := a.Bus.Ask(ctx, node, topicDispatch, body)
	if lost(err) {
		return nil, err, nil
	}
	if err != nil {
		return nil, nil, err
	}
	answer, err = decodeAnswer(what, text)
	if err != nil {
		return nil, relay.ErrLost, nil
	}
	return answer, nil, nil
}

// lost tells whether an error is the bus's own, and no other node's word.
func lost(err error) bool { return errors.Is(err, relay.ErrGone) || errors.Is(err, relay.ErrLost) }

// decodeAnswer reads what another node answered, by what it was asked.
func decodeAnswer(what controlv1.Action, text []byte) (Answer, error) {
	switch what.(type) {
	case controlv1.ListDocuments:
		return answered(controlv1.DecodeDocuments(text))
	case controlv1.IssueLease, controlv1.RevokeLease:
		return answered(controlv1.DecodeLeaseReceipt(text))
	}
	return answered(controlv1.DecodeReceipt(text))
}

func answered[A Answer](a A, err error) (Answer, error) {
	if err != nil {
		return nil, err
	}
	return a, nil
}

// asking is how many nodes are asked at once for one answer.
const asking = 8

// distant asks other nodes for their documents. What a node that is gone held isn't
// live any more; away is that something couldn't be asked for.
func (a *Authority) distant(ctx context.Context, c Caller, rows []ledger.Document) (all []controlv1.Document, away error) {
	found := make([][]controlv1.Document, len(rows))
	troubles := make([]error, len(rows))
	var tasks sync.WaitGroup
	room := make(chan struct{}, asking)
	for i, r := range rows {
		body, err := encodeDocument(a.terms, c, r.Document)
		if err != nil {
			return nil, err
		}
		room <- struct{}{}
		tasks.Go(func() {
			defer func() { <-room }()
			ctx, cancel := context.WithTimeout(ctx, sendTime)
			defer cancel()
			text, err := a.Bus.Ask(ctx, r.Node, topicDocument, body)
			if err == nil {
				var d controlv1.Documents
				d, err = controlv1.DecodeDocuments(text)
				found[i] = d.All
			}
			troubles[i] = err
		})
	}
	tasks.Wait()
	for i := range rows {
		all = append(all, found[i]...)
		if err := troubles[i]; err != nil && (!errors.Is(err, relay.ErrGone) || a.Bus.Err() != nil) {
			away = err
		}
	}
	return all, away
}

// Asked answers another node. See relay.Side.
func (a *Authority) Asked(ctx context.Context, topic string, body []byte) ([]byte, error) {
	p, err := decodePassed(topic, body)
	if err != nil {
		return nil, err
	}
	if p.terms != a.terms {
		return nil, refusal.AuthorityLost // its node decides by other rules
	}
	c, err := a.passedCaller(ctx, p)
	if err != nil {
		return nil, err
	}
	switch topic {
	case topicDispatch:
		answer, err := a.Dispatch(ctx, c, p.action)
		if err != nil {
			return nil, err
		}
		return answer.Encode()
	case topicDocument:
		return a.document(ctx, c, p.document)
	case topicPrompt:
		f := a.flight(p.call)
		if f == nil || f.c.evidence.Principal != a.Principal(c.Who) {
			return nil, refusal.UnknownCall
		}
		q, asking := f.prompt()
		if !asking {
			return nil, refusal.UnknownCall
		}
		return encodePrompt(q)
	case topicDecide:
		_, err := a.decide(ctx, c.Who, p.call, p.confirm)
		return []byte("{}"), err
	}
	return nil, refusal.InvalidRequest
}

// passedCaller is a caller as another node told of it, judged anew: the token that
// they showed there is over where its grant is, or is another's now.
func (a *Authority) passedCaller(ctx context.Context, p passed) (Caller, error) {
	c := p.caller
	c.relayed = true
	if c.Grant == (Grant{}) {
		return c, nil
	}
	if a.Grants == nil {
		return c, refusal.AuthorityLost
	}
	c.Look = func(ctx context.Context) (int64, error) { return a.Grants(ctx, c.Grant) }
	generation, err := c.Look(ctx)
	if err == nil && generation != c.Generation {
		err = refusal.AuthorityLost
	}
	return c, err
}

// document is one live document of a caller's that is here; an empty list for none.
func (a *Authority) document(ctx context.Context, c Caller, d ref.Document) ([]byte, error) {
	rows, err := a.Book.Documents(ctx, a.Principal(c.Who))
	if err != nil {
		return nil, err
	}
	var out controlv1.Documents
	for _, r := range rows {
		if r.Document == d {
			out.All = append(out.All, a.here(r)...)
		}
	}
	return out.Encode()
}
