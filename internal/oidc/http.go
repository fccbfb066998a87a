package oidc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"chaperone/internal/refusal"
)

const (
	maxAnswer = 64 << 10 // bytes of anything that a provider answers
	patience  = 10 * time.Second
)

// bounded answers a client that follows no redirect and waits ten seconds.
func bounded(given *http.Client) *http.Client {
	c := &http.Client{}
	if given != nil {
		*c = *given
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if c.Timeout == 0 || c.Timeout > patience {
		c.Timeout = patience
	}
	c.Jar = nil
	return c
}

// fetch asks the provider and answers the body of a 200. Anything else, and more
// than maxAnswer bytes, is [refusal.ProviderError]; its words aren't repeated.
func (p *Party) fetch(ctx context.Context, method, to string, form url.Values, auth func(*http.Request)) ([]byte, error) {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(ctx, method, to, body)
	if err != nil {
		return nil, fmt.Errorf("the provider's address can't be asked: %w", refusal.ProviderError)
	}
	r.Header.Set("Accept", "application/json")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if auth != nil {
		auth(r)
	}
	resp, err := p.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("the provider can't be reached: %w", refusal.ProviderError)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the provider's answer broke off: %w", refusal.ProviderError)
	case len(data) > maxAnswer:
		return nil, fmt.Errorf("the provider's answer is over %d bytes: %w", maxAnswer, refusal.ProviderError)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the provider answered with status %d: %w", resp.StatusCode, refusal.ProviderError)
	}
	return bytes.TrimSpace(data), nil
}

// authenticate adds the client's own credentials to a form or a request.
func (p *Party) authenticate(doc *document, form url.Values) func(*http.Request) {
	post := len(doc.TokenAuth) > 0
	for _, method := range doc.TokenAuth {
		post = post && method != "client_secret_basic"
	}
	if p.ClientSecret == "" || post {
		form.Set("client_id", p.ClientID)
		if p.ClientSecret != "" {
			form.Set("client_secret", p.ClientSecret)
		}
		return nil
	}
	return func(r *http.Request) {
		// RFC 6749, section 2.3.1: each half is form-encoded first.
		r.SetBasicAuth(url.QueryEscape(p.ClientID), url.QueryEscape(p.ClientSecret))
	}
}
