package idptest

import (
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
)

// Agent is a browser without a screen: it keeps cookies by host (for the ones
// marked Secure it trusts http too, as browsers do for localhost), follows
// redirects and sends forms. What is addressed to Origin goes to Handler, in
// this process; all else goes over the network.
type Agent struct {
	Origin  string
	Handler http.Handler
	Network *http.Client // nil: the default one

	// Stop, where set, is asked before each request; an answer of true ends there
	// and leaves the request unsent.
	Stop func(u *url.URL) bool

	cookies map[string]map[string]string
}

// Page is what an agent ended at.
type Page struct {
	URL    *url.URL
	Status int
	Header http.Header
	Body   string
}

// maxHops bounds the redirects of one navigation.
const maxHops = 20

// Get opens a URL, which may be relative to Origin.
func (a *Agent) Get(to string) (Page, error) { return a.open(http.MethodGet, to, nil) }

// Post sends a form.
func (a *Agent) Post(to string, form url.Values) (Page, error) {
	return a.open(http.MethodPost, to, form)
}

func (a *Agent) open(method, to string, form url.Values) (Page, error) {
	base, err := url.Parse(a.Origin)
	if err != nil {
		return Page{}, err
	}
	u, err := base.Parse(to)
	if err != nil {
		return Page{}, err
	}
	for range maxHops {
		if a.Stop != nil && a.Stop(u) {
			return Page{URL: u}, nil
		}
		p, err := a.once(method, u, form)
		if err != nil {
			return Page{}, err
		}
		next := p.Header.Get("Location")
		if p.Status < 300 || p.Status > 399 || next == "" {
			return p, nil
		}
		if u, err = u.Parse(next); err != nil {
			return Page{}, err
		}
		method, form = http.MethodGet, nil
	}
	return Page{}, errors.New("too many redirects")
}

// once sends one request and keeps its cookies.
func (a *Agent) once(method string, u *url.URL, form url.Values) (Page, error) {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	plain := *u
	plain.Fragment = ""
	r, err := http.NewRequest(method, plain.String(), body)
	if err != nil {
		return Page{}, err
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", u.Scheme+"://"+u.Host)
	}
	r.Header.Set("User-Agent", "idptest")
	for name, value := range a.cookies[u.Host] {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	resp, err := a.Do(r)
	if err != nil {
		return Page{}, err
	}
	defer resp.Body.Close()
	for _, c := range resp.Cookies() {
		if c.MaxAge < 0 || c.Value == "" {
			delete(a.cookies[u.Host], c.Name)
			continue
		}
		a.Plant(u.Host, c.Name, c.Value)
	}
	data, err := io.ReadAll(resp.Body)
	return Page{URL: u, Status: resp.StatusCode, Header: resp.Header, Body: string(data)}, err
}

// Do sends one request as it is, without cookies and redirects.
func (a *Agent) Do(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme+"://"+r.URL.Host == a.Origin {
		w := httptest.NewRecorder()
		in := r.Clone(r.Context())
		in.RequestURI, in.RemoteAddr, in.Host = r.URL.RequestURI(), "127.0.0.1:1", r.URL.Host
		if in.Body == nil {
			in.Body = http.NoBody
		}
		a.Handler.ServeHTTP(w, in)
		return w.Result(), nil
	}
	c := http.Client{}
	if a.Network != nil {
		c = *a.Network
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c.Do(r)
}

// Plant sets a cookie of a host.
func (a *Agent) Plant(host, name, value string) {
	if a.cookies == nil {
		a.cookies = map[string]map[string]string{}
	}
	if a.cookies[host] == nil {
		a.cookies[host] = map[string]string{}
	}
	a.cookies[host][name] = value
}

// Cookie answers a cookie of Origin, "" where there is none.
func (a *Agent) Cookie(name string) string {
	u, err := url.Parse(a.Origin)
	if err != nil {
		return ""
	}
	return a.cookies[u.Host][name]
}

var (
	metaTag  = regexp.MustCompile(`<meta name="([^"]+)" content="([^"]*)"`)
	formTag  = regexp.MustCompile(`(?s)<form\b([^>]*)>(.*?)</form>`)
	inputTag = regexp.MustCompile(`<input\b[^>]*>`)
	action   = regexp.MustCompile(`\baction="([^"]*)"`)
	name     = regexp.MustCompile(`\bname="([^"]*)"`)
	value    = regexp.MustCompile(`\bvalue="([^"]*)"`)
)

// Meta answers a page's meta content of that name, "" where there is none.
func (p Page) Meta(name string) string {
	for _, m := range metaTag.FindAllStringSubmatch(p.Body, -1) {
		if m[1] == name {
			return html.UnescapeString(m[2])
		}
	}
	return ""
}

// Submit sends a page's first form with these fields filled in.
func (a *Agent) Submit(p Page, fill url.Values) (Page, error) {
	m := formTag.FindStringSubmatch(p.Body)
	if m == nil {
		return Page{}, fmt.Errorf("%s (%d) has no form", p.URL, p.Status)
	}
	form := url.Values{}
	for _, tag := range inputTag.FindAllString(m[2], -1) {
		if n := name.FindStringSubmatch(tag); n != nil {
			v := value.FindStringSubmatch(tag)
			if v == nil {
				v = []string{"", ""}
			}
			form.Set(html.UnescapeString(n[1]), html.UnescapeString(v[1]))
		}
	}
	for n, v := range fill {
		form[n] = v
	}
	to := p.URL.String()
	if at := action.FindStringSubmatch(m[1]); at != nil && at[1] != "" {
		u, err := p.URL.Parse(html.UnescapeString(at[1]))
		if err != nil {
			return Page{}, err
		}
		to = u.String()
	}
	return a.Post(to, form)
}
