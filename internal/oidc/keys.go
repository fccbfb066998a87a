package oidc

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"chaperone/internal/refusal"
)

// refetch is how often an unknown key may make us ask for the keys again.
const refetch = time.Minute

// keySet is the provider's keys. It is what go-oidc's verifier checks signatures
// with.
type keySet struct {
	party *Party

	mu      sync.Mutex // over what follows; held while the keys are fetched, so that callers share one fetch
	keys    []jose.JSONWebKey
	fetched time.Time // the last attempt
}

// VerifySignature answers the payload of a token that one of the provider's keys
// signed, by that key's own algorithm.
func (s *keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	doc, err := s.party.provider(ctx)
	if err != nil {
		return nil, err
	}
	h, err := readHeader(token, doc.Algorithms)
	if err != nil {
		return nil, err
	}
	k, err := s.find(ctx, doc, h)
	if err != nil {
		return nil, err
	}
	jws, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(h.Algorithm)})
	if err != nil {
		return nil, fmt.Errorf("token: it doesn't parse: %w", refusal.BadToken)
	}
	payload, err := jws.Verify(k.Key)
	if err != nil {
		return nil, fmt.Errorf("token: its signature isn't the provider's: %w", refusal.BadToken)
	}
	return payload, nil
}

// find answers the key that a header names. An unknown one makes us ask for the
// keys again, at most once a minute whatever anybody sends us.
func (s *keySet) find(ctx context.Context, doc *document, h header) (jose.JSONWebKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := choose(s.keys, h); ok {
		return k, nil
	}
	if !s.fetched.IsZero() && time.Since(s.fetched) < refetch {
		return jose.JSONWebKey{}, fmt.Errorf("token: no such key of the provider: %w", refusal.BadToken)
	}
	s.fetched = time.Now()
	data, err := s.party.fetch(ctx, http.MethodGet, doc.Keys, nil, nil)
	if err != nil {
		return jose.JSONWebKey{}, err
	}
	keys, err := readKeys(data)
	if err != nil {
		return jose.JSONWebKey{}, err
	}
	s.keys = keys
	k, ok := choose(keys, h)
	if !ok {
		return jose.JSONWebKey{}, fmt.Errorf("token: no such key of the provider: %w", refusal.BadToken)
	}
	return k, nil
}

// choose answers the key with the header's id; without an id, the only one of
// its algorithm.
func choose(keys []jose.JSONWebKey, h header) (found jose.JSONWebKey, ok bool) {
	for _, k := range keys {
		if fixed(k) != h.Algorithm || h.KeyID != "" && k.KeyID != h.KeyID {
			continue
		}
		if ok {
			return jose.JSONWebKey{}, false
		}
		found, ok = k, true
	}
	return found, ok
}
