package browser

import (
	"context"
	"strings"

	"chaperone/internal/owned/ownedv1"
)

// NetworkResult answers NetworkLog, the oldest request first.
type NetworkResult struct {
	Requests []Request `json:"requests"` // at most MaxNetworkLog
	Dropped  int       `json:"dropped,omitzero"`
}

// Request is one request of a tab. It holds no query, no body, no cookie and no
// header but those of logged.
type Request struct {
	Method   string            `json:"method"`
	URL      string            `json:"url"` // scheme, host and path
	Type     string            `json:"type,omitzero"`
	Status   int               `json:"status,omitzero"` // 0: no response
	Headers  map[string]string `json:"headers,omitempty"`
	Bytes    int64             `json:"bytes,omitzero"` // received, as on the wire
	StartMS  int64             `json:"start_ms"`       // since the tab's first request
	TookMS   int64             `json:"took_ms,omitzero"`
	Cached   bool              `json:"cached,omitzero"`
	Failed   string            `json:"failed,omitzero"` // the engine's word for it
	Pending  bool              `json:"pending,omitzero"`
	id       string
	began    float64
	redirect bool
}

// logged lists the response headers that a log may show.
var logged = []string{"Content-Type", "Content-Length", "Content-Encoding", "Cache-Control", "Retry-After", "Allow"}

// netLog is a tab's last requests. Browser.mu guards it.
type netLog struct {
	list    []*Request
	dropped int
	first   float64 // the engine's clock at the first request, in seconds
}

// The parts of the events that are kept; the rest is skipped unread.
type (
	requestSent struct {
		RequestID string  `json:"requestId"`
		Timestamp float64 `json:"timestamp"`
		Type      string  `json:"type"`
		Request   struct {
			URL    string `json:"url"`
			Method string `json:"method"`
		} `json:"request"`
		RedirectResponse *requestAnswer `json:"redirectResponse"`
	}
	requestAnswer struct {
		Status    int               `json:"status"`
		Headers   map[string]string `json:"headers"`
		FromCache bool              `json:"fromDiskCache"`
	}
	responseReceived struct {
		RequestID string        `json:"requestId"`
		Type      string        `json:"type"`
		Response  requestAnswer `json:"response"`
	}
	loadingFinished struct {
		RequestID string  `json:"requestId"`
		Timestamp float64 `json:"timestamp"`
		Length    float64 `json:"encodedDataLength"`
	}
	loadingFailed struct {
		RequestID string  `json:"requestId"`
		Timestamp float64 `json:"timestamp"`
		ErrorText string  `json:"errorText"`
		Blocked   string  `json:"blockedReason"`
	}
	servedFromCache struct {
		RequestID string `json:"requestId"`
	}
)

func onRequest(s *session, e requestSent) {
	if s.tab == nil || strings.HasPrefix(e.Request.URL, "data:") {
		return
	}
	log := &s.tab.network
	if e.RedirectResponse != nil {
		if r := log.find(e.RequestID); r != nil {
			r.answered(*e.RedirectResponse)
			r.ended(e.Timestamp)
			r.redirect = true // its id goes on with the next hop
		}
	}
	if len(log.list) == 0 && log.dropped == 0 {
		log.first = e.Timestamp
	}
	if len(log.list) >= MaxNetworkLog {
		log.list = append(log.list[:0], log.list[1:]...)
		log.dropped++
	}
	log.list = append(log.list, &Request{
		Method: cleanText(e.Request.Method, 20), URL: bareURL(e.Request.URL), Type: strings.ToLower(cleanText(e.Type, 20)),
		StartMS: int64((e.Timestamp - log.first) * 1000), Pending: true, id: e.RequestID, began: e.Timestamp,
	})
}

func onResponse(s *session, e responseReceived) {
	if r := s.request(e.RequestID); r != nil {
		r.answered(e.Response)
	}
}

func onFinished(s *session, e loadingFinished) {
	if r := s.request(e.RequestID); r != nil {
		r.ended(e.Timestamp)
		r.Bytes = int64(e.Length)
	}
}

func onFailed(s *session, e loadingFailed) {
	if r := s.request(e.RequestID); r != nil {
		r.ended(e.Timestamp)
		r.Failed = cleanText(e.ErrorText, 60)
		if e.Blocked != "" {
			r.Failed = cleanText("blocked: "+e.Blocked, 60)
		}
	}
}

func onCached(s *session, e servedFromCache) {
	if r := s.request(e.RequestID); r != nil {
		r.Cached = true
	}
}

func (s *session) request(id string) *Request {
	if s.tab == nil {
		return nil
	}
	return s.tab.network.find(id)
}

// find answers the last hop of a request. The newest are the likeliest.
func (l *netLog) find(id string) *Request {
	for i := len(l.list) - 1; i >= 0; i-- {
		if r := l.list[i]; r.id == id && !r.redirect {
			return r
		}
	}
	return nil
}

func (r *Request) answered(a requestAnswer) {
	r.Status, r.Cached = a.Status, r.Cached || a.FromCache
	for name, value := range a.Headers {
		for _, known := range logged {
			if strings.EqualFold(name, known) {
				if r.Headers == nil {
					r.Headers = make(map[string]string)
				}
				r.Headers[known] = cleanText(value, 200)
			}
		}
	}
}

func (r *Request) ended(at float64) {
	r.Pending = false
	r.TookMS = max(0, int64((at-r.began)*1000))
}

func networkLog(_ context.Context, on *act, a ownedv1.Action) (any, error) {
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	r := NetworkResult{Requests: make([]Request, len(t.network.list)), Dropped: t.network.dropped}
	for i, entry := range t.network.list {
		r.Requests[i] = *entry
	}
	if a.(NetworkLog).Clear {
		t.network = netLog{}
	}
	return r, nil
}
