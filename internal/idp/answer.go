package idp

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/credential"
)

// recorder keeps an answer in memory. What the provider answers is small.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recorder) Write(data []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(data)
}

// response makes what was kept an answer to request.
func (r *recorder) response(request *http.Request) *http.Response {
	r.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: http.StatusText(r.status), StatusCode: r.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.header, Body: io.NopCloser(&r.body), ContentLength: int64(r.body.Len()), Request: request,
	}
}

// send copies what was kept to w.
func (r *recorder) send(w http.ResponseWriter) {
	for name, values := range r.header {
		w.Header()[name] = values
	}
	r.WriteHeader(http.StatusOK)
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body.Bytes()) // the other side hung up
}

// named adds `iss` to each redirect to the client, good or bad (RFC 9207).
func (p *Provider) named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept := &recorder{header: http.Header{}}
		next.ServeHTTP(kept, r)
		to := kept.header.Get("Location")
		if at, _, _ := strings.Cut(to, "?"); at != to && slices.Contains(p.client.redirects, at) {
			if u, err := url.Parse(to); err == nil {
				q := u.Query()
				q.Set("iss", p.issuer)
				u.RawQuery = q.Encode()
				kept.header.Set("Location", u.String())
			}
		}
		if kept.status >= 400 {
			// The library's text repeats what it was sent; ours doesn't.
			p.refusePage(w, r, http.StatusBadRequest)
			return
		}
		kept.send(w)
	})
}

// worded answers what the library refuses by OAuth's word for it alone: its own
// text repeats what it was sent.
func (p *Provider) worded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept := &recorder{header: http.Header{}}
		next.ServeHTTP(kept, r)
		if kept.status < 400 {
			kept.send(w)
			return
		}
		var said struct {
			Error string `json:"error"`
		}
		word := map[int]string{http.StatusUnauthorized: "invalid_client", http.StatusForbidden: "access_denied", http.StatusInternalServerError: "server_error"}[kept.status]
		if json.Unmarshal(kept.body.Bytes(), &said) == nil && slices.Contains(oauthWords, said.Error) {
			word = said.Error
		}
		if word == "" {
			word = "invalid_request"
		}
		if told := kept.header.Get("WWW-Authenticate"); told != "" {
			w.Header().Set("WWW-Authenticate", told)
		}
		answer(w, kept.status, map[string]string{"error": word})
	})
}

// oauthWords are the errors of RFC 6749, 6750 and 7009 that the library answers.
var oauthWords = []string{"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
	"invalid_token", "insufficient_scope", "unsupported_token_type", "access_denied", "server_error"}

// discovery adds to the library's document what it doesn't tell and takes out
// what isn't reachable here.
func (p *Provider) discovery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept := &recorder{header: http.Header{}}
		next.ServeHTTP(kept, r)
		var doc map[string]jsontext.Value
		if kept.status != http.StatusOK || json.Unmarshal(kept.body.Bytes(), &doc) != nil {
			http.Error(w, "", http.StatusInternalServerError)
			return
		}
		for _, name := range []string{"device_authorization_endpoint", "registration_endpoint"} {
			delete(doc, name)
		}
		for name, value := range map[string]any{
			"acr_values_supported":                           []string{credential.Passkeyed, credential.Recovered},
			"authorization_response_iss_parameter_supported": true,
			"response_types_supported":                       []string{"code"},
			"grant_types_supported":                          []string{"authorization_code"},
			"token_endpoint_auth_methods_supported":          []string{"client_secret_basic"},
			"prompt_values_supported":                        []string{"login"},
		} {
			data, err := json.Marshal(value)
			if err != nil {
				http.Error(w, "", http.StatusInternalServerError)
				return
			}
			doc[name] = data
		}
		answer(w, http.StatusOK, doc)
	})
}

// answer writes JSON.
func answer(w http.ResponseWriter, status int, value any) {
	data, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // the other side hung up
}
