package telemetry

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"chaperone/internal/refusal"
)

// Collector is where traces go.
type Collector struct {
	url     string
	headers map[string]string
}

// OTLP is a collector by its address; where that has no path, it is OTLP's own.
func OTLP(address string) (Collector, error) {
	u, err := parse(address)
	if err != nil {
		return Collector{}, err
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return Collector{url: u.String()}, nil
}

// Langfuse is its OTLP endpoint, with a project's keys.
func Langfuse(address, publicKey, secretKey string) (Collector, error) {
	u, err := parse(address)
	if err != nil || publicKey == "" || secretKey == "" {
		return Collector{}, fmt.Errorf("langfuse needs an address and both keys: %w", refusal.BadDocument)
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/api/public/otel/v1/traces"
	basic := base64.StdEncoding.EncodeToString([]byte(publicKey + ":" + secretKey))
	return Collector{u.String(), map[string]string{"Authorization": "Basic " + basic}}, nil
}

// String keeps the keys out of logs.
func (Collector) String() string { return "telemetry.Collector" }

// GoString keeps the keys out of %#v.
func (Collector) GoString() string { return "telemetry.Collector" }

func parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("no address of a collector: %w", refusal.BadDocument)
	}
	return u, nil
}

// sendTime bounds one upload.
const sendTime = 10 * time.Second

// sink is one collector while the exporter runs.
type sink struct {
	client otlptrace.Client
	seen   *watched
}

// open makes the official exporter's client. Everything is said here, so that the
// environment says nothing.
func (c Collector) open(ctx context.Context) (*sink, error) {
	seen := &watched{of: &http.Transport{ForceAttemptHTTP2: true, MaxIdleConns: 2, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: sendTime}}
	headers := c.headers
	if headers == nil {
		headers = map[string]string{}
	}
	client := otlptracehttp.NewClient(
		otlptracehttp.WithEndpointURL(c.url), otlptracehttp.WithHeaders(headers), otlptracehttp.WithTimeout(sendTime),
		otlptracehttp.WithCompression(otlptracehttp.NoCompression), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}),
		otlptracehttp.WithHTTPClient(&http.Client{Transport: seen, Timeout: sendTime,
			// A redirect would carry the keys to wherever it points.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}),
	)
	return &sink{client, seen}, client.Start(ctx)
}

func (s *sink) upload(ctx context.Context, spans []*trace.ResourceSpans) error {
	s.seen.status.Store(0)
	return s.client.UploadTraces(ctx, spans)
}

// answered tells whether the last upload was answered by somebody who won't take it:
// not one who is busy, or isn't there.
func (s *sink) answered() bool {
	switch status := s.seen.status.Load(); {
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500:
		return false
	default:
		return status != 0
	}
}

func (s *sink) close() { s.seen.of.CloseIdleConnections() }

// watched notes the last status.
type watched struct {
	of     *http.Transport
	status atomic.Int64
}

// RoundTrip does what the transport does.
func (w *watched) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.of.RoundTrip(r)
	if err == nil {
		w.status.Store(int64(resp.StatusCode))
	}
	return resp, err
}
